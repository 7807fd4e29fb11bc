"""Mixed on purpose: no pin, the smallest memory is the gate, and what it costs is told."""

from copy import deepcopy
from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000, Card, gpu_node
from tests.samples import USER, Json, ask, codes, demo_nodes, fleet, nodes, patched, pod, products, pytorchjob, worker
from webhook.answer.message import message
from webhook.answer.response import patch
from webhook.answer.warnings import warnings
from webhook.decision.case import Case
from webhook.decision.decide import decide
from webhook.decision.update import decide_update
from webhook.decision.validate import check_created
from webhook.fleet.build import build_fleet
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob, Wishes
from webhook.model.policy import PinWhen, Policy, RoomRule, UnknownNodes
from webhook.model.request import Kind, Stage
from webhook.model.verdict import Decision, Verdict
from webhook.sizing.demand import size

NEVER = Policy(pin_when=PinWhen.NEVER)
COUNTS = Policy(allow_mixed=True)
BOTH = [RTX_5090.product, RTX_PRO_6000.product]
STRANGER = Card("NVIDIA-Made-Up", 48_000, "made-up", (1, 0))


def case(obj: Json, policy: Policy, *, reason: str = "a benchmark of mixed pools") -> Case:
    """The case of a job whose submitter gives a reason."""
    job = read(obj, reason)
    return Case(job, size(job, policy), fleet(demo_nodes()), policy, 1000.0)


def read(obj: Json, reason: str = "") -> TrainingJob:
    job = read_job(obj, kind=Kind("kubeflow.org", "v1", "PyTorchJob"), namespace="team-a", user=USER)
    assert isinstance(job, TrainingJob)
    return replace(job, wishes=Wishes(allow_mixed=reason))


def codes_of(decision: Decision) -> list[str]:
    return [one.code for one in decision.findings]


def test_a_policy_that_never_pins_lets_a_job_run_on_all_models_and_says_what_that_costs() -> None:
    outcome = ask(pytorchjob(memory_per_device="20Gi"), policy=NEVER)
    assert (outcome.verdict, codes(outcome), products(outcome)) == (Verdict.ADMIT, ["SST306"], BOTH)
    assert patch(outcome) == []
    estimate = outcome.decision.straggler
    assert estimate is not None
    assert (round(estimate.most_percent), estimate.unused_mib) == (55, 97_887 - 32_607)
    (told,) = warnings(outcome)
    assert told == (
        "SST306 mixed on purpose: RTX-5090 makes RTX-PRO-6000-Blackwell-Server wait 0–55 % of a step (estimate); "
        "63.8 GiB unused"
    )


@pytest.mark.parametrize(
    ("policy", "reason", "mixed"),
    [
        (COUNTS, "a benchmark", True),
        (replace(COUNTS, pin_when=PinWhen.ALWAYS), "a benchmark", True),
        (COUNTS, "", False),
        (Policy(), "a benchmark", False),
        (NEVER, "", True),
    ],
)
def test_a_submitters_reason_counts_where_policy_lets_it(policy: Policy, reason: str, mixed: bool) -> None:
    decision = decide(case(pytorchjob(memory_per_device="20Gi"), policy, reason=reason))
    assert (decision.verdict, "SST306" in codes_of(decision)) == (Verdict.ADMIT if mixed else Verdict.PIN, mixed)


def test_the_finding_points_at_the_annotation_that_allows_it() -> None:
    obj = pytorchjob(memory_per_device="20Gi")
    places = {one.where for one in decide(case(obj, COUNTS)).findings if one.code == "SST306"}
    assert places == {"metadata.annotations[samestep.dev/allow-mixed]"}
    assert {one.where for one in decide(case(obj, NEVER)).findings if one.code == "SST306"} == {""}


@pytest.mark.parametrize("policy", [NEVER, COUNTS])
def test_the_smallest_memory_of_the_mix_is_the_gate_at_every_stage(policy: Policy) -> None:
    # The large card alone would have it.
    tried = case(pytorchjob(memory_per_device="44Gi"), policy)
    for decision in (decide(tried), check_created(tried)):
        assert (decision.verdict, codes_of(decision)) == (Verdict.DENY, ["SST201", "SST306"])
        assert decision.findings[0].facts["model"] == "RTX-5090"


def test_a_denial_of_a_mix_names_the_model_that_is_too_small_and_ways_out() -> None:
    command = ("torchrun", "train.py", "--per_device_train_batch_size=64")
    obj = pytorchjob(pod(command=command), memory_fixed="2Gi", memory_per_sample="684Mi")
    outcome = ask(obj, policy=NEVER)
    first, *_ = lines = message(outcome).splitlines()
    assert first == (
        "SST201 out of memory on RTX-5090, where ddp may land since it is mixed on purpose: "
        "micro-batch 64 needs 44.8 GiB on every GPU (declared), 31.2 GiB usable."
    )
    assert any("smallest GPU here" in line for line in lines)
    (smaller, *_) = outcome.suggestions
    assert smaller.facts["change"] == "--per_device_train_batch_size 32"


