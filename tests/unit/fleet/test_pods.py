"""What waits for a model, as pods come, get their nodes and go."""

from dataclasses import replace

from webhook.fleet.pods import Usage
from webhook.model.pods import Pod

GPU = "nvidia.com/gpu"
KEY = ("nvidia.com/gpu.product", "NVIDIA-L40S")
WAITING = Pod("u", "team-a", "", "", {GPU: 4, "pods": 1}, created=0, waits_for=KEY)


def test_what_pods_without_a_node_wait_for_is_summed_by_model() -> None:
    usage = Usage([WAITING, replace(WAITING, uid="v"), replace(WAITING, uid="w", waits_for=None)])
    assert usage.queued == {(GPU, *KEY): 8, ("pods", *KEY): 2}
    assert usage.used == {}


def test_a_pod_that_gets_its_node_waits_no_longer() -> None:
    usage = Usage([WAITING])
    before = usage.queued
    assert usage.change(WAITING, replace(WAITING, node="n0", waits_for=None)) == {"n0"}
    assert usage.queued == {}
    assert usage.used == {"n0": {GPU: 4, "pods": 1}}
    assert before == {(GPU, *KEY): 4, ("pods", *KEY): 1}  # swapped whole


def test_a_pod_that_was_passed_over_waits_from_then_on_and_until_it_goes() -> None:
    usage = Usage([new := replace(WAITING, waits_for=None)])
    assert usage.change(new, WAITING) == set()
    assert usage.queued[GPU, *KEY] == 4
    assert usage.change(WAITING, None) == set()
    assert usage.queued == {}
