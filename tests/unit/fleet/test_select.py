"""Selectors, affinity, taints: the rules one by one (the whole is compared node by node in test_against_naive)."""

import pytest

from webhook.fleet.build import build_fleet
from webhook.fleet.select import reachable
from webhook.model.fleet import Fleet, Node, Taint
from webhook.model.index import positions_of
from webhook.model.placement import Operator, Placement, Requirement, Term, Toleration


def node(
    name: str, *taints: Taint, unschedulable: bool = False, ready: bool = True, deleting: bool = False, **labels: str
) -> Node:
    return Node(name, "", labels, taints, unschedulable, ready, deleting, {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 8})


def names(fleet: Fleet, placement: Placement, *, now: bool = False) -> set[str]:
    return {fleet.nodes[position].name for position in positions_of(reachable(fleet, placement, now=now))}


def terms(*requirements: Requirement) -> Placement:
    return Placement(terms=(Term(requirements),))


LABELLED = build_fleet([node("a", zone="1", size="9"), node("b", zone="2", size="10"), node("c", zone="2")])


def test_a_pod_that_asks_for_nothing_may_land_anywhere() -> None:
    assert names(LABELLED, Placement()) == {"a", "b", "c"}


def test_all_of_a_node_selector_must_match() -> None:
    assert names(LABELLED, Placement(node_selector=(("zone", "2"),))) == {"b", "c"}
    assert names(LABELLED, Placement(node_selector=(("zone", "2"), ("size", "10")))) == {"b"}
    assert names(LABELLED, Placement(node_selector=(("nobody", "x"),))) == set()


@pytest.mark.parametrize(
    ("requirement", "left"),
    [
        (Requirement("zone", Operator.IN, ("1", "3")), {"a"}),
        (Requirement("size", Operator.NOT_IN, ("9",)), {"b", "c"}),
        (Requirement("size", Operator.EXISTS), {"a", "b"}),
        (Requirement("size", Operator.DOES_NOT_EXIST), {"c"}),
        (Requirement("size", Operator.GT, ("9",)), {"b"}),
        (Requirement("size", Operator.LT, ("10",)), {"a"}),
        (Requirement("nobody", Operator.NOT_IN, ("x",)), {"a", "b", "c"}),
        (Requirement("nobody", Operator.GT, ("0",)), set()),
    ],
)
def test_each_operator_means_what_kubernetes_means(requirement: Requirement, left: set[str]) -> None:
    assert names(LABELLED, terms(requirement)) == left


@pytest.mark.parametrize(
    "malformed",
    [
        Requirement("zone", Operator.IN),
        Requirement("zone", Operator.NOT_IN),
        Requirement("zone", Operator.EXISTS, ("1",)),
        Requirement("nobody", Operator.DOES_NOT_EXIST, ("1",)),
        Requirement("size", Operator.GT, ("8", "9")),
        Requirement("size", Operator.GT, ("8.5",)),
        Requirement("size", Operator.LT),
    ],
)
def test_a_malformed_expression_makes_its_term_match_nothing_and_leaves_the_others(malformed: Requirement) -> None:
    assert names(LABELLED, terms(malformed)) == set()
    other = Term((Requirement("zone", Operator.IN, ("1",)),))
    assert names(LABELLED, Placement(terms=(Term((malformed,)), other))) == {"a"}


def test_terms_are_ored_and_an_empty_term_matches_nothing() -> None:
    zone_1 = Term((Requirement("zone", Operator.IN, ("1",)),))
    size_10 = Term((Requirement("size", Operator.IN, ("10",)),))
    assert names(LABELLED, Placement(terms=(zone_1, size_10, Term()))) == {"a", "b"}
    assert names(LABELLED, Placement(terms=(Term(),))) == set()
    assert names(LABELLED, Placement(terms=())) == set()


def test_fields_match_by_name_and_go_with_the_expressions_of_their_term() -> None:
    by_name = Requirement("metadata.name", Operator.IN, ("b",))
    assert names(LABELLED, Placement(terms=(Term(fields=(by_name,)),))) == {"b"}
    assert names(
        LABELLED, Placement(terms=(Term(fields=(Requirement("metadata.name", Operator.NOT_IN, ("b",)),)),))
    ) == {"a", "c"}
    zone_1 = Requirement("zone", Operator.IN, ("1",))
    assert names(LABELLED, Placement(terms=(Term((zone_1,), (by_name,)),))) == set()


