"""Files of policies, pools, exceptions and accelerators: what counts, and what is wrong where."""

import json
import os
import time
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from webhook.model.policy import RoomRule
from webhook.policy.documents import LARGEST
from webhook.policy.load import Loaded, PolicyError, load, load_policy, load_rules

Json: TypeAlias = dict[str, Any]
API = "samestep.dev/v1alpha1"


def policy(name: str, **spec: object) -> Json:
    return {"apiVersion": API, "kind": "TrainingPolicy", "metadata": {"name": name}, "spec": spec}


def pool(name: str, **spec: object) -> Json:
    said = {"nodeSelector": {}} | spec
    return {"apiVersion": API, "kind": "AcceleratorPool", "metadata": {"name": name}, "spec": said}


def exception(name: str, **spec: object) -> Json:
    said = {"policies": ["one"], "reason": "a trial", "until": "2027-01-31T00:00:00Z"} | spec
    metadata = {"name": name, "namespace": "research"}
    return {"apiVersion": API, "kind": "TrainingPolicyException", "metadata": metadata, "spec": said}


def accelerator(name: str, **spec: object) -> Json:
    said = {"product": f"NVIDIA-{name}", "vendor": "nvidia", "source": "our bench"} | spec
    return {"apiVersion": API, "kind": "Accelerator", "metadata": {"name": name}, "spec": said}


def write(path: Path, *documents: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))
    return path


def told(loaded: Loaded, below: Path) -> list[str]:
    return [str(one).replace(f"{below}/", "") for one in loaded.faults]


def names(loaded: Loaded) -> list[str]:
    return [one.name for one in loaded.rules.policies]


def test_every_kind_arrives_from_any_number_of_files_and_folders(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", policy("one", room="Prefer"), pool("left", order=2))
    write(tmp_path / "b.yml", pool("right", order=1), exception("trial"))
    write(tmp_path / "team" / "c.yaml", accelerator("X9"), policy("two"))
    (tmp_path / "d.json").write_text(json.dumps(policy("three"), indent="\t"))
    loaded = load(tmp_path)
    assert loaded.faults == ()
    assert names(loaded) == ["one", "three", "two"]
    assert loaded.rules.policies[0].room is RoomRule.PREFER
    assert [one.name for one in loaded.rules.pools] == ["left", "right"]
    assert [(one.namespace, one.name) for one in loaded.rules.exceptions] == [("research", "trial")]
    assert [one["metadata"]["name"] for one in loaded.accelerators] == ["X9"]
    assert load_rules(tmp_path) == loaded.rules


def test_policies_steer_by_priority_then_age_then_name(tmp_path: Path) -> None:
    old = policy("z-old", priority=1)
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    young = policy("a-young", priority=1)
    young["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00+01:00"
    write(tmp_path / "all.yaml", policy("low"), young, policy("high", priority=2), old, policy("ever"))
    assert names(load(tmp_path)) == ["high", "z-old", "a-young", "ever", "low"]


def test_lists_as_kubectl_writes_them_are_taken_apart(tmp_path: Path) -> None:
    bad = policy("bad", rum="Prefer")
    write(tmp_path / "a.yaml", {"apiVersion": "v1", "kind": "List", "items": [policy("one"), bad]})
    kindless = {"metadata": {"name": "two"}, "spec": {}}
    write(tmp_path / "b.yaml", {"apiVersion": API, "kind": "TrainingPolicyList", "items": [kindless]})
    loaded = load(tmp_path)
    assert names(loaded) == ["one", "two"]
    assert told(loaded, tmp_path) == ["a.yaml:13:5: spec.rum: Extra inputs are not permitted"]


def test_what_is_none_of_ours_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "fleet.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    write(tmp_path / "test.yaml", {"apiVersion": API, "kind": "PolicyTest", "spec": 5})
    (tmp_path / "policy.test.yaml").write_text("kind: [")
    (tmp_path / "notes.md").write_text("kind: [")
    (tmp_path / ".hidden.yaml").write_text("kind: [")
    (tmp_path / "empty.yaml").write_text("---\n# nothing\n---\n")
    assert load(tmp_path) == Loaded(load(tmp_path).rules)
    with pytest.raises(PolicyError, match="expected a TrainingPolicy, found none"):
        load_rules(tmp_path)


def test_a_bad_document_costs_only_itself_and_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        "# first\n---\n"
        + yaml.safe_dump(policy("one"))
        + "--- # the second\n"
        + "apiVersion: samestep.dev/v1alpha1\nkind: TrainingPolicy\nmetadata: {name: two}\n"
        + "spec:\n  pin: {when: Sometimes}\n  memory:\n    headroom: 5\n    reserve: 1Gi\n  rum: Prefer\n"
        + "---\nkind: [\n---\n"
        + yaml.safe_dump(policy("three"))
    )
    loaded = load(tmp_path)
    assert names(loaded) == ["one", "three"]
    assert loaded.rules.never_good == ("two",)
    assert told(loaded, tmp_path) == [
        "all.yaml:13:9: spec.pin.when: Input should be 'WhenMixed', 'Always' or 'Never'",
        "all.yaml:15:5: spec.memory.headroom: Input should be a valid string",
        "all.yaml:17:3: spec.rum: Extra inputs are not permitted",
        "all.yaml:20:1: did not find expected node content",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"spec: [", ":2:1: did not find expected node content"),
        (b"ok: \x89PNG", ":1:5: not UTF-8 text"),
        (b"a: b\nok: \xff", ":2:5: not UTF-8 text"),
        (b"- a list\n", ":1:1: expected a Kubernetes object"),
        (b"kind: a\nkind: b\n", ':2:1: key "kind" comes twice'),
        (b"a: " + b"9" * 5000, ":1:4: not a number"),
        (b"a: {{ .Values.a }}\n", ":1:5: expected a plain key (a template that was not rendered (Helm)"),
        (b"a: \x01", ":1:1: unacceptable character"),
        (b"kind: TrainingPolicy\n", ":1:1: apiVersion: expected a string"),
        (b"kind: TrainingPolicy\napiVersion: 1\n", ":2:1: apiVersion: expected a string"),
        (b"kind: TrainingPolicy\napiVersion: v1\nmetadata: {name: a}\n", ":2:1: apiVersion: Input should be"),
        (b"kind: Policy\napiVersion: samestep.dev/v1\n", ":1:1: kind: expected one of TrainingPolicy, "),
        (b"a: " + b"[" * 70 + b"]" * 70, ":1:67: nested more than 64 deep"),
        (b"[" * 500_000, ":1:1001: exceeded maximum nesting depth"),
        (b"- " * 500_000, ":1:129: nested more than 64 deep"),
        (b"a: [" + b"x," * 200_000 + b"]", ":1:199999: more than 100,000 values"),
        (b"a: &a [x, *a]", "found unconstructable recursive node"),
    ],
)
def test_a_file_that_is_no_good_is_told_by_its_place(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    write(tmp_path / "good.yaml", policy("good"))
    loaded = load(tmp_path)
    assert names(loaded) == ["good"]
    assert said in told(loaded, tmp_path)[0]
    assert told(loaded, tmp_path)[0].startswith("bad.yaml:")


def test_aliases_of_aliases_are_not_written_out(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (tmp_path / "lists.yaml").write_text("\n".join(levels))
    merges = ["a0: &a0 {k0: x}"]
    merges += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 10)]
    (tmp_path / "merges.yaml").write_text("\n".join(merges))
    started = time.monotonic()
    assert [one.message for one in load(tmp_path).faults] == ["more than 100,000 values, aliases written out"] * 2
    assert time.monotonic() - started < 5


