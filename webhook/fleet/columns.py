"""One column for each accelerator resource: which nodes offer it, how much, and of which model."""

from collections.abc import Mapping, Sequence

from webhook.catalog.accelerators import Accelerators, Vendor, accelerators
from webhook.fleet.devices import Content, Kind, Reading, content_of, label_keys, offered, said
from webhook.model.fleet import DeviceColumn, Model, Node, Nodes
from webhook.model.index import ThresholdIndex, bits_of


def device_columns(
    nodes: Sequence[Node], *, model_labels: tuple[str, ...] = (), catalog: Accelerators | None = None
) -> dict[str, DeviceColumn]:
    """The columns of all accelerator resources that some node offers, by resource name; node i is bit i.

    `model_labels` name the model before all other labels; `catalog` is the one of the package unless given.
    """
    reading = Reading(catalog or accelerators(), model_labels)
    names = {name for node in nodes for amounts in (node.allocatable, node.capacity) for name in amounts}
    columns: dict[str, DeviceColumn] = {}
    for resource in sorted(names):
        vendor = reading.catalog.vendor_of(resource)
        if vendor is not None:
            column = _column(resource, vendor, nodes, reading)
            if column.there.present:
                columns[resource] = column
    return columns


def _column(resource: str, vendor: Vendor, nodes: Sequence[Node], reading: Reading) -> DeviceColumn:
    there: list[tuple[float, int]] = []
    now: list[tuple[float, int]] = []
    read: dict[tuple[object, ...], Content] = {}
    keys = label_keys(resource, vendor, reading)
    positions: dict[Content, list[int]] = {}
    for position, node in enumerate(nodes):
        there_here, now_here = offered(node, resource, vendor)
        if there_here:
            there.append((there_here, position))
            now.append((now_here, position))
            # Thousands of nodes say the same: what it means is read once for each way of saying it.
            words = said(node, resource, vendor, keys)
            content = read.get(words)
            if content is None:
                content = read[words] = content_of(node, resource, vendor, reading)
            positions.setdefault(content, []).append(position)
    return DeviceColumn(
        resource=resource,
        vendor=vendor.name,
        product_keys=(*reading.model_labels, *vendor.naming_keys),
        there=ThresholdIndex(there),
        now=ThresholdIndex(now),
        memory=ThresholdIndex(
            (content.memory_mib, position)
            for content, here in positions.items()
            if content.kind is Kind.MODEL and content.memory_mib is not None
            for position in here
        ),
        models=_models(vendor, positions, reading.catalog),
        unknown=_of(positions, Kind.UNKNOWN),
        two_models=_of(positions, Kind.TWO_MODELS),
        shares=_of(positions, Kind.SHARES),
    )


def _models(vendor: Vendor, positions: Mapping[Content, list[int]], catalog: Accelerators) -> dict[Model, Nodes]:
    """All spellings of a product are one model, called by the most usual of them; in the order of their names."""
    spellings: dict[str, dict[str, list[int]]] = {}
    for content, here in positions.items():
        if content.kind is Kind.MODEL:
            alike = spellings.setdefault(catalog.canonical(content.product), {})
            alike.setdefault(content.product, []).extend(here)
    models: dict[Model, Nodes] = {}
    for alike in spellings.values():
        usual = max(sorted(alike), key=lambda spelling: len(alike[spelling]))
        known = catalog.product(usual)
        model = Model(usual, catalog.short_name(usual), vendor.name, known.memory_mib if known else None)
        models[model] = bits_of(position for here in alike.values() for position in here)
    return dict(sorted(models.items(), key=lambda item: item[0].product))


def _of(positions: Mapping[Content, list[int]], kind: Kind) -> Nodes:
    return bits_of(position for content, here in positions.items() if content.kind is kind for position in here)
