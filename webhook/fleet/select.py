"""Where a pod may land by its selectors, affinity and tolerations: kube-scheduler's rules, answered by indexes.

Read in k8s.io/kubernetes 1.36.3: component-helpers/scheduling/corev1/nodeaffinity, api/core/v1/toleration.go and the
scheduler's plugins tainttoleration and nodeunschedulable.
"""

from collections.abc import Iterable, Iterator

from webhook.fleet.limits import ByName, ByQueue, ByRequirement, BySelector, ByTaint, ByTerms, Limit
from webhook.model.fleet import Fleet, Nodes
from webhook.model.index import LabelIndex, int64
from webhook.model.placement import Operator, Placement, Requirement, Term, Toleration

_PASSING = "node.kubernetes.io/"
_UNSCHEDULABLE = ("node.kubernetes.io/unschedulable", "NoSchedule")
_EQUAL = ("", "Equal")
_NOBODY = LabelIndex({})


def reachable(fleet: Fleet, placement: Placement, *, now: bool) -> Nodes:
    """The nodes that these scheduling fields allow.

    `now` False (*there*): whatever the nodes' passing state, so not Ready, cordoned or tainted under
    `node.kubernetes.io/` keeps no pod out. True: what kube-scheduler would do, with nodes left out that are not Ready
    or being deleted. A pod that names its node passes by the scheduler, so taints do not keep it out, but the kubelet
    turns it away where selectors or affinity do not match (k8s.io/kubernetes, pkg/kubelet/lifecycle/predicate.go).
    """
    nodes = fleet.every
    for limit in placed(fleet, placement):
        nodes &= limit.nodes
    return nodes & ~held_back(fleet, placement) if now else nodes


def placed(fleet: Fleet, placement: Placement) -> Iterator[Limit]:
    """What these scheduling fields leave *there*, one after the other."""
    for key, value in placement.node_selector:
        yield BySelector(key, value, fleet.labels.get(key, _NOBODY).equal(value))
    if placement.terms is not None:
        yield ByTerms(placement.terms, _any(_term(fleet, term) for term in placement.terms))
    if placement.node_name:
        yield ByName(placement.node_name, fleet.names.equal(placement.node_name))
    yield from tolerated(fleet, placement)


def tolerated(fleet: Fleet, placement: Placement) -> Iterator[ByTaint]:
    """What each taint leaves that keeps pods out *there*; a pod that names its node passes by them all."""
    if placement.node_name:
        return
    for identity, values in fleet.taints.items():
        if not identity[0].startswith(_PASSING):
            yield ByTaint(*identity, fleet.every & ~_kept_out(values, _concerning(placement, identity)))


def required(fleet: Fleet, term: Term) -> Iterator[ByRequirement]:
    """What the requirements of a term leave, one after the other; an empty term, which leaves nothing, has none."""
    for requirement in term.expressions:
        yield ByRequirement(requirement, labelled(fleet, requirement))
    for requirement in term.fields:
        yield ByRequirement(requirement, _named(fleet, requirement), of_field=True)


def by_queue(fleet: Fleet, requirements: Iterable[Requirement]) -> Iterator[ByQueue]:
    """What these requirements of a queue leave, one after the other."""
    for one in requirements:
        yield ByQueue(one, labelled(fleet, one))


def held_back(fleet: Fleet, placement: Placement) -> Nodes:
    """The nodes that only their passing state keeps such pods from."""
    nodes = fleet.not_ready
    if placement.node_name:
        return nodes
    for identity, values in fleet.taints.items():
        if identity[0].startswith(_PASSING):
            nodes |= _kept_out(values, _concerning(placement, identity))
    # The scheduler takes spec.unschedulable for this taint with no value (plugin NodeUnschedulable).
    tolerations = _concerning(placement, _UNSCHEDULABLE)
    if not any(one.operator == "Exists" or (one.operator in _EQUAL and not one.value) for one in tolerations):
        nodes |= fleet.unschedulable
    return nodes


def _term(fleet: Fleet, term: Term) -> Nodes:
    if term.empty:
        return 0
    nodes = fleet.every
    for limit in required(fleet, term):
        nodes &= limit.nodes
    return nodes


def labelled(fleet: Fleet, requirement: Requirement) -> Nodes:
    """The nodes whose labels meet one expression; none where it is malformed, for then its whole term matches none."""
    index = fleet.labels.get(requirement.key, _NOBODY)
    values = requirement.values
    match requirement.operator:
        case Operator.IN:
            return _any(map(index.equal, values))
        case Operator.NOT_IN:
            return fleet.every & ~_any(map(index.equal, values)) if values else 0
        case Operator.EXISTS:
            return index.present if not values else 0
        case Operator.DOES_NOT_EXIST:
            return fleet.every & ~index.present if not values else 0
        case Operator.GT | Operator.LT:
            bound = int64(values[0]) if len(values) == 1 else None
            if bound is None:
                return 0
            return index.above(bound) if requirement.operator is Operator.GT else index.below(bound)


def _named(fleet: Fleet, requirement: Requirement) -> Nodes:
    """matchFields knows one field and exactly one value."""
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return 0
    nodes = fleet.names.equal(requirement.values[0])
    match requirement.operator:
        case Operator.IN:
            return nodes
        case Operator.NOT_IN:
            return fleet.every & ~nodes
        case _:
            return 0


def _kept_out(values: LabelIndex, tolerations: list[Toleration]) -> Nodes:
    """The nodes with a taint of one key and effect that none of these tolerations of that key and effect tolerates.

    Lt and Gt tolerate nothing: TaintTolerationComparisonOperators is alpha and off by default in 1.35 to 1.37.
    """
    if any(one.operator == "Exists" for one in tolerations):
        return 0
    return values.present & ~_any(values.equal(one.value) for one in tolerations if one.operator in _EQUAL)


def _concerning(placement: Placement, identity: tuple[str, str]) -> list[Toleration]:
    """The tolerations for taints of this key and effect; an empty key or effect stands for any."""
    key, effect = identity
    return [one for one in placement.tolerations if one.key in ("", key) and one.effect in ("", effect)]


def _any(sets: Iterable[Nodes]) -> Nodes:
    nodes = 0
    for one in sets:
        nodes |= one
    return nodes