@pytest.mark.parametrize(
    "field",
    [
        Requirement("metadata.name", Operator.IN, ("a", "b")),
        Requirement("metadata.name", Operator.EXISTS),
        Requirement("metadata.name", Operator.GT, ("1",)),
        Requirement("metadata.uid", Operator.IN, ("a",)),
    ],
)
def test_a_field_that_kubernetes_does_not_take_matches_nothing(field: Requirement) -> None:
    assert names(LABELLED, Placement(terms=(Term(fields=(field,)),))) == set()


TAINTED = build_fleet(
    [
        node("free"),
        node("soft", Taint("pool", "a", "PreferNoSchedule")),
        node("pool-a", Taint("pool", "a", "NoSchedule")),
        node("pool-b", Taint("pool", "b", "NoSchedule")),
        node("evicting", Taint("pool", "a", "NoExecute")),
        node("two", Taint("pool", "a", "NoSchedule"), Taint("team", "x", "NoSchedule")),
    ]
)


@pytest.mark.parametrize(
    ("tolerations", "left"),
    [
        ([], set()),
        ([Toleration("pool", "Equal", "a", "NoSchedule")], {"pool-a"}),
        ([Toleration("pool", "Equal", "a")], {"pool-a", "evicting"}),
        ([Toleration("pool", "", "b", "NoSchedule")], {"pool-b"}),
        ([Toleration("pool", "Exists")], {"pool-a", "pool-b", "evicting"}),
        ([Toleration("pool", "Exists", effect="NoExecute")], {"evicting"}),
        ([Toleration(operator="Exists", effect="NoSchedule")], {"pool-a", "pool-b", "two"}),
        ([Toleration(operator="Exists")], {"pool-a", "pool-b", "evicting", "two"}),
        ([Toleration("pool", "Exists"), Toleration("team", "Equal", "x")], {"pool-a", "pool-b", "evicting", "two"}),
        ([Toleration("team", "Equal", "x")], set()),
        ([Toleration("pool", "Gt", "a"), Toleration("pool", "Lt", "b")], set()),
    ],
)
def test_a_taint_keeps_out_who_does_not_tolerate_it(tolerations: list[Toleration], left: set[str]) -> None:
    placement = Placement(tolerations=tuple(tolerations))
    assert names(TAINTED, placement, now=False) == {"free", "soft"} | left
    assert names(TAINTED, placement, now=True) == {"free", "soft"} | left


PASSING = build_fleet(
    [
        node("cordoned", Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"), unschedulable=True),
        node("cordoned-this-moment", unschedulable=True),
        node("not-ready", Taint("node.kubernetes.io/not-ready", "", "NoExecute"), ready=False),
        node("going", deleting=True),
        node("under-pressure", Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule")),
        node("reserved", Taint("pool", "a", "NoSchedule")),
    ]
)
STATES = {"cordoned", "cordoned-this-moment", "not-ready", "going", "under-pressure"}


def test_nodes_are_there_whatever_their_passing_state() -> None:
    assert names(PASSING, Placement(), now=False) == STATES


def test_nodes_in_a_passing_state_take_no_pods_now() -> None:
    assert names(PASSING, Placement(), now=True) == set()


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("node.kubernetes.io/unschedulable", "Exists"),
        Toleration("node.kubernetes.io/unschedulable", "Equal", "", "NoSchedule"),
    ],
)
def test_a_cordon_is_tolerated_as_the_taint_it_stands_for(toleration: Toleration) -> None:
    assert names(PASSING, Placement(tolerations=(toleration,)), now=True) == {"cordoned", "cordoned-this-moment"}


def test_nodes_not_ready_or_being_deleted_are_out_now_even_for_who_tolerates_everything() -> None:
    tolerates_all = Placement(tolerations=(Toleration(operator="Exists"),))
    assert names(PASSING, tolerates_all, now=True) == STATES - {"not-ready", "going"} | {"reserved"}


def test_a_pod_that_names_its_node_goes_there_whatever_taints_say_and_nowhere_else() -> None:
    taint = Taint("team", "b", "NoSchedule")
    tainted = Node("tainted", "", {"pool": "x"}, (taint,), True, True, False, {}, {})
    down = Node("down", "", {}, (), False, False, False, {}, {})
    known = build_fleet([tainted, down])
    assert reachable(known, Placement(node_name="tainted"), now=True) == 0b01
    assert reachable(known, Placement(node_name="tainted", node_selector=(("pool", "y"),)), now=False) == 0
    assert reachable(known, Placement(node_name="down"), now=False) == 0b10
    assert reachable(known, Placement(node_name="down"), now=True) == 0
    assert reachable(known, Placement(node_name="nobody"), now=False) == 0
