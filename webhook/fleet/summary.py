"""The fleet for people: by model, and the nodes that are out of the ordinary with the reasons, for `samestep fleet`."""

from collections.abc import Iterator
from dataclasses import replace

from webhook.catalog.accelerators import Accelerators, accelerators
from webhook.fleet.devices import Content, Kind, Reading, content_of, offered, offers_shares
from webhook.fleet.room import free_devices
from webhook.model.fleet import DeviceColumn, Fleet, Node, Nodes
from webhook.model.frozen import frozen
from webhook.model.index import positions_of

_SPREAD = 0.02
"""One product's memory differs by a few percent with ECC and drivers; more is told, as SST206 tells it."""
_PASSING = "node.kubernetes.io/"


@frozen
class ModelSummary:
    """One model's nodes that offer one resource, or those of one product and kind where it is no model.

    `product` is the full name as nodes carry it, empty where nothing gives one; `model` is what messages call it.
    `memory_mib` is the least that a node of a known model reports, None otherwise; `share_mib` is that of one share,
    where it is known. `devices_there` counts whatever the nodes' passing state, `devices_now` what Ready, schedulable
    nodes allow to be asked for, `devices_free` what no pod has of that, None where the pods are not in view. `notes`
    are in plain words.
    """

    model: str
    product: str
    resource: str
    memory_mib: int | None
    nodes: int
    devices_there: int
    devices_now: int
    devices_free: int | None = None
    share_mib: int | None = None
    notes: tuple[str, ...] = ()


@frozen
class OddNode:
    """One node that decisions treat otherwise than its labels suggest, or not at all, and why, in plain words."""

    name: str
    reasons: tuple[str, ...]


def summarize(
    fleet: Fleet, *, model_labels: tuple[str, ...] = (), catalog: Accelerators | None = None
) -> tuple[ModelSummary, ...]:
    """Known models first, then nodes of no one known model, by resource. One step for each node: not for a request."""
    reading = Reading(catalog or accelerators(), model_labels)
    return tuple(row for column in fleet.devices.values() for row in _rows(fleet, column, reading))


def odd_nodes(
    fleet: Fleet, *, model_labels: tuple[str, ...] = (), catalog: Accelerators | None = None
) -> tuple[OddNode, ...]:
    """The nodes out of the ordinary, by name. One step for each node: not for a request."""
    reading = Reading(catalog or accelerators(), model_labels)
    told = (OddNode(node.name, tuple(_reasons(node, reading))) for node in fleet.nodes)
    return tuple(sorted((one for one in told if one.reasons), key=lambda one: one.name))


def _rows(fleet: Fleet, column: DeviceColumn, reading: Reading) -> Iterator[ModelSummary]:
    for model, nodes in column.models.items():
        span = column.memory.span(nodes)
        assert span is not None
        memory, most = span
        spread = (f"memory up to {most} MiB",) if most > memory * (1 + _SPREAD) else ()
        row = _row(fleet, column, nodes, spread)
        yield replace(row, model=model.name, product=model.product, memory_mib=memory)
    for nodes in (column.unknown, column.two_models, column.shares):
        for content, those in _alike(fleet, column, nodes, reading):
            note = content.because if content.kind is Kind.UNKNOWN else str(content.kind)
            name = reading.catalog.short_name(content.product) if content.product else "unknown"
            row = _row(fleet, column, those, (note,))
            yield replace(row, model=name, product=content.product, share_mib=content.memory_mib)


def _alike(fleet: Fleet, column: DeviceColumn, nodes: Nodes, reading: Reading) -> list[tuple[Content, Nodes]]:
    """By product, memory and, of unknown ones, the reason."""
    alike: dict[Content, Nodes] = {}
    for position in positions_of(nodes):
        content = _content(fleet.nodes[position], column.resource, reading)
        if content.kind is not Kind.UNKNOWN:
            content = replace(content, because="")
        alike[content] = alike.get(content, 0) | 1 << position
    return sorted(alike.items(), key=lambda item: (item[0].product, item[0].memory_mib or 0, item[0].because))


def _row(fleet: Fleet, column: DeviceColumn, nodes: Nodes, notes: tuple[str, ...]) -> ModelSummary:
    passing = (("not ready", fleet.not_ready), ("cordoned", fleet.unschedulable))
    usable = nodes & ~fleet.not_ready & ~fleet.unschedulable
    return ModelSummary(
        model="",
        product="",
        resource=column.resource,
        memory_mib=None,
        nodes=nodes.bit_count(),
        devices_there=column.there.total(nodes),
        devices_now=column.now.total(usable),
        devices_free=free_devices(fleet, column.resource, usable),
        notes=(*notes, *(f"{words} {(nodes & those).bit_count()}" for words, those in passing if nodes & those)),
    )


def _reasons(node: Node, reading: Reading) -> Iterator[str]:
    if node.deleting:
        yield "being deleted"
    if not node.ready:
        yield "not ready"
    if node.unschedulable:
        yield "cordoned"
    for taint in node.taints:
        # Whole GPU pools carry a taint of the vendor's, and every pod that asks for a device tolerates it.
        if taint.effect != "PreferNoSchedule" and not taint.key.startswith(_PASSING) and not _is_usual(taint.key):
            yield f"tainted {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
    yield from _of_devices(node, reading)


def _of_devices(node: Node, reading: Reading) -> Iterator[str]:
    offers = False
    for resource in sorted({*node.allocatable, *node.capacity}):
        vendor = reading.catalog.vendor_of(resource)
        if vendor is None:
            continue
        there, now = offered(node, resource, vendor)
        capacity = node.capacity.get(resource, 0)
        if there:
            offers = True
            content = _content(node, resource, reading)
            if content.kind is not Kind.MODEL:
                yield f"{content.kind}: {content.because}"
            if not now:
                yield f"loading: 0 of {there} {resource} allocatable"
            elif now < capacity:
                yield f"{capacity - now} of {capacity} {resource} not allocatable"
        elif capacity and offers_shares(node, vendor):
            yield f"cut into slices: none of {capacity} {resource} is whole"
    if not offers:
        yield "offers no device: driver or device plugin not running"


def _content(node: Node, resource: str, reading: Reading) -> Content:
    vendor = reading.catalog.vendor_of(resource)
    assert vendor is not None
    return content_of(node, resource, vendor, reading)


def _is_usual(key: str) -> bool:
    return accelerators().vendor_of(key) is not None
