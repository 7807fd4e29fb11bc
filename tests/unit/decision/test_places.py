"""What is remembered of a fleet, so that nodes are not looked through for every job, never tells of another fleet."""

from dataclasses import replace

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.samples import Json, nodes, pod, pytorchjob
from webhook.fleet.build import build_fleet, changed_fleet
from webhook.fleet.nodes import read_node
from webhook.model.fleet import Fleet, Node
from webhook.model.policy import Policy
from webhook.model.request import Kind, Request
from webhook.model.verdict import Pool
from webhook.model.world import World
from webhook.review import review

GPU = "nvidia.com/gpu"
NODES = {
    node.name: node for one in nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 2, 4)) if (node := read_node(one)) is not None
}


def pool(fleet: Fleet, **requests: str) -> Pool:
    return review(
        Request(Kind("kubeflow.org", "v1", "PyTorchJob"), "CREATE", job(**requests)), World(fleet, Policy())
    ).decision.pool


def job(**requests: str) -> Json:
    spec = pod()
    spec["containers"][0]["resources"]["requests"] = requests
    return pytorchjob(spec, memory_per_device="20Gi")


def test_a_fleet_whose_nodes_have_changed_is_looked_through_anew() -> None:
    fleet = build_fleet(NODES.values())
    first, *_, last = NODES.values()
    fewer = replace(last, allocatable={**last.allocatable, GPU: 2}, capacity={**last.capacity, GPU: 2})
    changes: list[dict[str, Node | None]] = [{first.name: None}, {last.name: fewer}, {first.name: first}]
    there = dict(NODES)
    for change in changes:
        assert pool(fleet).candidates
        fleet = changed_fleet(fleet, change)
        there = {name: node for name, node in {**there, **change}.items() if node is not None}
        assert pool(fleet) == pool(build_fleet(there.values()))


def test_a_job_that_asks_for_more_is_told_of_fewer_nodes() -> None:
    fleet = build_fleet(NODES.values())
    assert pool(fleet, cpu="1").nodes == len(NODES)
    assert pool(fleet, cpu="100000").nodes == 0


def test_what_pods_take_changes_nothing_of_what_is_there() -> None:
    fleet = build_fleet(NODES.values(), used={})
    before = pool(fleet)
    taken = {name: {GPU: 1} for name in NODES}
    busy = changed_fleet(fleet, {}, used=taken, busy=NODES)
    assert busy.places is fleet.places
    now = pool(busy)
    assert [one.devices for one in now.candidates] == [one.devices for one in before.candidates]
    assert [one.devices_now for one in now.candidates] == [9, 6]


def test_so_much_is_remembered_and_no_more() -> None:
    fleet = build_fleet(NODES.values())
    for cpu in range(200):
        pool(fleet, cpu=f"{cpu + 1}m")
    assert 0 < len(fleet.places) <= 64


def test_no_name_that_only_a_job_knows_is_remembered() -> None:
    fleet = build_fleet(NODES.values())
    assert not pool(fleet, **{"example.com/" + "x" * 1000: "1"}).nodes
    assert not fleet.places
