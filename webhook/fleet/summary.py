"""The fleet by model, for `samestep fleet`."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.catalog.accelerators import Vendor, accelerators
from webhook.fleet.devices import product_of
from webhook.model.fleet import DeviceColumn, Fleet, Nodes
from webhook.model.index import positions_of


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """One model's nodes that offer one resource, or those of one product label where the model cannot be told.

    `product` is the full name as nodes carry it, empty where no label gives one; `model` is what messages call it.
    `memory_mib` is the least that a node of a known model reports, None otherwise. `devices_there` counts whatever the
    nodes' passing state, `devices_now` what Ready, schedulable nodes allow to be asked for. `notes` are in plain words.
    """

    model: str
    product: str
    resource: str
    memory_mib: int | None
    nodes: int
    devices_there: int
    devices_now: int
    notes: tuple[str, ...]


def summarize(fleet: Fleet) -> tuple[ModelSummary, ...]:
    """Known models first, then nodes of no one known model, by resource. One step for each node: not for a request."""
    return tuple(row for column in fleet.devices.values() for row in _rows(fleet, column))


def _rows(fleet: Fleet, column: DeviceColumn) -> Iterator[ModelSummary]:
    for model, nodes in column.models.items():
        yield _row(fleet, column, model.product, nodes, ())
    vendor = accelerators().vendor_of(column.resource)
    assert vendor is not None
    for product, nodes in _by_product(fleet, vendor, column.unknown):
        note = "model unknown" if vendor.names_nothing(product) else "memory unknown"
        yield _row(fleet, column, product, nodes, (note,))
    for product, nodes in _by_product(fleet, vendor, column.two_models):
        yield _row(fleet, column, product, nodes, (f"two models in one node {nodes.bit_count()}",))
    for product, nodes in _by_product(fleet, vendor, column.shares):
        yield _row(fleet, column, product, nodes, ("shares",))


def _row(fleet: Fleet, column: DeviceColumn, product: str, nodes: Nodes, notes: tuple[str, ...]) -> ModelSummary:
    passing = (("not ready", fleet.not_ready), ("unschedulable", fleet.unschedulable))
    memory = column.memory.least(nodes)
    return ModelSummary(
        model=accelerators().short_name(product) if product else "unknown",
        product=product,
        resource=column.resource,
        memory_mib=None if memory is None else int(memory),
        nodes=nodes.bit_count(),
        devices_there=int(column.there.total(nodes)),
        devices_now=int(column.now.total(nodes & ~fleet.not_ready & ~fleet.unschedulable)),
        notes=(*notes, *(f"{words} {(nodes & those).bit_count()}" for words, those in passing if nodes & those)),
    )


def _by_product(fleet: Fleet, vendor: Vendor, nodes: Nodes) -> list[tuple[str, Nodes]]:
    by_product: dict[str, Nodes] = {}
    for position in positions_of(nodes):
        product = product_of(fleet.nodes[position].labels, vendor)
        by_product[product] = by_product.get(product, 0) | 1 << position
    return sorted(by_product.items())