def test_anchors_that_stand_for_little_are_fine(tmp_path: Path) -> None:
    head = "apiVersion: samestep.dev/v1alpha1\nkind: TrainingPolicy\nmetadata: {name: one}\n"
    (tmp_path / "a.yaml").write_text(f"{head}spec: {{modelLabels: &keys [a, b], pin: {{keys: *keys}}}}\n")
    assert load_policy(tmp_path).pin_keys == ("a", "b")


def test_a_file_larger_than_a_config_map_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "good.yaml", policy("good"))
    (tmp_path / "large.yaml").write_bytes(b"#" * (LARGEST + 1))
    loaded = load(tmp_path)
    assert (names(loaded), told(loaded, tmp_path)) == (["good"], ["large.yaml: larger than 1 MiB"])


def test_of_many_large_files_the_last_ones_are_left_out(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.yaml").write_bytes(b"#" * LARGEST)
    assert told(load(tmp_path), tmp_path) == ["8.yaml: left out: with it, the files are larger than 8 MiB"]


def test_too_many_files_or_documents_are_told_once(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / f"{number:04}.yaml").write_text("")
    assert [one.message for one in load(tmp_path).faults] == ["no more is read than 1,000 files and 5,000 documents"]
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a.yaml").write_text("---\nx\n" * 6000)
    assert load(tmp_path / "many").faults[0].message == "no more is read than 1,000 files and 5,000 documents"
    assert len(load(tmp_path / "many").faults) == 5001


def test_of_hundreds_of_problems_the_first_are_told(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", policy("one", **{f"field{number}": 1 for number in range(300)}))
    found = told(load(tmp_path), tmp_path)
    assert (len(found), found[0]) == (21, "a.yaml:1:1: and 280 problems more")


def test_of_two_objects_of_one_name_the_first_counts(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", policy("one", room="Prefer"), pool("one"))
    write(tmp_path / "b.yaml", policy("one"), exception("one"))
    loaded = load(tmp_path)
    assert loaded.rules.policies[0].room is RoomRule.PREFER
    assert (len(loaded.rules.pools), len(loaded.rules.exceptions), loaded.rules.never_good) == (1, 1, ())
    told_twice = "b.yaml:4:3: metadata.name: TrainingPolicy one comes twice: the first, at a.yaml:4, counts"
    assert told(loaded, tmp_path) == [told_twice]


def test_an_accelerator_that_the_catalog_cannot_take_is_told_by_its_field(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", accelerator("good"), accelerator("bad", vendor="acme"))
    loaded = load(tmp_path)
    assert [one["metadata"]["name"] for one in loaded.accelerators] == ["good"]
    assert told(loaded, tmp_path)[0].startswith("a.yaml:17:3: spec.vendor: expected one of ")


def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert load(tmp_path) == Loaded(load(tmp_path).rules)


def test_a_condition_that_cannot_be_compiled_is_told_by_its_place_in_the_file_and_in_itself(tmp_path: Path) -> None:
    conditions = [{"name": "good", "expression": "has(object.metadata)"}, {"name": "bad", "expression": "object.a =="}]
    write(tmp_path / "a.yaml", policy("one", match={"matchConditions": conditions}))
    [fault] = load(tmp_path).faults
    assert (fault.line, fault.column, fault.field) == (10, 7, "spec.match.matchConditions.1.expression")
    assert fault.message.startswith("Syntax error: ")
    assert fault.message.endswith("(line 1, column 12 of object.a ==)")


def test_folders_that_lead_in_a_circle_are_read_once(tmp_path: Path) -> None:
    write(tmp_path / "team" / "a.yaml", policy("one"))
    (tmp_path / "team" / "up").symlink_to(tmp_path)
    loaded = load(tmp_path)
    assert (names(loaded), loaded.faults) == (["one"], ())


def mount(at: Path, version: str, *documents: Json) -> None:
    """What kubelet makes of a ConfigMap: a hidden folder for each version, and links."""
    write(at / f"..{version}" / "policy.yaml", *documents)
    write(at / f"..{version}" / "below" / "pool.yaml", pool("below"))
    (at / "..new").symlink_to(f"..{version}")
    (at / "..new").replace(at / "..data")
    for name in ("policy.yaml", "below"):
        if not (at / name).is_symlink():
            (at / name).symlink_to(f"..data/{name}")


def test_a_config_map_mount_is_read_by_what_it_shows(tmp_path: Path) -> None:
    mount(tmp_path, "1", policy("one"))
    mount(tmp_path, "2", policy("two"))
    loaded = load(tmp_path)
    assert (names(loaded), [one.name for one in loaded.rules.pools], loaded.faults) == (["two"], ["below"], ())


def test_what_turns_bad_counts_as_before_and_what_is_gone_is_gone(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", policy("one", room="Prefer"), policy("two"), pool("left"))
    other = write(tmp_path / "b.yaml", policy("three"))
    first = load(tmp_path)

    write(file, policy("one", room="Sometimes"), pool("left", order="first"), policy("four", rum=1))
    other.unlink()
    second = load(tmp_path, first)
    assert [one.field for one in second.faults] == ["spec.room", "spec.order", "spec.rum"]
    # It cannot be told from a file with faults that a policy is no longer meant to be there.
    assert names(second) == ["one", "two"]
    assert second.rules.policies[0].room is RoomRule.PREFER
    assert second.rules.pools == first.rules.pools
    assert second.rules.never_good == ("four",)

    file.write_text("kind: [")
    third = load(tmp_path, second)
    assert (names(third), third.rules.never_good) == (["one", "two"], ())

    write(file, policy("two"))
    assert names(load(tmp_path, third)) == ["two"]
    file.unlink()
    assert load(tmp_path, third) == Loaded(load(tmp_path).rules)


def test_a_file_that_says_nothing_counts_as_a_policy_that_was_never_good(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [")
    assert load(tmp_path).rules.never_good == ("a.yaml",)


def test_a_folder_that_cannot_be_read_leaves_everything_as_it_was(tmp_path: Path) -> None:
    first = load(write(tmp_path / "there" / "a.yaml", policy("one")).parent)
    gone = load(tmp_path / "gone", first)
    assert (names(gone), told(gone, tmp_path)) == (["one"], ["gone: No such file or directory"])


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", policy("one", room="Sometimes", pin={"wenn": "Always"}))
    (tmp_path / "b.yaml").write_text("kind: [")
    with pytest.raises(PolicyError) as caught:
        load_rules(tmp_path)
    assert [line.rpartition("/")[2].split(": ")[0] for line in str(caught.value).splitlines()] == [
        "a.yaml:7:5",
        "a.yaml:8:3",
        "b.yaml:2:1",
    ]


def test_one_policy_is_one(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", policy("one"))
    assert load_policy(tmp_path).name == "one"
    write(tmp_path / "b.yaml", policy("two"))
    with pytest.raises(PolicyError, match="expected one TrainingPolicy, found 2"):
        load_policy(tmp_path)
