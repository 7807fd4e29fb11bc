"""What files and the objects of a cluster come to together."""

from pathlib import Path

from tests.unit.policy.test_load import Json, exception, policy, pool, write
from webhook.model.rules import Rules
from webhook.policy.load import load
from webhook.policy.settle import NO_FILES, Settled, settle

NOW = 1_790_000_000.0
NOTHING = Settled(Rules())


def stored(obj: Json, uid: str = "", created: str = "2026-01-01T00:00:00Z") -> Json:
    uid = uid or f"{obj['kind']} {obj['metadata']['name']}"
    return {**obj, "metadata": {**obj["metadata"], "uid": uid, "creationTimestamp": created}}


def standings(settled: Settled) -> dict[str, tuple[str, str]]:
    return {one.object["metadata"]["name"]: (one.reason, one.message) for one in settled.standings}


def test_objects_of_every_kind_count_the_older_policy_first() -> None:
    young = stored(policy("a"), created="2026-02-01T00:00:00Z")
    objects = [young, stored(policy("b")), stored(pool("c")), stored(exception("d"))]
    settled = settle(objects, NO_FILES, NOTHING, NOW)
    assert [one.name for one in settled.rules.policies] == ["b", "a"]
    assert (len(settled.rules.pools), len(settled.rules.exceptions)) == (1, 1)
    assert set(standings(settled).values()) == {("InForce", "")}


def test_an_object_that_turns_bad_counts_as_before_and_one_that_never_was_good_does_not() -> None:
    first = settle([stored(policy("one", priority=3))], NO_FILES, NOTHING, NOW)
    bad = [stored(policy("one", priority="high")), stored(policy("two", rum=1)), stored(pool("three", order="x"))]
    second = settle(bad, NO_FILES, first, NOW)
    assert [(one.name, one.priority) for one in second.rules.policies] == [("one", 3)]
    assert (second.rules.never_good, second.rules.pools) == (("two",), ())
    reason, message = standings(second)["one"]
    assert (reason, message.endswith("(what it said before counts on)")) == ("Invalid", True)
    assert message.startswith("spec.priority: ")
    assert standings(second)["two"][1].endswith("(never good, so it does not count)")
    assert settle(bad, NO_FILES, second, NOW) == second
    mended = settle([stored(policy("one", priority=4))], NO_FILES, second, NOW)
    assert [one.priority for one in mended.rules.policies] == [4]
    assert settle([], NO_FILES, second, NOW) == NOTHING


def test_another_object_of_the_same_name_has_not_been_good_yet() -> None:
    first = settle([stored(policy("one"), uid="1")], NO_FILES, NOTHING, NOW)
    second = settle([stored(policy("one", rum=1), uid="2")], NO_FILES, first, NOW)
    assert (second.rules.policies, second.rules.never_good) == ((), ("one",))


def test_a_file_goes_before_an_object_of_its_name_and_steers_as_the_oldest(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", policy("one", room="Prefer"), policy("z"), policy("bad", rum=1))
    files = load(tmp_path)
    settled = settle([stored(policy("one")), stored(policy("bad")), stored(pool("one"))], files, NOTHING, NOW)
    assert [(one.name, one.room) for one in settled.rules.policies] == [
        ("one", "Prefer"),
        ("z", "Require"),
        ("bad", "Require"),
    ]
    assert settled.rules.never_good == ()
    told = {(one.object["kind"], one.object["metadata"]["name"]): one for one in settled.standings}
    overruled = told["TrainingPolicy", "one"]
    assert (overruled.reason, overruled.ready) == ("Overruled", False)
    assert overruled.message == f"{tmp_path / 'a.yaml'} has one of the same name, which counts"
    assert told["AcceleratorPool", "one"].ready
    assert settle([], files, NOTHING, NOW).rules.never_good == ("bad",)


def test_an_exception_is_told_to_have_ended_once_it_has() -> None:
    one = stored(exception("trial", until="2027-01-31T00:00:00Z"))
    until = 1_801_353_600.0
    assert standings(settle([one], NO_FILES, NOTHING, until - 1)) == {"trial": ("InForce", "")}
    ended = settle([one], NO_FILES, NOTHING, until)
    assert standings(ended) == {"trial": ("Expired", "it ended at 2027-01-31T00:00:00Z")}