def test_what_may_not_deny_only_warns_of_the_smallest() -> None:
    unlabelled = gpu_node("odd", RTX_5090)
    for key in ("product", "memory"):
        del unlabelled["metadata"]["labels"][f"nvidia.com/gpu.{key}"]
    obj = pytorchjob(memory_per_device="44Gi")
    outcome = ask(obj, [*demo_nodes(), unlabelled], policy=NEVER)
    assert (outcome.verdict, codes(outcome)[:2]) == (Verdict.ADMIT, ["SST201", "SST306"])
    assert ask(obj, fleet(demo_nodes(), taken_at=0.0), policy=NEVER, now=301.0).verdict is Verdict.ADMIT
    denying = replace(NEVER, unknown_nodes=UnknownNodes.DENY)
    assert ask(obj, [*demo_nodes(), unlabelled], policy=denying).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("workers", "room", "verdict", "code"),
    [
        (4, RoomRule.REQUIRE, Verdict.ADMIT, "SST306"),
        (5, RoomRule.REQUIRE, Verdict.DENY, "SST401"),
        (5, RoomRule.PREFER, Verdict.ADMIT, "SST401"),
        (5, RoomRule.IGNORE, Verdict.ADMIT, "SST306"),
    ],
)
def test_all_models_together_are_the_room(workers: int, room: RoomRule, verdict: Verdict, code: str) -> None:
    obj = pytorchjob(pod(gpus=4), workers=workers, memory_per_device="20Gi")
    outcome = ask(obj, policy=replace(NEVER, room=room))
    assert (outcome.verdict, codes(outcome)[0]) == (verdict, code)
    if verdict is Verdict.DENY:
        assert message(outcome).splitlines()[0] == (
            "SST401 no room: ddp wants 20 GPUs (5 pods with 4 each) at once, and all GPU models that it may use "
            "have 16 GPUs together."
        )


def test_one_model_is_no_mix() -> None:
    for known in (nodes((H100, 2, 8)), nodes((A100_80GB, 2, 8))):
        outcome = ask(pytorchjob(), known, policy=NEVER)
        assert (outcome.verdict, codes(outcome), len(outcome.decision.models)) == (Verdict.ADMIT, [], 1)


def test_models_that_count_as_one_are_no_mix_on_purpose() -> None:
    policy = replace(NEVER, classes=(tuple(BOTH),))
    outcome = ask(pytorchjob(memory_per_device="20Gi"), policy=policy)
    assert (outcome.verdict, codes(outcome), products(outcome)) == (Verdict.ADMIT, [], BOTH)


def test_without_figures_the_mix_is_told_without_an_estimate() -> None:
    outcome = ask(pytorchjob(memory_per_device="20Gi"), nodes((STRANGER, 2, 4), (RTX_5090, 2, 4)), policy=NEVER)
    assert outcome.decision.straggler is None
    assert warnings(outcome) == [
        "SST306 mixed on purpose, over RTX-5090, Made-Up; what that costs is not known: figures are missing"
    ]


def test_a_job_that_may_be_mixed_loses_its_pin_with_the_file_that_lacks_it_until_it_has_started() -> None:
    submitted = pytorchjob(memory_per_device="20Gi")
    stored = patched(ask(submitted))
    for started in (False, True):
        status = {"status": {"startTime": "2026-01-01T00:00:00Z"}} if started else {}
        old, new = stored | status, deepcopy(submitted) | status
        assert worker(patched(ask(new, old=old))) == worker(stored)
        tried = case(new, COUNTS)
        decision = decide_update(tried, read(old), size(read(old), COUNTS), by_service_account=False)
        assert decision.verdict is (Verdict.PIN if started else Verdict.ADMIT)


def test_a_running_job_that_may_be_mixed_may_spread() -> None:
    status = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    old = pytorchjob(pod(nodeSelector={"nvidia.com/gpu.product": RTX_PRO_6000.product})) | status
    new = pytorchjob(pod(nodeSelector={"kubernetes.io/os": "linux"})) | status
    assert codes(ask(new, old=old)) == ["SST302"]
    assert ask(new, old=old, policy=NEVER).verdict is Verdict.ADMIT


def test_a_running_mix_is_denied_what_its_smallest_model_cannot_hold() -> None:
    status = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    old = pytorchjob(memory_per_device="20Gi") | status
    new = pytorchjob(memory_per_device="44Gi", workers=3) | status
    assert codes(ask(new, old=old, policy=NEVER)) == ["SST201"]
    assert ask(new, old=old).verdict is Verdict.ADMIT


def test_the_check_does_not_count_a_small_model_that_joined_a_moment_ago() -> None:
    obj = pytorchjob(memory_per_device="44Gi")
    known = [*nodes((RTX_PRO_6000, 2, 4)), *nodes((A100_80GB, 2, 4))]
    settled, joined = fleet(known), fleet(nodes((RTX_5090, 2, 4)), known_since=990.0)
    together = build_fleet((*settled.nodes, *joined.nodes))
    assert ask(obj, together, policy=NEVER, stage=Stage.VALIDATE).verdict is Verdict.ADMIT
    assert ask(obj, together, policy=NEVER, stage=Stage.VALIDATE, now=1100.0).verdict is Verdict.DENY
