"""Kubernetes' rules once more, node by node and with no index: what the real ones are compared with."""

from collections.abc import Iterable, Mapping

from webhook.model.fleet import Fleet, Node, Nodes, Taint
from webhook.model.placement import Operator, Placement, Requirement, Term, Toleration


def set_of(fleet: Fleet, nodes: Iterable[Node]) -> Nodes:
    return sum(1 << fleet.nodes.index(node) for node in nodes)


def may_land(node: Node, placement: Placement, *, now: bool) -> bool:
    if any(node.labels.get(key) != value for key, value in placement.node_selector):
        return False
    if placement.terms is not None and not any(matches(node, term) for term in placement.terms):
        return False
    if placement.node_name:
        return node.name == placement.node_name and (not now or (node.ready and not node.deleting))
    taints = [one for one in node.taints if one.effect in ("NoSchedule", "NoExecute")]
    if not now:
        taints = [one for one in taints if not one.key.startswith("node.kubernetes.io/")]
    elif not node.ready or node.deleting:
        return False
    elif node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    return all(any(tolerates(one, taint) for one in placement.tolerations) for taint in taints)


def matches(node: Node, term: Term) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(labelled(node, one) for one in term.expressions) and all(named(node, one) for one in term.fields)


def labelled(node: Node, requirement: Requirement) -> bool:
    value, values = node.labels.get(requirement.key), requirement.values
    match requirement.operator:
        case Operator.IN:
            return value in values
        case Operator.NOT_IN:
            return len(values) > 0 and value not in values
        case Operator.EXISTS:
            return value is not None and not values
        case Operator.DOES_NOT_EXIST:
            return value is None and not values
        case Operator.GT:
            return len(values) == 1 and value is not None and compare(value, values[0]) == 1
        case Operator.LT:
            return len(values) == 1 and value is not None and compare(value, values[0]) == -1


def named(node: Node, requirement: Requirement) -> bool:
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return False
    if requirement.operator is Operator.IN:
        return node.name == requirement.values[0]
    return requirement.operator is Operator.NOT_IN and node.name != requirement.values[0]


def compare(left: str, right: str) -> int | None:
    try:
        difference = int(left) - int(right)
    except ValueError:
        return None
    return (difference > 0) - (difference < 0)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)


def copies_on(node: Node, requests: Mapping[str, int], *, now: bool) -> int | None:
    """How many pods one node holds; None: any number."""
    limits = [node.allocatable["pods"]] if "pods" in node.allocatable else []
    for resource, amount in requests.items():
        if amount > 0:
            offered = node.allocatable.get(resource, 0)
            if (
                resource == "nvidia.com/gpu"
                and not now
                and not offered
                and not node.allocatable.get("nvidia.com/mig-1g", 0)
            ):
                offered = node.capacity.get(resource, 0)
            limits.append(offered // amount)
    return min(limits, default=None)
