"""What has been promised counts as in use until it is bound, refused, or a minute old."""

from dataclasses import replace

from controlplane.nodes import H100, RTX_PRO_6000
from tests.samples import ask, demo_nodes, fleet, job, nodes, pytorchjob
from webhook.cluster.world import Worlds
from webhook.model.fleet import Fleet
from webhook.model.pods import Pod, Promise
from webhook.model.policy import Policy
from webhook.model.request import Stage
from webhook.model.rules import Rules
from webhook.model.verdict import Review, Verdict

GPU = "nvidia.com/gpu"


def given(**request: object) -> tuple[Worlds, Review, Fleet]:
    known = fleet(demo_nodes())
    worlds = Worlds(Policy(), known)
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known)
    assert outcome.verdict is Verdict.PIN
    outcome = replace(outcome, request=replace(outcome.request, **request))  # type: ignore[arg-type] # its own fields
    worlds.promise(outcome)
    return worlds, outcome, known


def promises(worlds: Worlds) -> tuple[Promise, ...]:
    """Those that were given, which was long ago; what a pod takes that has been bound since is of now."""
    assert worlds.current is not None
    return tuple(one for one in worlds.current.promises if one.given_at < 2000)


def bound(node: str, **changes: object) -> Pod:
    pod = Pod("u", "team-a", "", node, {GPU: 2, "pods": 1}, created=1001)
    return replace(pod, **changes)  # type: ignore[arg-type] # its own fields


def test_a_pin_promises_what_the_job_asks_for() -> None:
    worlds, outcome, _ = given()
    product = outcome.decision.models[0].product
    assert promises(worlds) == (Promise(1000.0, "team-a", "ddp", (product,), GPU, devices=2, pods=4),)


def test_a_pin_to_models_that_count_as_one_promises_devices_of_any_of_them() -> None:
    known = fleet([*demo_nodes(), *nodes((H100, 2, 4))])
    policy = Policy(classes=((RTX_PRO_6000.product, H100.product),))
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known, policy=policy)
    worlds = Worlds(policy, known)
    worlds.promise(outcome)
    both = (H100.product, RTX_PRO_6000.product)
    assert promises(worlds) == (Promise(1000.0, "team-a", "ddp", both, GPU, devices=2, pods=4),)
    for node in known.nodes:
        before = sum(one.pods for one in promises(worlds))
        worlds.change(None, bound(node.name))
        kept = node.labels["nvidia.com/gpu.product"] in both
        assert before - sum(one.pods for one in promises(worlds)) == int(kept)


def test_a_dry_run_the_validating_stage_and_an_admission_promise_nothing() -> None:
    assert promises(given(dry_run=True)[0]) == ()
    assert promises(given(stage=Stage.VALIDATE)[0]) == ()
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    worlds.promise(ask(job(pods=1), fleet(demo_nodes())))
    assert promises(worlds) == ()


def test_what_is_bound_is_no_longer_promised() -> None:
    worlds, outcome, known = given()
    product = outcome.decision.models[0].product
    here = next(node.name for node in known.nodes if node.labels["nvidia.com/gpu.product"] == product)
    there = next(node.name for node in known.nodes if node.labels["nvidia.com/gpu.product"] != product)
    for stranger in (
        bound(there),
        bound("nobody"),
        bound(here, namespace="team-b"),
        bound(here, created=900),
        bound(here, requests={GPU: 1, "pods": 1}),
    ):
        worlds.change(None, stranger)
    assert promises(worlds)[0].pods == 4
    worlds.change(None, bound(here))
    assert promises(worlds)[0].pods == 3
    for _ in range(5):
        worlds.change(None, bound(here))
    assert promises(worlds) == ()


def test_a_job_that_is_created_again_is_promised_nothing_twice() -> None:
    worlds, outcome, _ = given()
    worlds.promise(replace(outcome, request=replace(outcome.request, now=1005.0)))
    assert [one.given_at for one in promises(worlds)] == [1005.0]
    assert outcome.job is not None
    for _ in range(2):
        worlds.promise(replace(outcome, job=replace(outcome.job, name="ddp-*")))
    assert len(promises(worlds)) == 3


def test_old_promises_are_forgotten_as_new_ones_come() -> None:
    worlds, outcome, _ = given()
    worlds.promise(replace(outcome, request=replace(outcome.request, now=1061.0)))
    assert [one.given_at for one in promises(worlds)] == [1061.0]


def test_rules_are_swapped_whole_and_namespaces_beside_them() -> None:
    worlds = Worlds(Policy("default"), fleet(demo_nodes()))
    before = worlds.current
    rules = Rules((Policy("one", model_labels=("gpu-type",)), Policy("two", stale_after_s=60)))
    worlds.rule(rules)
    worlds.name({"team-a": {"team": "a"}})
    now = worlds.current
    assert before is not None
    assert now is not None
    assert before.rules is None
    assert now.rules is rules
    assert now.namespaces == {"team-a": {"team": "a"}}
    assert (worlds.policy.model_labels, worlds.policy.stale_after_s) == (("gpu-type",), 60)
    worlds.rule(Rules())
    assert worlds.policy == Policy("default")
