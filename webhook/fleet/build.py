"""Nodes to fleet: every index that a query needs, made once, and from then on changed where nodes change."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

from webhook.catalog.accelerators import Accelerators
from webhook.fleet.columns import changed_columns, device_columns
from webhook.model.fleet import Fleet, Node, Nodes
from webhook.model.index import LabelIndex, ThresholdIndex, bits_of

_KEEP_OUT = ("NoSchedule", "NoExecute")
_Key = TypeVar("_Key", bound=Hashable)
_PROVISIONED = frozenset({"karpenter.sh/nodepool", "karpenter.sh/provisioner-name"})
"""Labels of nodes that Karpenter made: where one is, more may come."""

Used: TypeAlias = Mapping[str, Mapping[str, int]]
"""What pods take of each node, by its name and by resource; the number of pods under "pods"."""


def build_fleet(
    nodes: Iterable[Node],
    *,
    taken_at: float | None = None,
    grows: str = "",
    used: Used | None = None,
    model_labels: tuple[str, ...] = (),
    catalog: Accelerators | None = None,
) -> Fleet:
    """The fleet of these nodes. Of two nodes of one name the later counts (files given together may overlap).

    `used` None: the pods are not in view, and what is free is not known. `model_labels` are labels that name the model
    before all others; `catalog` is the package's unless given.
    """
    kept = tuple({node.name: node for node in nodes}.values())
    labels = _labels(kept)
    return Fleet(
        nodes=kept,
        every=(1 << len(kept)) - 1,
        names=LabelIndex({node.name: position for position, node in enumerate(kept)}),
        labels=labels,
        taints=_taints(kept),
        unschedulable=bits_of(position for position, node in enumerate(kept) if node.unschedulable),
        not_ready=bits_of(position for position, node in enumerate(kept) if _not_ready(node)),
        resources=_thresholds(map(_offers, kept)),
        devices=device_columns(kept, model_labels=model_labels, catalog=catalog),
        known_since=ThresholdIndex((node.known_since, position) for position, node in enumerate(kept)),
        free=None if used is None else _free(kept, used),
        grows=grows or _provisioned(labels),
        taken_at=taken_at,
    )


def changed_fleet(
    fleet: Fleet,
    nodes: Mapping[str, Node | None],
    *,
    used: Used | None = None,
    busy: Iterable[str] = (),
    model_labels: tuple[str, ...] = (),
    catalog: Accelerators | None = None,
) -> Fleet:
    """The fleet with these nodes as they are now, by name (None: gone), and all others as they were.

    `busy` names the nodes whose part of `used` has changed; `model_labels` and `catalog` are those that it was built
    with. The cost is that of what changed. The result equals a fleet built anew of the same nodes, in an order of its
    own: the last node takes the place of one that has gone.
    """
    kept, moves = _moved(fleet, nodes)
    free = _changed_free(fleet, kept, moves, used, busy)
    if not moves:
        return replace(fleet, free=free)
    labels = _reindexed(fleet.labels, moves, lambda node: node.labels)
    return replace(
        fleet,
        nodes=kept,
        every=(1 << len(kept)) - 1,
        names=fleet.names.changed(
            ((one.before.name, one.at) for one in moves if one.before),
            ((one.now.name, one.at) for one in moves if one.now),
        ),
        labels=labels,
        taints=_reindexed(fleet.taints, moves, _keeping_out),
        unschedulable=_marked(fleet.unschedulable, moves, lambda node: node.unschedulable),
        not_ready=_marked(fleet.not_ready, moves, _not_ready),
        resources=_reweighed(fleet.resources, {one.at: _offers(one.now) if one.now else {} for one in moves}),
        devices=changed_columns(
            fleet.devices, {one.at: one.now for one in moves}, model_labels=model_labels, catalog=catalog
        ),
        known_since=fleet.known_since.changed({one.at: int(one.now.known_since) if one.now else None for one in moves}),
        free=free,
        grows=_provisioned(labels),
        places={},
    )


class _Move(NamedTuple):
    """What stands at a position, before and now."""

    at: int
    before: Node | None
    now: Node | None


def _moved(fleet: Fleet, changes: Mapping[str, Node | None]) -> tuple[tuple[Node, ...], list[_Move]]:
    nodes = list(fleet.nodes)
    places: dict[str, int] = {}
    touched: set[int] = set()
    for name, node in changes.items():
        at = places.get(name, fleet.names.equal(name).bit_length() - 1)
        if node is not None and at < 0:
            at = places[name] = len(nodes)
            nodes.append(node)
        elif node is not None:
            nodes[at] = node
        elif at >= 0:
            places[name] = -1
            touched.add(len(nodes) - 1)
            last = nodes.pop()
            if at < len(nodes):
                nodes[at] = last
                places[last.name] = at
        if at >= 0:
            touched.add(at)
    moves = (_Move(at, _at(fleet.nodes, at), _at(nodes, at)) for at in sorted(touched))
    return tuple(nodes), [one for one in moves if one.before is not one.now]


def _at(nodes: Sequence[Node], position: int) -> Node | None:
    return nodes[position] if position < len(nodes) else None


def _marked(marked: Nodes, moves: Iterable[_Move], is_marked: Callable[[Node], bool]) -> Nodes:
    touched = bits_of(one.at for one in moves)
    return marked & ~touched | bits_of(one.at for one in moves if one.now and is_marked(one.now))


def _not_ready(node: Node) -> bool:
    return node.deleting or not node.ready


def _provisioned(labels: Mapping[str, LabelIndex]) -> str:
    return "nodes that Karpenter made" if not _PROVISIONED.isdisjoint(labels) else ""


def _labels(nodes: Sequence[Node]) -> dict[str, LabelIndex]:
    # Of most values there is either one node or very many: a list for each of 100,000 single ones takes 10 MiB.
    positions: dict[str, dict[str, int | list[int]]] = defaultdict(dict)
    for position, node in enumerate(nodes):
        for key, value in node.labels.items():
            by_value = positions[key]
            here = by_value.get(value)
            if here is None:
                by_value[value] = position
            elif isinstance(here, int):
                by_value[value] = [here, position]
            else:
                here.append(position)
    # One by one, so that not all is there twice.
    return {key: LabelIndex(positions.pop(key)) for key in list(positions)}


def _taints(nodes: Sequence[Node]) -> dict[tuple[str, str], LabelIndex]:
    positions: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, node in enumerate(nodes):
        for identity, value in _keeping_out(node).items():
            positions[identity][value].append(position)
    return {identity: LabelIndex(by_value) for identity, by_value in positions.items()}


def _keeping_out(node: Node) -> dict[tuple[str, str], str]:
    return {(taint.key, taint.effect): taint.value for taint in node.taints if taint.effect in _KEEP_OUT}


def _reindexed(
    indexes: Mapping[_Key, LabelIndex], moves: Iterable[_Move], carried: Callable[[Node], Mapping[_Key, str]]
) -> Mapping[_Key, LabelIndex]:
    """Indexes by key over the texts that a node carries, each changed once for all moves."""
    gone: dict[_Key, list[tuple[str, int]]] = defaultdict(list)
    come: dict[_Key, list[tuple[str, int]]] = defaultdict(list)
    for at, before, now in moves:
        was = carried(before) if before else {}
        is_ = carried(now) if now else {}
        for key, value in was.items():
            if is_.get(key) != value:
                gone[key].append((value, at))
        for key, value in is_.items():
            if was.get(key) != value:
                come[key].append((value, at))
    changed = {key: indexes.get(key, _NOBODY).changed(gone.get(key, ()), come.get(key, ())) for key in {**gone, **come}}
    return {key: index for key, index in {**indexes, **changed}.items() if index.present}


def _offers(node: Node) -> dict[str, int]:
    """Amounts of zero say nothing and are left out, but for "pods": a node that takes none differs from one that does
    not say (a snapshot trimmed by hand)."""
    return {name: max(amount, 0) for name, amount in node.allocatable.items() if amount > 0 or name == "pods"}


def _thresholds(amounts: Iterable[Mapping[str, int]]) -> dict[str, ThresholdIndex]:
    """Indexes by resource over the amounts of nodes, in their order."""
    by_resource: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for position, here in enumerate(amounts):
        for resource, amount in here.items():
            by_resource[resource].append((amount, position))
    return {resource: ThresholdIndex(pairs) for resource, pairs in by_resource.items()}


def _reweighed(
    indexes: Mapping[str, ThresholdIndex], amounts: Mapping[int, Mapping[str, int]]
) -> Mapping[str, ThresholdIndex]:
    """Indexes by resource with the amounts of some nodes changed, by position; what is not named, a node has not."""
    names = {*indexes, *(name for here in amounts.values() for name in here)}
    changed = {
        name: indexes.get(name, _NONE).changed({at: here.get(name) for at, here in amounts.items()}) for name in names
    }
    return {name: index for name, index in changed.items() if index.present}


def _free(nodes: Iterable[Node], used: Used) -> dict[str, ThresholdIndex]:
    return _thresholds(_left(node, used) for node in nodes)


def _changed_free(
    fleet: Fleet, nodes: Sequence[Node], moves: Iterable[_Move], used: Used | None, busy: Iterable[str]
) -> Mapping[str, ThresholdIndex] | None:
    if used is None:
        return None
    if fleet.free is None:
        return _free(nodes, used)
    left = {one.at: _left(one.now, used) if one.now else {} for one in moves}
    for name in busy:
        # Where a node has moved, it is among the moves.
        at = fleet.names.equal(name).bit_length() - 1
        if at >= 0 and at not in left:
            left[at] = _left(nodes[at], used)
    return _reweighed(fleet.free, left)


def _left(node: Node, used: Used) -> dict[str, int]:
    """What pods have left of a node. They may take more than is allocatable, where devices have failed under them."""
    offers, taken = _offers(node), used.get(node.name)
    return {name: max(amount - taken.get(name, 0), 0) for name, amount in offers.items()} if taken else offers


_NOBODY = LabelIndex({})
_NONE = ThresholdIndex(())
