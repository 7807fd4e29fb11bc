"""Pools: who is given which, what is written of it, and what becomes of it later."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from controlplane.nodes import H100, L40S, RTX_5090, RTX_PRO_6000, gpu_node
from tests.samples import USER, Json, ask, codes, fleet, job, patched, pod, products, pytorchjob, worker
from tests.unit.decision.vendors import amd_node, npu_node
from tests.unit.intake.runtimes import in_view, node, override, replicated, runtime, train_job
from tests.unit.intake.runtimes import patch as patch_of
from webhook.answer.document import document
from webhook.answer.message import message
from webhook.answer.response import admission_response, patch
from webhook.answer.warnings import warnings
from webhook.catalog.codes import action_of
from webhook.cli.stories import show_story, story_document
from webhook.decision.notes import Pools, PoolTried, Refused
from webhook.decision.story import Listener, Story
from webhook.model.finding import Action
from webhook.model.fleet import Fleet
from webhook.model.job import PatchShape
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.policy import FleetShown, LabelSelector, PinWhen, Policy, ValidationAction
from webhook.model.request import Stage, User
from webhook.model.rules import AcceleratorPool, PolicyException, Rules
from webhook.model.verdict import Review, Verdict
from webhook.policy.common import common

PRODUCT = "nvidia.com/gpu.product"
NAMESPACES = {"team-a": {"team": "a"}}
RECORD = "samestep.dev/pinned"


def label(key: str, *values: str, operator: Operator = Operator.IN) -> LabelSelector:
    return (Requirement(key, operator, values),)


def tainted(*keys: str) -> tuple[Toleration, ...]:
    return tuple(Toleration(key, "Exists", effect="NoSchedule") for key in keys)


def racks() -> Fleet:
    """Rack a: RTX 5090 and RTX PRO 6000, for everyone. Rack b: H100, kept off by a taint."""
    found = []
    for rack, card, devices in (("a", RTX_5090, 4), ("a", RTX_PRO_6000, 4), ("b", H100, 8)):
        for index in (1, 2):
            node = gpu_node(f"{card.product.lower()}-{index}", card, devices=devices)
            node["metadata"]["labels"]["rack"] = rack
            if rack == "b":
                node["spec"]["taints"] = [{"key": "dedicated", "value": "b", "effect": "NoSchedule"}]
            found.append(node)
    return fleet(found)


FLEET = racks()
A = AcceleratorPool("a", label("rack", "a"), order=10)
B = AcceleratorPool("b", label("rack", "b"), order=20, tolerations=tainted("dedicated"))


def given(obj: Json, *pools: AcceleratorPool, policy: Policy | None = None, **more: Any) -> Review:  # noqa: ANN401
    policy = policy or Policy()
    known = more.pop("known", FLEET)
    return ask(obj, known, rules=Rules((policy,), pools=pools), namespaces=NAMESPACES, policy=policy, **more)


def taken(outcome: Review) -> str:
    return outcome.decision.pool_name


def variants(outcome: Review) -> list[str]:
    return [f"{one.code}/{one.variant}".rstrip("/") for one in outcome.decision.findings]


def record(stored: Json) -> Any:  # noqa: ANN401 - JSON
    return json.loads(stored["metadata"]["annotations"][RECORD])


def test_the_first_pool_by_order_that_has_a_candidate_is_given_with_the_pin_in_one_patch() -> None:
    outcome = given(pytorchjob(memory_per_device="44Gi"), B, A)
    assert (outcome.verdict, taken(outcome), products(outcome)) == (Verdict.PIN, "a", [RTX_PRO_6000.product])
    stored = patched(outcome)
    assert worker(stored)["nodeSelector"] == {"rack": "a", PRODUCT: RTX_PRO_6000.product}
    assert "tolerations" not in worker(stored)
    assert record(stored) == {
        "key": PRODUCT,
        "values": [RTX_PRO_6000.product],
        "policy": "one-model-per-job",
        "pool": "a",
    }
    assert len(patch(outcome)) == 2
    assert document(outcome, "a.yaml")["acceleratorPool"] == "a"
    assert admission_response(outcome)["auditAnnotations"]["pool"] == "a"
    assert warnings(outcome)[0] == ("SST301 pinned to RTX-PRO-6000-Blackwell-Server (nvidia.com/gpu.product; pool a)")


def test_equal_orders_go_by_name() -> None:
    same = [replace(one, order=0) for one in (B, A)]
    assert taken(given(pytorchjob(memory_per_device="20Gi"), *same)) == "a"


def test_a_pool_without_a_candidate_is_passed_over_and_the_next_one_brings_its_tolerations() -> None:
    big = pytorchjob(pod(gpus=8), workers=2, memory_per_device="44Gi")
    outcome = given(big, A, B)
    assert (outcome.verdict, taken(outcome), products(outcome)) == (Verdict.PIN, "b", [H100.product])
    stored = worker(patched(outcome))
    assert stored["nodeSelector"] == {"rack": "b"}
    assert stored["tolerations"] == [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
    # One model is there: nothing is pinned, and the pool is recorded alone.
    assert outcome.decision.pin is None
    assert record(patched(outcome)) == {"policy": "one-model-per-job", "pool": "b"}
    assert warnings(outcome)[0] == "SST301 kept to the nodes of pool b"


@pytest.mark.parametrize(
    ("pool", "user", "may"),
    [
        (replace(A, namespaces=label("team", "a")), USER, True),
        (replace(A, namespaces=label("team", "b")), USER, False),
        (replace(A, namespaces=label("kubernetes.io/metadata.name", "team-a")), USER, True),
        (replace(A, groups=("vision",)), User("alice", ("vision",)), True),
        (replace(A, groups=("vision",)), USER, False),
        (replace(A, namespaces=label("team", "b"), groups=("vision",)), User("alice", ("vision",)), True),
        (replace(A, namespaces=label("team", "a"), groups=("vision",)), USER, True),
    ],
)
def test_a_pool_is_for_its_namespaces_and_for_its_groups(pool: AcceleratorPool, user: User, may: bool) -> None:
    assert taken(given(pytorchjob(memory_per_device="20Gi"), pool, user=user)) == ("a" if may else "")


def test_with_no_pool_that_it_may_use_all_nodes_count() -> None:
    closed = replace(A, namespaces=label("team", "b"))
    outcome, as_ever = given(pytorchjob(memory_per_device="20Gi"), closed), given(pytorchjob(memory_per_device="20Gi"))
    assert outcome.decision == as_ever.decision
    assert patch(outcome) == patch(as_ever)


def test_a_job_that_names_a_pool_is_held_to_it() -> None:
    outcome = given(pytorchjob(memory_per_device="20Gi", pool="b"), A, B)
    assert (outcome.verdict, taken(outcome), products(outcome)) == (Verdict.PIN, "b", [H100.product])
    denied = given(pytorchjob(memory_per_device="90Gi", pool="b"), A, B)
    assert (denied.verdict, codes(denied), taken(denied)) == (Verdict.DENY, ["SST201"], "b")
    assert message(denied).splitlines()[-1] == "Policy one-model-per-job, pool b. samestep explain SST201"


def test_a_name_does_not_count_where_the_policy_does_not_listen() -> None:
    deaf = Policy(model=False)
    assert taken(given(pytorchjob(memory_per_device="20Gi", pool="b"), A, B, policy=deaf)) == "a"
    assert given(pytorchjob(memory_per_device="20Gi", pool="no"), A, policy=deaf).verdict is Verdict.PIN


@pytest.mark.parametrize("hidden", [replace(B, namespaces=label("team", "b")), replace(B, name="other")])
def test_a_pool_that_it_may_not_use_and_one_that_is_not_there_are_told_alike(hidden: AcceleratorPool) -> None:
    closed = replace(hidden, namespaces=label("team", "b"))
    outcome = given(pytorchjob(pool="b"), A, closed)
    assert (outcome.verdict, variants(outcome)) == (Verdict.DENY, ["SST404/pool"])
    assert message(outcome).splitlines()[0] == (
        "SST404 no pool that ddp may use is called b, which it asks for; there is: a."
    )
    (cause,) = admission_response(outcome)["status"]["details"]["causes"]
    assert cause["field"] == "metadata.annotations[samestep.dev/pool]"


def test_no_pool_is_named_where_the_policy_shows_nothing_of_the_fleet_or_there_is_none() -> None:
    for outcome in (
        given(pytorchjob(pool="b"), A, policy=Policy(fleet_shown=FleetShown.NONE)),
        given(pytorchjob(pool="b")),
    ):
        assert message(outcome).splitlines()[0] == "SST404 no pool that ddp may use is called b, which it asks for."


def test_offline_without_rules_it_is_not_known_which_pools_there_are() -> None:
    outcome = ask(pytorchjob(pool="b", memory_per_device="20Gi"), FLEET)
    assert (outcome.verdict, variants(outcome), patch(outcome)) == (Verdict.ADMIT, ["SST404/pool-unseen"], [])


def test_of_many_pools_a_few_are_told() -> None:
    many = [replace(A, name=f"p{index}", order=index) for index in range(9)]
    assert "there is: p0, p1, p2, p3, p4, …" in message(given(pytorchjob(pool="b"), *many))


def test_selectors_that_contradict_the_pool_keep_a_job_out_of_it() -> None:
    obj = pytorchjob(pod(nodeSelector={"rack": "a"}), memory_per_device="20Gi")
    assert taken(given(obj, replace(B, order=0), A)) == "a"
    obj["metadata"]["annotations"]["samestep.dev/pool"] = "b"
    outcome = given(obj, A, B)
    assert (outcome.verdict, variants(outcome)) == (Verdict.DENY, ["SST404/pool-selectors"])
    assert "the selectors of ddp keep it out of pool b" in message(outcome)


@pytest.mark.parametrize(
    ("pool", "obj"),
    [
        (label("rack", "b", operator=Operator.NOT_IN), {"rack": "b"}),
        (label("rack", operator=Operator.DOES_NOT_EXIST), {"rack": "b"}),
        (label("rack", "a", "c"), {"rack": "b"}),
    ],
)
def test_expressions_are_contradicted_too(pool: LabelSelector, obj: dict[str, str]) -> None:
    outcome = given(pytorchjob(pod(nodeSelector=obj), pool="a"), replace(A, nodes=pool))
    assert variants(outcome) == ["SST404/pool-selectors"]


def test_a_named_pool_without_a_node_for_it_is_denied_or_waited_for_where_nodes_may_come() -> None:
    obj, empty = pytorchjob(pool="c", memory_per_device="20Gi"), AcceleratorPool("c", label("rack", "c"))
    outcome = given(obj, A, empty)
    assert (outcome.verdict, variants(outcome)) == (Verdict.DENY, ["SST404/pool-nodes"])
    waits = given(obj, A, replace(empty, most=64, tolerations=tainted("new")))
    assert (waits.verdict, taken(waits)) == (Verdict.PIN, "c")
    assert "SST404/pool-grows" in variants(waits)
    assert "SST403" not in codes(waits)
    assert worker(patched(waits))["nodeSelector"] == {"rack": "c"}
    assert worker(patched(waits))["tolerations"]
    stale = given(obj, A, empty, known=replace(FLEET, taken_at=1.0))
    assert (stale.verdict, variants(stale), patch(stale)) == (Verdict.ADMIT, ["SST404/pool-nodes"], [])


def test_an_empty_pool_that_grows_gets_the_jobs_that_no_other_pool_takes() -> None:
    cold = AcceleratorPool("cold", label("rack", "c"), order=30, most=16)
    too_big = pytorchjob(memory_per_device="90Gi", workers=9)
    outcome = given(too_big, A, cold)
    assert (outcome.verdict, taken(outcome)) == (Verdict.PIN, "cold")
    assert "SST403" in codes(outcome)
    assert given(too_big, A).verdict is Verdict.DENY


def test_room_is_no_reason_to_deny_in_a_pool_that_may_get_more_than_is_there() -> None:
    many = pytorchjob(workers=9, memory_per_device="20Gi")
    assert codes(given(many, A)) == ["SST401"]
    outcome = given(many, replace(A, most=17))
    assert (outcome.verdict, taken(outcome)) == (Verdict.PIN, "a")
    assert "SST401/grows" in variants(outcome)
    # 16 devices are there.
    assert given(many, replace(A, most=16)).verdict is Verdict.DENY


def test_where_no_pool_has_a_node_for_it_a_job_is_kept_on_one_model_all_the_same() -> None:
    elsewhere = pytorchjob(pod(nodeSelector={"rack": "a"}), memory_per_device="44Gi")
    outcome = given(elsewhere, B)
    assert (outcome.verdict, taken(outcome), products(outcome)) == (Verdict.PIN, "", [RTX_PRO_6000.product])
    assert "SST403/pools" in variants(outcome)
    assert "pool" not in record(patched(outcome))


def test_the_denial_is_that_of_the_first_pool_with_nodes_for_it() -> None:
    outcome = given(pytorchjob(memory_per_device="100Gi"), B, A)
    assert (outcome.verdict, taken(outcome), codes(outcome)) == (Verdict.DENY, "a", ["SST201"])
    assert {one.model.product for one in outcome.decision.pool.candidates} == {RTX_5090.product, RTX_PRO_6000.product}


def test_expressions_go_into_each_term_that_matches_and_never_into_an_empty_one() -> None:
    terms: list[Json] = [
        {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
        {},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["gone"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    obj = pytorchjob(pod(affinity={"nodeAffinity": required}), memory_per_device="44Gi")
    pool = AcceleratorPool("ab", (*label("rack", "a", "b"), *label(PRODUCT, operator=Operator.EXISTS)))
    outcome = given(obj, pool)
    stored = worker(patched(outcome))
    wanted = [
        {"key": "rack", "operator": "In", "values": ["a", "b"]},
        {"key": PRODUCT, "operator": "Exists"},
    ]
    there = stored["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert there[0]["matchExpressions"] == [terms[0]["matchExpressions"][0], *wanted]
    assert there[1] == {}
    assert there[2] == {**terms[2], "matchExpressions": wanted}
    assert stored["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}
    assert given(patched(outcome), pool).verdict is Verdict.ADMIT


def test_a_toleration_that_covers_the_pools_is_not_added_to() -> None:
    for there in ({"operator": "Exists"}, {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}):
        obj = pytorchjob(pod(gpus=8, tolerations=[there]), workers=2, memory_per_device="44Gi")
        assert worker(patched(given(obj, B)))["tolerations"] == [there]
    for_a_while = {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    obj = pytorchjob(pod(gpus=8, tolerations=[for_a_while]), workers=2, memory_per_device="44Gi")
    pool = replace(B, tolerations=(*B.tolerations, Toleration("dedicated", "Exists", effect="NoExecute")))
    assert worker(patched(given(obj, pool)))["tolerations"] == [
        for_a_while,
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
    ]


def test_a_scheduler_is_set_where_there_is_none_or_the_default_one() -> None:
    pool = replace(A, scheduler="volcano")
    for said, stored in ((None, "volcano"), ("default-scheduler", "volcano"), ("mine", "mine")):
        spec = pod() if said is None else pod(schedulerName=said)
        outcome = given(pytorchjob(spec, memory_per_device="20Gi"), pool)
        assert worker(patched(outcome))["schedulerName"] == stored
        assert given(patched(outcome), pool).verdict is Verdict.ADMIT


def test_a_record_without_the_selectors_is_no_evidence() -> None:
    obj = pytorchjob(memory_per_device="44Gi", pinned='{"policy":"p","pool":"b"}')
    assert taken(given(obj, A, B)) == "a"
    stored = patched(given(pytorchjob(memory_per_device="44Gi"), B))
    assert taken(given(stored, A, B)) == "b"
    # Nor is it one for who may not use the pool.
    assert taken(given(stored, A, replace(B, groups=("others",)))) == ""


def test_our_own_answer_is_recognised_whatever_pools_came_before_it() -> None:
    stored = patched(given(pytorchjob(memory_per_device="44Gi"), B))
    assert taken(given(stored, A, B)) == "b"
    for stage in Stage:
        again = given(stored, A, B, stage=stage)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])


def test_the_validating_stage_warns_of_a_pool_that_was_undone_and_denies_only_mixing() -> None:
    obj = pytorchjob(memory_per_device="44Gi")
    stored = patched(given(obj, A))
    del worker(stored)["nodeSelector"]["rack"]
    outcome = given(stored, A, stage=Stage.VALIDATE)
    assert (outcome.verdict, variants(outcome)) == (Verdict.ADMIT, ["SST302/pool"])
    assert "kept to the nodes of pool a" in warnings(outcome)[0]
    undone = given(obj, A, stage=Stage.VALIDATE)
    assert (undone.verdict, variants(undone)) == (Verdict.DENY, ["SST302"])


def test_an_update_without_what_was_given_gets_it_back() -> None:
    obj = pytorchjob(memory_per_device="20Gi", pool="b")
    pool = replace(B, scheduler="gang")
    stored = patched(given(obj, A, pool)) | {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    changed = deepcopy(obj)
    changed["spec"]["runPolicy"] = {"backoffLimit": 1}
    outcome = given(changed, A, pool, old=stored)
    assert (outcome.verdict, taken(outcome), variants(outcome)) == (Verdict.PIN, "b", ["SST301/restored-pool"])
    assert worker(patched(outcome)) == worker(stored)
    # Whoever updates it need not be one who may use the pool.
    closed = replace(pool, groups=("vision",))
    assert worker(patched(given(changed, A, closed, old=stored))) == worker(stored)


def test_an_update_before_the_start_keeps_the_pool_and_never_sets_a_scheduler() -> None:
    pool = replace(B, scheduler="gang")
    obj = job(pod(command=("torchrun", "--nnodes=4", "train.py")), memory_per_device="20Gi")
    obj["spec"]["suspend"] = True
    stored = patched(given(obj, B))
    changed = deepcopy(stored)
    changed["metadata"]["annotations"]["samestep.dev/memory-per-device"] = "30Gi"
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1
    outcome = given(changed, A, pool, old=stored)
    assert (outcome.verdict, taken(outcome), patch(outcome)) == (Verdict.ADMIT, "b", [])


def test_a_job_that_started_outside_is_not_moved_into_a_pool() -> None:
    obj = pytorchjob(pod(nodeSelector={PRODUCT: RTX_5090.product}), memory_per_device="20Gi")
    running = obj | {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    changed = deepcopy(running)
    changed["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 2
    assert patch(given(changed, A, old=running)) == []


def test_an_update_of_a_job_set_is_not_given_what_its_webhook_refuses() -> None:
    spec = pod(command=("torchrun", "--nnodes=4", "train.py"))
    template = {"spec": {"parallelism": 4, "completions": 4, "template": {"spec": spec}}}
    old: Json = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "ddp", "namespace": "team-a", "annotations": {"samestep.dev/memory-per-device": "20Gi"}},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": template}]},
    }
    new = deepcopy(old)
    new["metadata"]["annotations"]["samestep.dev/model"] = "RTX-5090"
    new["spec"]["ttlSecondsAfterFinished"] = 1
    by_expression = AcceleratorPool("e", label("rack", "a", "b"))
    refused = given(new, by_expression, old=old)
    assert (refused.verdict, variants(refused)[0]) == (Verdict.ADMIT, "SST307/selector-only")
    assert patch(refused) == []
    assert given(new, A, old=old).verdict is Verdict.PIN


def test_children_and_jobs_on_one_device_are_given_none() -> None:
    child = pytorchjob(memory_per_device="20Gi")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": True, "name": "s", "uid": "u"}
    ]
    for obj in (child, pytorchjob(pod(gpus=1), workers=1)):
        outcome = given(obj, A, user=User("system:serviceaccount:x:controller"))
        assert (taken(outcome), patch(outcome)) == ("", [])


def test_a_job_on_one_node_and_independent_pods_are_kept_in_their_pool_and_on_no_model() -> None:
    one_node = job(pod(gpus=4), pods=1)
    independent = job(pod(gpus=1, command=("python", "train.py")), indexed=False)
    for obj in (one_node, independent):
        outcome = given(obj, A)
        assert (outcome.verdict, taken(outcome), outcome.decision.pin) == (Verdict.PIN, "a", None)
        assert worker(patched(outcome))["nodeSelector"] == {"rack": "a"}


def test_a_policy_that_never_pins_gives_pools_all_the_same() -> None:
    outcome = given(pytorchjob(memory_per_device="20Gi"), A, policy=Policy(pin_when=PinWhen.NEVER))
    assert (outcome.verdict, outcome.decision.pin) == (Verdict.PIN, None)
    assert worker(patched(outcome))["nodeSelector"] == {"rack": "a"}


def test_an_audit_writes_nothing_and_records_what_it_would() -> None:
    outcome = given(
        pytorchjob(pod(gpus=8), workers=2, memory_per_device="44Gi"),
        B,
        policy=Policy(validation_action=ValidationAction.AUDIT),
    )
    annotations = admission_response(outcome)["auditAnnotations"]
    assert (outcome.verdict, outcome.would_be, patch(outcome)) == (Verdict.ADMIT, Verdict.PIN, [])
    assert "tolerations" in annotations["would-be-patch"]
    assert annotations["pool"] == "b"


def test_an_exception_from_pins_is_one_from_pools() -> None:
    policy = Policy(exceptions=True)
    exception = PolicyException("team-a", "x", (policy.name,), float("inf"), "a trial", codes=("SST302",))
    rules = Rules((policy,), pools=(A,), exceptions=(exception,))
    outcome = ask(pytorchjob(memory_per_device="44Gi"), FLEET, rules=rules, namespaces=NAMESPACES)
    assert (outcome.verdict, patch(outcome)) == (Verdict.ADMIT, [])


def test_a_malformed_pool_is_given_to_nobody() -> None:
    for nodes_of_it in (
        label("rack"),
        label("rack", "a", operator=Operator.EXISTS),
        label("rack", "1", operator=Operator.GT),
        (*label("rack", "a"), *label("rack", "b")),
    ):
        assert taken(given(pytorchjob(memory_per_device="20Gi"), replace(A, nodes=nodes_of_it, most=1000))) == ""


def test_the_label_of_a_pool_names_models_before_those_of_policies() -> None:
    pools = (replace(A, model_label="gpu-type"), replace(B, model_label="gpu-type"), AcceleratorPool("c"))
    with_labels = Policy(model_labels=("own",))
    assert common(Rules((with_labels,), pools=pools), Policy()).model_labels == ("gpu-type", "own")
    assert common(Rules(pools=pools), Policy()).model_labels == ("gpu-type",)
    assert common(Rules(pools=(A,)), Policy()) == Policy()


def vendors() -> Fleet:
    found = [
        *(gpu_node(f"h100-{index}", H100, devices=8) for index in (1, 2)),
        *(gpu_node(f"l40s-{index}", L40S, devices=8) for index in (1, 2)),
        *(amd_node(f"mi300x-{index}", devices=8) for index in (1, 2)),
        *(npu_node(f"rebel-{index}", devices=8) for index in (1, 2)),
    ]
    for one in found:
        vendor = next(name for name in one["status"]["capacity"] if "/" in name).partition("/")[0]
        one["metadata"]["labels"]["stack"] = vendor.partition(".")[0]
        one["spec"]["taints"] = [{"key": vendor, "value": "present", "effect": "NoSchedule"}]
    return fleet(found)


@pytest.mark.parametrize(
    ("device", "pool", "models"),
    [
        ("nvidia.com/gpu", "cuda", [H100.product]),
        ("amd.com/gpu", "rocm", ["AMD_Instinct_MI300X_OAM"]),
        ("rebellions.ai/REBEL", "npu", ["RBLN-CR22"]),
    ],
)
def test_a_pool_for_each_vendor_brings_the_tolerations_of_its_taint(device: str, pool: str, models: list[str]) -> None:
    pools = [
        AcceleratorPool(name, label("stack", stack), tolerations=tainted(taint))
        for name, stack, taint in (
            ("cuda", "nvidia", "nvidia.com"),
            ("npu", "rebellions", "rebellions.ai"),
            ("rocm", "amd", "amd.com"),
        )
    ]
    obj = pytorchjob(pod(gpus=8, device=device), workers=2, memory_per_device="60Gi")
    outcome = given(obj, *pools, known=vendors())
    assert (outcome.verdict, taken(outcome), products(outcome)) == (Verdict.PIN, pool, models)
    (toleration,) = worker(patched(outcome))["tolerations"]
    assert toleration["key"] == device.partition("/")[0]


def test_a_raised_code_denies_in_the_pool_that_was_taken() -> None:
    policy = Policy(codes={"SST203": Action.DENY})
    outcome = given(pytorchjob(), A, policy=policy)
    assert (outcome.verdict, taken(outcome)) == (Verdict.DENY, "a")
    assert [one.code for one in outcome.decision.findings if action_of(one) is Action.DENY] == ["SST203"]


def test_nodes_are_told_of_the_pool_alone() -> None:
    outcome = given(pytorchjob(memory_per_device="20Gi"), A)
    assert outcome.decision.pool.nodes == 4


QUEUED = replace(A, queue="lq")


def named_by(stored: Json) -> list[str]:
    """Everything in it that names the queue."""
    return [path for path, value in leaves(stored) if value == "lq"]


def leaves(value: Any, at: str = "") -> list[tuple[str, Any]]:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in leaves(one, f"{at}.{key}")]
    if isinstance(value, list):
        return [found for index, one in enumerate(value) for found in leaves(one, f"{at}[{index}]")]
    return [(at, value)]


KUEUE_LABEL = ".metadata.labels.kueue.x-k8s.io/queue-name"


@pytest.mark.parametrize(
    ("scheduler", "where"),
    [
        ("", KUEUE_LABEL),
        ("mine", KUEUE_LABEL),
        ("kai-scheduler", ".metadata.labels.kai.scheduler/queue"),
        ("volcano", ".spec.runPolicy.schedulingPolicy.queue"),
    ],
)
def test_a_queue_is_named_as_the_system_reads_it_that_the_scheduler_goes_with(scheduler: str, where: str) -> None:
    obj = pytorchjob(memory_per_device="20Gi")
    for pool, spec in ((replace(QUEUED, scheduler=scheduler), pod()), (QUEUED, pod(schedulerName=scheduler))):
        obj["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"] = spec
        outcome = given(obj, pool)
        assert named_by(patched(outcome)) == [where]
        again = given(patched(outcome), pool)
        assert (again.verdict, taken(again), patch(again)) == (Verdict.ADMIT, "a", [])


def test_where_pods_alone_name_their_queue_each_template_does() -> None:
    pool = replace(QUEUED, scheduler="volcano")
    obj = job(memory_per_device="20Gi")
    outcome = given(obj, pool)
    assert named_by(patched(outcome)) == [".spec.template.metadata.annotations.scheduling.volcano.sh/queue-name"]
    assert given(patched(outcome), pool).verdict is Verdict.ADMIT
    bare: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p-0", "labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        "spec": pod(command=("torchrun", "--nnodes=4", "train.py")),
    }
    stored = patched(given(bare, pool))
    assert named_by(stored) == [".metadata.annotations.scheduling.volcano.sh/queue-name"]
    assert record(stored)["pool"] == "a"


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"kueue.x-k8s.io/queue-name": "mine"}},
        {"annotations": {"kueue.x-k8s.io/queue-name": "mine"}},
        {"labels": {"kai.scheduler/queue": "mine"}},
    ],
)
def test_a_job_that_names_a_queue_keeps_it(metadata: Json) -> None:
    obj = pytorchjob()
    obj["metadata"] |= metadata
    assert named_by(patched(given(obj, QUEUED))) == []


def test_a_dropped_queue_is_put_back_and_none_is_given_to_a_job_that_exists() -> None:
    obj = pytorchjob(memory_per_device="20Gi")
    stored = patched(given(obj, QUEUED))
    changed = deepcopy(obj)
    changed["spec"]["runPolicy"] = {"backoffLimit": 1}
    assert named_by(patched(given(changed, QUEUED, old=stored))) == [KUEUE_LABEL]
    without = patched(given(obj, A))
    assert named_by(patched(given(changed, QUEUED, old=without))) == []


def test_a_pool_whose_queue_cannot_be_named_is_not_given_and_the_job_not_pinned() -> None:
    obj = job(memory_per_device="20Gi", pool="a")
    obj["spec"]["template"]["metadata"] = "none"
    outcome = given(obj, replace(QUEUED, scheduler="volcano"))
    assert (outcome.verdict, variants(outcome), patch(outcome)) == (Verdict.ADMIT, ["SST307/pool"], [])
    del obj["metadata"]["annotations"]["samestep.dev/pool"]
    assert taken(given(obj, replace(QUEUED, scheduler="volcano"), replace(A, name="z"))) == "z"


def story_of(obj: Json, *pools: AcceleratorPool, **more: Any) -> tuple[Review, Story]:  # noqa: ANN401
    heard = Listener()
    outcome = given(obj, *pools, tell=heard, **more)
    story = heard.story(outcome)
    assert story is not None
    return outcome, story


def test_the_story_tells_which_pools_were_tried_and_goes_on_in_the_one_that_was_taken() -> None:
    empty = AcceleratorPool("empty", label("rack", "c"))
    spec = pod(gpus=8, command=("torchrun", "--nnodes=2", "train.py"), nodeSelector={"rack": "b"})
    obj = job(spec, pods=2, memory_per_device="44Gi")
    obj["spec"]["template"]["metadata"] = "no map"
    pools = (
        replace(empty, order=1),
        replace(A, name="small", order=2),
        AcceleratorPool("fields", label("rack", "b"), order=3, queue="lq", scheduler="volcano"),
        replace(B, order=4),
        replace(A, order=5),
    )
    outcome, story = story_of(obj, *pools)
    assert story.pools == Pools(
        (
            PoolTried("empty", Refused.NODES),
            PoolTried("small", Refused.SELECTORS),
            PoolTried("fields", Refused.FIELDS),
            PoolTried("b", None),
        ),
        "b",
    )
    (landing,) = story.landings
    assert (landing.nodes, taken(outcome)) == (2, "b")
    told = story_document(outcome, story, "a.yaml")["acceleratorPools"]
    assert [one["pool"] for one in told if one["taken"]] == ["b"]


def test_the_story_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    big = pytorchjob(pod(gpus=8), workers=2, memory_per_device="44Gi")
    show_story(*story_of(big, A, B), 0)
    told = capsys.readouterr().out
    assert "a     no node there can hold its pods\n" in told
    assert "b     has a candidate: taken\n" in told
    assert "Decided in pool b: what the job gets with it counts as if it stood in the job." in told
    show_story(*story_of(pytorchjob(pool="no"), A), 0)
    assert "In no AcceleratorPool." in capsys.readouterr().out
    show_story(*story_of(pytorchjob(memory_per_device="100Gi"), A), 0)
    assert "a     no model there can be chosen: taken\n" in capsys.readouterr().out


EVERYWHERE = [{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]


@pytest.mark.parametrize("shape", PatchShape)
def test_a_train_job_gets_it_in_its_own_patches_and_the_tolerations_of_its_runtime_with_it(shape: PatchShape) -> None:
    two_nodes = runtime(node(gpus=8, job={"pod": {"tolerations": EVERYWHERE}}), nodes=2)
    obj, seen = train_job(annotations={"samestep.dev/memory-per-device": "44Gi"}), in_view(two_nodes, shape=shape)
    outcome = given(obj, A, B, surroundings=seen)
    assert (outcome.verdict, taken(outcome), products(outcome)) == (Verdict.PIN, "b", [H100.product])
    stored = patched(outcome)
    wanted = {
        "nodeSelector": {"rack": "b"},
        "tolerations": [*EVERYWHERE, {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    }
    if shape is PatchShape.RUNTIME_PATCHES:
        assert stored["spec"][shape] == [patch_of("samestep.dev/pin", node=wanted)]
    elif shape is PatchShape.POD_TEMPLATE_OVERRIDES:
        assert stored["spec"][shape] == [override(wanted, "node")]
    else:
        assert stored["spec"][shape] == [{"targetJobs": [{"name": "node"}], **wanted}]
    for stage in Stage:
        again = given(stored, A, B, surroundings=seen, stage=stage)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
    changed = deepcopy(obj)
    changed["spec"]["labels"] = {"a": "b"}
    assert patched(given(changed, A, B, old=stored, surroundings=seen))["spec"][shape] == stored["spec"][shape]


def test_tolerations_go_where_those_in_force_are_written_and_never_where_other_jobs_share_them() -> None:
    of_a_data_job = replicated("data", gpus=0)
    seen = in_view(runtime(of_a_data_job, node(gpus=8), nodes=2), shape=PatchShape.POD_TEMPLATE_OVERRIDES)
    annotations = {"samestep.dev/memory-per-device": "44Gi", "samestep.dev/pool": "b"}
    own = train_job(annotations=annotations, podTemplateOverrides=[override({"tolerations": EVERYWHERE}, "node")])
    stored = patched(given(own, B, surroundings=seen))
    made, laid = stored["spec"]["podTemplateOverrides"]
    assert made == override({"nodeSelector": {"rack": "b"}}, "node")
    assert laid["spec"]["tolerations"][0] == EVERYWHERE[0]
    assert len(laid["spec"]["tolerations"]) == 2
    shared = train_job(
        annotations=annotations, podTemplateOverrides=[override({"tolerations": EVERYWHERE}, "data", "node")]
    )
    outcome = given(shared, B, surroundings=seen)
    assert (outcome.verdict, variants(outcome), patch(outcome)) == (Verdict.ADMIT, ["SST307/pool"], [])


def test_a_scheduler_has_no_place_in_a_train_job() -> None:
    seen = in_view(runtime(node(gpus=8), nodes=2))
    obj = train_job(annotations={"samestep.dev/memory-per-device": "44Gi", "samestep.dev/pool": "b"})
    outcome = given(obj, replace(B, scheduler="gang"), surroundings=seen)
    assert (outcome.verdict, variants(outcome), patch(outcome)) == (Verdict.ADMIT, ["SST307/pool"], [])
    assert warnings(outcome)[0] == (
        "SST307 cannot be kept to pool b: what that takes cannot be written into a TrainJob; not pinned"
    )


@pytest.mark.parametrize("pool", [A, B], ids=["its nodes are open to all", "it would let the job onto other nodes"])
@pytest.mark.parametrize("stage", Stage)
def test_what_cannot_be_kept_to_its_pool_and_fits_on_no_model_is_denied_by_every_stage(
    pool: AcceleratorPool, stage: Stage
) -> None:
    seen = in_view(runtime(node(gpus=4), nodes=2))
    obj = train_job(annotations={"samestep.dev/memory-per-device": "120Gi", "samestep.dev/pool": pool.name})
    outcome = given(obj, replace(pool, scheduler="gang"), surroundings=seen, stage=stage)
    assert (outcome.verdict, codes(outcome)[0], patch(outcome)) == (Verdict.DENY, "SST201", [])
    there = [one.model.product for one in outcome.decision.pool.candidates]
    assert there == [RTX_5090.product, RTX_PRO_6000.product]


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize(
    ("annotations", "pods", "now"),
    [
        # One of the two models has the memory.
        ({"memory-per-device": "44Gi"}, 2, 1000.0),
        # The one that is asked for has the memory, and no room for the gang.
        ({"memory-per-device": "44Gi", "model": RTX_PRO_6000.product}, 16, 1000.0),
        # What is in view is too old to deny by.
        ({"memory-per-device": "120Gi"}, 2, 2000.0),
    ],
    ids=["fits", "room", "stale"],
)
def test_nothing_else_denies_what_cannot_be_kept_to_its_pool(
    annotations: Json, pods: int, now: float, stage: Stage
) -> None:
    seen = in_view(runtime(node(gpus=4), nodes=pods))
    asked = {f"samestep.dev/{name}": value for name, value in {**annotations, "pool": "a"}.items()}
    known = replace(FLEET, taken_at=1000.0)
    outcome = given(
        train_job(annotations=asked), replace(A, scheduler="gang"), surroundings=seen, stage=stage, known=known, now=now
    )
    assert (outcome.verdict, patch(outcome)) == (Verdict.ADMIT, [])


def test_a_denial_says_as_well_that_the_pool_was_not_to_be_had_and_where_the_pods_may_land() -> None:
    obj = job(memory_per_device="120Gi", pool="a")
    obj["spec"]["template"]["metadata"] = "none"
    outcome, story = story_of(obj, replace(QUEUED, scheduler="volcano"))
    assert variants(outcome) == ["SST201", "SST307/pool"]
    (landing,) = story.landings
    assert (landing.nodes, story.pools) == (4, Pools((PoolTried("a", Refused.FIELDS),), ""))
