"""One column for each accelerator resource: which nodes offer it, how much, and of which model."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

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


def changed_columns(
    columns: Mapping[str, DeviceColumn],
    nodes: Mapping[int, Node | None],
    *,
    model_labels: tuple[str, ...] = (),
    catalog: Accelerators | None = None,
) -> dict[str, DeviceColumn]:
    """The columns with these nodes at their positions, None where there is none any more, and all others as they were.

    `model_labels` and `catalog` are those that the columns were made with.
    """
    reading = Reading(catalog or accelerators(), model_labels)
    offering = (node for node in nodes.values() if node is not None)
    names = {name for node in offering for amounts in (node.allocatable, node.capacity) for name in amounts}
    changed: dict[str, DeviceColumn] = {}
    for resource in sorted({*columns, *names}):
        vendor = reading.catalog.vendor_of(resource)
        if vendor is not None:
            column = _changed(columns.get(resource), resource, vendor, nodes, reading)
            if column is not None:
                changed[resource] = column
    return changed


def _column(resource: str, vendor: Vendor, nodes: Sequence[Node], reading: Reading) -> DeviceColumn:
    there: list[tuple[float, int]] = []
    now: list[tuple[float, int]] = []
    read: dict[tuple[object, ...], Content] = {}
    positions: dict[Content, list[int]] = {}
    keys = label_keys(resource, vendor, reading)
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
    memory = ThresholdIndex(
        (mib, position)
        for content, here in positions.items()
        if (mib := _model_mib(content)) is not None
        for position in here
    )
    contents = {content: bits_of(here) for content, here in positions.items()}
    return _made(resource, vendor, reading, ThresholdIndex(there), ThresholdIndex(now), memory, contents)


def _changed(
    column: DeviceColumn | None, resource: str, vendor: Vendor, nodes: Mapping[int, Node | None], reading: Reading
) -> DeviceColumn | None:
    there: dict[int, int | None] = {}
    now: dict[int, int | None] = {}
    memory: dict[int, int | None] = {}
    come: dict[Content, int] = {}
    for position, node in nodes.items():
        there_here, now_here = offered(node, resource, vendor) if node is not None else (0, 0)
        content = content_of(node, resource, vendor, reading) if node is not None and there_here else None
        there[position], now[position] = (there_here, now_here) if there_here else (None, None)
        memory[position] = _model_mib(content) if content is not None else None
        if content is not None:
            come[content] = come.get(content, 0) | 1 << position
    touched = bits_of(nodes)
    if column is None:
        column = _made(resource, vendor, reading, _NONE, _NONE, _NONE, {})
    elif not come and not column.there.present & touched:
        return column
    contents: dict[Content, Nodes] = {content: bits & ~touched for content, bits in column.contents.items()}
    for content, bits in come.items():
        contents[content] = contents.get(content, 0) | bits
    kept = {content: bits for content, bits in contents.items() if bits}
    if not kept:
        return None
    amounts = column.there.changed(there), column.now.changed(now), column.memory.changed(memory)
    return _made(resource, vendor, reading, *amounts, kept)


def _made(
    resource: str,
    vendor: Vendor,
    reading: Reading,
    there: ThresholdIndex,
    now: ThresholdIndex,
    memory: ThresholdIndex,
    contents: dict[Content, Nodes],
) -> DeviceColumn:
    models = _models(vendor, contents, reading.catalog)
    return DeviceColumn(
        resource=resource,
        vendor=vendor.name,
        product_keys=(*reading.model_labels, *vendor.naming_keys),
        there=there,
        now=now,
        memory=memory,
        models=models,
        spans={model: span for model, here in models.items() if (span := memory.span(here)) is not None},
        unknown=_of(contents, Kind.UNKNOWN),
        two_models=_of(contents, Kind.TWO_MODELS),
        shares=_of(contents, Kind.SHARES),
        contents=contents,
    )


def _models(vendor: Vendor, contents: Mapping[Content, Nodes], catalog: Accelerators) -> dict[Model, Nodes]:
    """All spellings of a product are one model, called by the most usual of them; in the order of their names."""
    spellings: dict[str, dict[str, Nodes]] = {}
    for content, here in contents.items():
        if content.kind is Kind.MODEL:
            alike = spellings.setdefault(catalog.canonical(content.product), {})
            alike[content.product] = alike.get(content.product, 0) | here
    models: dict[Model, Nodes] = {}
    for alike in spellings.values():
        usual = max(sorted(alike), key=lambda spelling: alike[spelling].bit_count())
        known = catalog.product(usual)
        figures = (known.memory_mib, known.bf16_tflops, known.bandwidth_gbps) if known else ()
        model = Model(usual, catalog.short_name(usual), vendor.name, *figures)
        models[model] = reduce(or_, alike.values())
    return dict(sorted(models.items(), key=lambda item: item[0].product))


def _of(contents: Mapping[Content, Nodes], kind: Kind) -> Nodes:
    return reduce(or_, (here for content, here in contents.items() if content.kind is kind), 0)


def _model_mib(content: Content) -> int | None:
    return content.memory_mib if content.kind is Kind.MODEL else None


_NONE = ThresholdIndex(())
