"""The indexes of a fleet answer as a walk over its nodes would."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet import naive
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.fleet.room import fits, pods_up_to
from webhook.fleet.select import reachable
from webhook.fleet.snapshot import to_objects
from webhook.model.fleet import Fleet, Node, Taint
from webhook.model.placement import Operator, Placement, Requirement, Term, Toleration

KEYS = st.sampled_from(["pool", "rank", "nvidia.com/gpu.product"])
VALUES = st.sampled_from(["a", "b", "", "1", "2", "10", "-3"])
TAINT_KEYS = st.sampled_from(["pool", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"])
TAINT_VALUES = st.sampled_from(["", "a", "b"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
NAMES = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    taints = draw(st.dictionaries(st.tuples(TAINT_KEYS, EFFECTS), TAINT_VALUES, max_size=2))
    return Node(
        name=name,
        uid="",
        labels=draw(st.dictionaries(KEYS, VALUES)),
        taints=tuple(Taint(key, value, effect) for (key, effect), value in taints.items()),
        unschedulable=draw(st.booleans()),
        ready=draw(st.booleans()),
        deleting=draw(st.sampled_from([False, False, True])),
        allocatable=draw(
            st.fixed_dictionaries(
                {"nvidia.com/gpu": st.integers(0, 8)},
                optional={
                    "cpu": st.integers(0, 9000),
                    "pods": st.integers(0, 5),
                    "nvidia.com/mig-1g": st.integers(0, 2),
                },
            )
        ),
        capacity=draw(st.fixed_dictionaries({"nvidia.com/gpu": st.integers(0, 8)})),
    )


FLEETS = (
    st.lists(st.sampled_from(NAMES), unique=True).flatmap(lambda names: st.tuples(*map(nodes, names))).map(build_fleet)
)

REQUIREMENTS = st.builds(
    Requirement, KEYS | st.just("nobody"), st.sampled_from(Operator), st.lists(VALUES, max_size=2).map(tuple)
)
FIELDS = st.builds(
    Requirement,
    st.sampled_from(["metadata.name", "metadata.name", "metadata.namespace"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map(tuple),
)
TERMS = st.builds(Term, st.lists(REQUIREMENTS, max_size=2).map(tuple), st.lists(FIELDS, max_size=1).map(tuple))
TOLERATIONS = st.builds(
    Toleration,
    st.just("") | TAINT_KEYS,
    st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "other"]),
    TAINT_VALUES,
    st.just("") | EFFECTS,
)
PLACEMENTS = st.builds(
    Placement,
    node_selector=st.just(()) | st.dictionaries(KEYS, VALUES, max_size=2).map(lambda labels: tuple(labels.items())),
    terms=st.none() | st.lists(TERMS, max_size=3).map(tuple),
    tolerations=st.lists(TOLERATIONS, max_size=3).map(tuple),
    node_name=st.sampled_from(["", "", "", "", *NAMES[:2]]),
)
REQUESTS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g", "cpu", "nobody.example.com/device"]),
    st.sampled_from([0, 1, 2, 3, 1000]),
)


@settings(max_examples=300)
@given(FLEETS, PLACEMENTS, st.booleans())
def test_reachable_nodes_are_those_on_which_the_rules_allow_a_pod(
    fleet: Fleet, placement: Placement, now: bool
) -> None:
    allowed = [node for node in fleet.nodes if naive.may_land(node, placement, now=now)]
    assert reachable(fleet, placement, now=now) == naive.set_of(fleet, allowed)


@settings(max_examples=200)
@given(FLEETS, REQUESTS, st.integers(1, 4), st.booleans())
def test_fitting_nodes_are_those_with_enough_of_every_resource(
    fleet: Fleet, requests: dict[str, int], copies: int, now: bool
) -> None:
    held = {node.name: naive.copies_on(node, requests, now=now) for node in fleet.nodes}
    enough = [node for node in fleet.nodes if (most := held[node.name]) is None or most >= copies]
    assert fits(fleet, requests, copies, now=now) == naive.set_of(fleet, enough)


@settings(max_examples=200)
@given(FLEETS, REQUESTS, st.integers(0, 255), st.integers(0, 60), st.booleans())
def test_pods_are_counted_exactly_up_to_enough(
    fleet: Fleet, requests: dict[str, int], among: int, enough: int, now: bool
) -> None:
    among &= fleet.every
    held = [naive.copies_on(node, requests, now=now) for place, node in enumerate(fleet.nodes) if among >> place & 1]
    total = sum(math.inf if one is None else one for one in held)
    counted = pods_up_to(fleet, requests, among, enough, now=now)
    assert counted == total if total < enough else enough <= counted <= max(total, enough)


@given(FLEETS)
def test_the_sets_of_a_column_are_disjoint_and_hold_every_node_that_offers_the_resource(fleet: Fleet) -> None:
    for column in fleet.devices.values():
        sets = [*column.models.values(), column.unknown, column.two_models, column.shares]
        assert sum(one.bit_count() for one in sets) == column.there.present.bit_count()
        assert column.there.present == column.now.present == sum(sets)
        assert column.memory.present == sum(column.models.values())


@given(FLEETS)
def test_a_snapshot_read_and_built_again_is_an_equal_fleet(fleet: Fleet) -> None:
    again = [node for one in to_objects(fleet) if (node := read_node(one)) is not None]
    assert build_fleet(again) == fleet
