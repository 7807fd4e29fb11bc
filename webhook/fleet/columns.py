"""One column for each accelerator resource: which nodes offer it, how much, and of which model."""

from collections.abc import Mapping, Sequence

from webhook.catalog.accelerators import Vendor, accelerators
from webhook.fleet.devices import Content, Kind, content_of, offered
from webhook.model.fleet import DeviceColumn, Model, Node, Nodes
from webhook.model.index import ThresholdIndex, bits_of


def device_columns(nodes: Sequence[Node]) -> dict[str, DeviceColumn]:
    """The columns of all accelerator resources that some node offers, by resource name; node i is bit i."""
    names = {name for node in nodes for amounts in (node.allocatable, node.capacity) for name in amounts}
    columns: dict[str, DeviceColumn] = {}
    for resource in sorted(names):
        vendor = accelerators().vendor_of(resource)
        if vendor is not None:
            column = _column(resource, vendor, nodes)
            if column.there.present:
                columns[resource] = column
    return columns


def _column(resource: str, vendor: Vendor, nodes: Sequence[Node]) -> DeviceColumn:
    there: list[tuple[float, int]] = []
    now: list[tuple[float, int]] = []
    read: dict[tuple[int | str | None, ...], Content] = {}
    keys = vendor.label_keys
    positions: dict[Content, list[int]] = {}
    for position, node in enumerate(nodes):
        there_here, now_here = offered(node, resource, vendor)
        if there_here:
            there.append((there_here, position))
            now.append((now_here, position))
            # Thousands of nodes say the same: what the labels mean is read once for each way of saying it.
            said = (capacity := node.capacity.get(resource, 0), *map(node.labels.get, keys))
            content = read.get(said)
            if content is None:
                content = read[said] = content_of(node.labels, capacity, resource, vendor)
            positions.setdefault(content, []).append(position)
    return DeviceColumn(
        resource=resource,
        vendor=vendor.name,
        product_keys=vendor.product_keys,
        there=ThresholdIndex(there),
        now=ThresholdIndex(now),
        memory=ThresholdIndex(
            (content.memory_mib, position)
            for content, here in positions.items()
            if content.memory_mib is not None
            for position in here
        ),
        models=_models(vendor, positions),
        unknown=_of(positions, Kind.UNKNOWN),
        two_models=_of(positions, Kind.TWO_MODELS),
        shares=_of(positions, Kind.SHARES),
    )


def _models(vendor: Vendor, positions: Mapping[Content, list[int]]) -> dict[Model, Nodes]:
    """All spellings of a product are one model, called by the most usual of them; in the order of their names."""
    catalog = accelerators()
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
