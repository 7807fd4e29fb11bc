"""A fleet by vendor: what tells a vendor's nodes from the others, and what keeps other pods off them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from webhook.catalog.accelerators import Accelerators
from webhook.model.fleet import DeviceColumn, Fleet, Node, Taint
from webhook.model.index import positions_of
from webhook.model.placement import Operator, Requirement

# Of passing states; whoever tolerates them wants to be there then.
_PASSING = "node.kubernetes.io/"
# Where a vendor has one node alone, its name would tell it too.
_HOST = "kubernetes.io/hostname"
_KEEPING_OUT = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class OfVendor:
    """The nodes of one vendor. `column` is the resource that most of its whole devices are asked for by.

    `selector` selects these nodes and none of another vendor; None: no label does. `taints` are on each of them,
    `other_taints` on some.
    """

    vendor: str
    nodes: tuple[Node, ...]
    column: DeviceColumn
    selector: Requirement | None
    taints: tuple[Taint, ...]
    other_taints: tuple[Taint, ...]


def by_vendor(fleet: Fleet, catalog: Accelerators) -> list[OfVendor]:
    """The vendors of a fleet by name."""
    columns: dict[str, list[DeviceColumn]] = {}
    for column in fleet.devices.values():
        columns.setdefault(column.vendor, []).append(column)
    nodes = {vendor: _nodes(fleet, found) for vendor, found in sorted(columns.items())}
    return [
        OfVendor(
            vendor,
            tuple(mine),
            max(columns[vendor], key=lambda one: (_whole(one), one.there.total(_every(one)))),
            _telling(
                vendor, mine, [one for other, those in nodes.items() if other != vendor for one in those], catalog
            ),
            *_taints(mine),
        )
        for vendor, mine in nodes.items()
    ]


def _nodes(fleet: Fleet, columns: Iterable[DeviceColumn]) -> list[Node]:
    found = 0
    for column in columns:
        found |= _every(column)
    return [fleet.nodes[position] for position in positions_of(found)]


def _every(column: DeviceColumn) -> int:
    return _whole_nodes(column) | column.unknown | column.two_models | column.shares


def _whole_nodes(column: DeviceColumn) -> int:
    found = 0
    for nodes in column.models.values():
        found |= nodes
    return found


def _whole(column: DeviceColumn) -> int:
    return column.there.total(_whole_nodes(column))


def _telling(vendor: str, mine: Sequence[Node], others: Sequence[Node], catalog: Accelerators) -> Requirement | None:
    """The first label of the vendor's own, else of any, that every one of its nodes carries, and none of the others."""
    own = next((one.label_keys for one in catalog.vendors if one.name == vendor), ())
    theirs = {key for node in others for key in node.labels}
    for key in own:
        if key not in theirs and all(key in node.labels for node in mine):
            return Requirement(key, Operator.EXISTS)
    shared = set(mine[0].labels.items()).intersection(*(node.labels.items() for node in mine))
    apart = sorted(one for one in shared.difference(*(node.labels.items() for node in others)) if one[0] != _HOST)
    return Requirement(apart[0][0], Operator.IN, (apart[0][1],)) if apart else None


def _taints(nodes: Sequence[Node]) -> tuple[tuple[Taint, ...], tuple[Taint, ...]]:
    counted = Counter(taint for node in nodes for taint in _lasting(node))
    every = tuple(taint for taint, count in counted.items() if count == len(nodes))
    return every, tuple(taint for taint in counted if taint not in every)


def _lasting(node: Node) -> Iterator[Taint]:
    found = (one for one in node.taints if one.effect in _KEEPING_OUT and not one.key.startswith(_PASSING))
    yield from dict.fromkeys(found)
