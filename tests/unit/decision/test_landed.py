"""Jobs that are there: where their pods are, and what that says of mixing and of memory."""

from dataclasses import replace

import pytest

from tests.samples import Json, ask, codes, demo_nodes, fleet, pod, pytorchjob
from webhook.answer.wording import sentence
from webhook.decision.landed import Landed, is_at_risk, is_mixed, is_unpinned, landed, with_landing
from webhook.fleet.build import build_fleet
from webhook.model.fleet import Fleet
from webhook.model.pods import Pod
from webhook.model.policy import Policy
from webhook.model.request import Stage
from webhook.model.verdict import Review

NODES = [node["metadata"]["name"] for node in demo_nodes()]
GPU = "nvidia.com/gpu"


def on(*nodes: str) -> Landed:
    pods = (Pod(str(index), "team-a", "", node, {GPU: 4}, 0) for index, node in enumerate(nodes))
    return landed(pods, [GPU], fleet(demo_nodes()))


def judged(obj: Json, *nodes: str, policy: Policy | None = None) -> Review:
    return with_landing(ask(obj, stage=Stage.AUDIT, policy=policy), on(*nodes))


def test_pods_are_counted_by_the_model_of_their_node() -> None:
    where = on(NODES[0], NODES[1], NODES[2], "", "gone")
    assert {model.name: count for model, count in where.pods.items()} == {
        "RTX-5090": 2,
        "RTX-PRO-6000-Blackwell-Server": 1,
    }
    assert (where.unknown, where.waiting, where.bound) == (1, 1, 4)
    assert sorted(where.memory_mib.values()) == [32607, 97887]


def test_coupled_ranks_on_two_models_are_mixed_and_what_that_costs_is_of_these() -> None:
    review = judged(pytorchjob(memory_per_device="20Gi"), NODES[0], NODES[2])
    assert is_mixed(review)
    assert codes(review)[0] == "SST308"
    assert sentence(review.decision.findings[0], review) == (
        "runs on several GPU models: RTX-5090 x1, RTX-PRO-6000-Blackwell-Server x1"
    )
    assert review.decision.straggler is not None
    assert not is_mixed(judged(pytorchjob(memory_per_device="20Gi"), NODES[0], NODES[1]))


@pytest.mark.parametrize(
    ("memory", "selector", "at_risk"),
    [
        ("20Gi", {}, False),
        ("40Gi", {}, True),
        ("40Gi", {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"}, False),
        ("31Gi", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"}, True),
        ("200Gi", {}, True),
    ],
)
def test_what_may_come_to_a_model_that_is_too_small_is_at_risk(
    memory: str, selector: dict[str, str], at_risk: bool
) -> None:
    made = pytorchjob(pod(nodeSelector=selector), memory_per_device=memory)
    assert is_at_risk(judged(made)) is at_risk


def test_what_is_on_a_model_that_is_too_small_is_at_risk_whatever_its_selectors_say_by_now() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"}
    made = pytorchjob(pod(nodeSelector=selector), memory_per_device="40Gi")
    review = judged(made, NODES[0])
    assert is_at_risk(review)
    told = next(sentence(one, review) for one in review.decision.findings if one.code == "SST202")
    assert "RTX-5090" in told


def test_unpinned_is_what_may_come_to_several_models_and_is_not_meant_to() -> None:
    assert is_unpinned(judged(pytorchjob()), left_to_queue=False)
    assert not is_unpinned(judged(pytorchjob()), left_to_queue=True)
    selector = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"}
    assert not is_unpinned(judged(pytorchjob(pod(nodeSelector=selector))), left_to_queue=False)
    meant = judged(pytorchjob(allow_mixed="a test"), policy=Policy(allow_mixed=True))
    assert not is_unpinned(meant, left_to_queue=False)
    one_pod = judged(pytorchjob(workers=1))
    assert not is_unpinned(one_pod, left_to_queue=False)


@pytest.mark.parametrize(("stage", "told"), [(Stage.MUTATE, True), (Stage.AUDIT, False)])
def test_what_runs_is_not_told_that_there_is_no_room_now(stage: Stage, told: bool) -> None:
    made = pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi")
    made["status"] = {"startTime": "2027-01-01T00:00:00Z"}
    assert ("SST402" in codes(ask(made, full(), stage=stage))) is told
    del made["status"]
    assert "SST402" in codes(ask(made, full(), stage=Stage.AUDIT))


def full() -> Fleet:
    """The demo fleet with every device in use."""
    known = fleet(demo_nodes())
    return build_fleet(known.nodes, used={node.name: {GPU: 4, "pods": 1} for node in known.nodes})


def test_a_review_of_nothing_of_ours_is_left_as_it_is() -> None:
    review = ask(pytorchjob(pod(gpus=0)), stage=Stage.AUDIT)
    assert with_landing(review, on(NODES[0], NODES[2])) == review
    assert with_landing(replace(review, job=None), on(NODES[0])).job is None
