"""Nodes to fleet: every column that a query needs, made once for each snapshot."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from webhook.fleet.columns import device_columns
from webhook.model.fleet import Fleet, Node
from webhook.model.index import LabelIndex, ThresholdIndex, bits_of

_KEEP_OUT = ("NoSchedule", "NoExecute")
_PROVISIONED = frozenset({"karpenter.sh/nodepool", "karpenter.sh/provisioner-name"})
"""Labels of nodes that Karpenter made: where one is, more may come."""


def build_fleet(nodes: Iterable[Node], *, taken_at: float | None = None, grows: bool = False) -> Fleet:
    """The fleet of these nodes. Of two nodes of one name the later counts (files given together may overlap)."""
    kept = tuple({node.name: node for node in nodes}.values())
    labels = _labels(kept)
    return Fleet(
        nodes=kept,
        every=(1 << len(kept)) - 1,
        names=LabelIndex({node.name: (position,) for position, node in enumerate(kept)}),
        labels=labels,
        taints=_taints(kept),
        unschedulable=bits_of(position for position, node in enumerate(kept) if node.unschedulable),
        not_ready=bits_of(position for position, node in enumerate(kept) if node.deleting or not node.ready),
        resources=_resources(kept),
        devices=device_columns(kept),
        known_since=ThresholdIndex((node.known_since, position) for position, node in enumerate(kept)),
        grows=grows or not _PROVISIONED.isdisjoint(labels),
        taken_at=taken_at,
    )


def _labels(nodes: Sequence[Node]) -> Mapping[str, LabelIndex]:
    positions: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, node in enumerate(nodes):
        for key, value in node.labels.items():
            positions[key][value].append(position)
    return {key: LabelIndex(by_value) for key, by_value in positions.items()}


def _taints(nodes: Sequence[Node]) -> Mapping[tuple[str, str], LabelIndex]:
    positions: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, node in enumerate(nodes):
        for taint in node.taints:
            if taint.effect in _KEEP_OUT:
                positions[taint.key, taint.effect][taint.value].append(position)
    return {identity: LabelIndex(by_value) for identity, by_value in positions.items()}


def _resources(nodes: Sequence[Node]) -> Mapping[str, ThresholdIndex]:
    """Amounts of zero say nothing and are left out, but for "pods": a node that takes none differs from one that does
    not say (a snapshot trimmed by hand)."""
    amounts: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for position, node in enumerate(nodes):
        for resource, amount in node.allocatable.items():
            if amount > 0 or resource == "pods":
                amounts[resource].append((amount, position))
    return {resource: ThresholdIndex(offered) for resource, offered in amounts.items()}
