"""A fleet that is changed where nodes and pods change is the one that would be built anew."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.naive import copies_on
from tests.unit.fleet.test_against_naive import NAMES, REQUESTS, nodes
from webhook.fleet.build import build_fleet, changed_fleet
from webhook.fleet.pods import Usage
from webhook.fleet.room import fits, free_devices
from webhook.model.fleet import Node
from webhook.model.pods import Pod

GPU = "nvidia.com/gpu"

PODS = st.lists(
    st.builds(
        Pod,
        uid=st.sampled_from(["p0", "p1", "p2", "p3", "p4"]),
        namespace=st.just("team"),
        group=st.just(""),
        node=st.sampled_from(["", *NAMES]),
        requests=st.fixed_dictionaries(
            {"pods": st.just(1)}, optional={GPU: st.integers(0, 4), "cpu": st.integers(0, 3000)}
        ),
        created=st.just(0),
    ),
    max_size=12,
)


@st.composite
def some_nodes(draw: st.DrawFn) -> dict[str, Node]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return {name: draw(nodes(name)) for name in names}


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Node | None]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return {name: draw(st.none() | nodes(name)) for name in names}


@settings(max_examples=300, deadline=None)
@given(some_nodes(), st.lists(changes(), max_size=3), st.none() | st.lists(PODS, min_size=4, max_size=4))
def test_changes_lead_to_the_fleet_that_is_built_of_what_is_there(
    first: dict[str, Node], batches: list[dict[str, Node | None]], pods: list[list[Pod]] | None
) -> None:
    usage, there = Usage(), dict(first)
    running: dict[str, Pod] = {}
    used = None if pods is None else usage.used
    fleet = build_fleet(first.values(), used=used)
    for index, batch in enumerate(batches):
        busy: set[str] = set()
        for pod in pods[index] if pods is not None else ():
            busy |= usage.change(running.get(pod.uid), pod)
            running[pod.uid] = pod
        fleet = changed_fleet(fleet, batch, used=used, busy=busy)
        there = {name: node for name, node in {**there, **batch}.items() if node is not None}
        assert {node.name: node for node in fleet.nodes} == there
        assert fleet == build_fleet(fleet.nodes, used=used)


@settings(deadline=None)
@given(some_nodes(), PODS)
def test_what_is_free_is_what_pods_leave(first: dict[str, Node], pods: list[Pod]) -> None:
    bound = list({pod.uid: pod for pod in pods}.values())
    fleet = build_fleet(first.values(), used=Usage(bound).used)
    left = [emptied(node, bound) for node in fleet.nodes]
    assert free_devices(fleet, GPU, fleet.every) == sum(node.allocatable[GPU] for node in left)
    for requests, copies in (({GPU: 1}, 1), ({GPU: 2, "cpu": 1000}, 2)):
        enough = [place for place, node in enumerate(left) if holds(node, requests, copies)]
        assert fits(fleet, requests, copies, now=True) == sum(1 << place for place in enough)


def emptied(node: Node, pods: list[Pod]) -> Node:
    taken = {name: sum(pod.requests.get(name, 0) for pod in pods if pod.node == node.name) for name in node.allocatable}
    return replace(node, allocatable={name: max(amount - taken[name], 0) for name, amount in node.allocatable.items()})


def holds(node: Node, requests: dict[str, int], copies: int) -> bool:
    held = copies_on(node, requests, now=True)
    return held is None or held >= copies


@settings(deadline=None)
@given(some_nodes(), REQUESTS)
def test_without_pods_what_is_allocatable_is_free(first: dict[str, Node], requests: dict[str, int]) -> None:
    fleet, empty = build_fleet(first.values()), build_fleet(first.values(), used={})
    assert free_devices(fleet, GPU, fleet.every) is None
    assert fits(fleet, requests, now=True) == fits(empty, requests, now=True)


def test_a_change_of_one_node_leaves_what_it_does_not_touch() -> None:
    fleet = build_fleet([plain("a"), plain("b")], used={})
    cordoned = changed_fleet(fleet, {"a": replace(plain("a"), unschedulable=True)}, used={})
    assert cordoned.unschedulable == 0b01
    assert cordoned.devices == fleet.devices
    assert changed_fleet(fleet, {}, used={"b": {GPU: 3}}, busy=["b"]).labels is fleet.labels


def plain(name: str) -> Node:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034", "host": name}
    return Node(name, "", labels, (), False, True, False, {GPU: 8, "pods": 110}, {GPU: 8})


def test_a_pod_is_in_use_where_it_is_bound_and_only_there() -> None:
    pod = Pod("u", "team", "", "a", {GPU: 3, "pods": 1}, 0)
    usage = Usage([pod])
    assert usage.used == {"a": {GPU: 3, "pods": 1}}
    assert usage.change(pod, pod) == set()
    moved = replace(pod, node="b")
    assert usage.change(pod, moved) == {"a", "b"}
    assert usage.used == {"b": {GPU: 3, "pods": 1}}
    assert usage.change(moved, None) == {"b"}
    assert usage.used == {}
