"""Room: the rules one by one (the whole is compared node by node in test_against_naive)."""

import pytest

from webhook.fleet.build import build_fleet
from webhook.fleet.room import fits, pods_up_to
from webhook.model.fleet import Node


def node(name: str, capacity: int = 8, **allocatable: int) -> Node:
    amounts = {resource.replace("gpu", "nvidia.com/gpu"): amount for resource, amount in allocatable.items()}
    return Node(name, "", {}, (), False, True, False, amounts, {"nvidia.com/gpu": capacity})


FLEET = build_fleet(
    [
        node("large", gpu=8, cpu=64_000, pods=110),
        node("few-cores", gpu=8, cpu=8_000, pods=110),
        node("unhealthy", gpu=0, cpu=64_000, pods=110),
        node("one-pod", gpu=8, cpu=64_000, pods=1),
        node("full-of-none", gpu=8, cpu=64_000, pods=0),
        node("unsaid", gpu=8, cpu=64_000),
    ]
)
LARGE, FEW_CORES, UNHEALTHY, ONE_POD, NO_PODS, UNSAID = (1 << place for place in range(6))
ALL = LARGE | FEW_CORES | UNHEALTHY | ONE_POD | NO_PODS | UNSAID


def test_devices_there_count_even_where_none_is_healthy_and_devices_now_do_not() -> None:
    assert fits(FLEET, {"nvidia.com/gpu": 8}) & UNHEALTHY
    assert not fits(FLEET, {"nvidia.com/gpu": 8}, now=True) & UNHEALTHY


def test_every_copy_needs_all_it_asks_for_and_a_place_among_the_pods() -> None:
    asked = {"nvidia.com/gpu": 4, "cpu": 6_000}
    assert fits(FLEET, asked) == ALL & ~NO_PODS
    assert fits(FLEET, asked, copies=2) == LARGE | UNHEALTHY | UNSAID
    assert fits(FLEET, asked, copies=3) == 0


def test_a_resource_that_no_node_offers_leaves_none_and_none_of_it_asks_nothing() -> None:
    assert fits(FLEET, {"rdma/hca": 1}) == 0
    assert fits(FLEET, {"rdma/hca": 0}) == ALL & ~NO_PODS


@pytest.mark.parametrize(
    ("asked", "pods"),
    [
        ({"nvidia.com/gpu": 8}, 5),
        ({"nvidia.com/gpu": 4}, 2 + 2 + 2 + 1 + 0 + 2),
        ({"nvidia.com/gpu": 4, "cpu": 8_000}, 2 + 1 + 2 + 1 + 0 + 2),
        ({"nvidia.com/gpu": 9}, 0),
        ({"rdma/hca": 1}, 0),
    ],
)
def test_pods_are_summed_over_nodes_each_by_its_scarcest_resource(asked: dict[str, int], pods: int) -> None:
    assert pods_up_to(FLEET, asked, ALL, enough=1_000_000) == pods


def test_counting_ends_when_there_are_enough() -> None:
    assert 3 <= pods_up_to(FLEET, {"nvidia.com/gpu": 1}, ALL, enough=3) <= 33
    assert pods_up_to(FLEET, {"nvidia.com/gpu": 1}, ALL, enough=0) == 0


def test_only_the_nodes_asked_about_count() -> None:
    assert pods_up_to(FLEET, {"nvidia.com/gpu": 4}, LARGE | ONE_POD, enough=100) == 3


def test_a_pod_that_nothing_limits_is_counted_at_once() -> None:
    assert pods_up_to(FLEET, {}, UNSAID, enough=10**12) == 10**12


def test_a_tiny_request_against_a_huge_offer_is_counted_at_once() -> None:
    fleet = build_fleet([node("huge", gpu=1, memory=1 << 60)])
    assert pods_up_to(fleet, {"memory": 1}, 1, enough=1 << 62) == 1 << 60
