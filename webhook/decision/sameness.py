"""Whether the nodes inside a candidate are alike beyond their accelerators: hosts and fabrics, as policy compares them.

A mixed pool of GPUs is usually a mixed pool of servers too, and what feeds a card may slow it as a slower card would.
"""

from collections.abc import Iterator

from webhook.model.fleet import Fleet, Nodes
from webhook.model.policy import Differing, Sameness

_MOST_VALUES = 3
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def differences(fleet: Fleet, nodes: Nodes, compared: Sameness) -> str:
    """In what these nodes differ: labels with their values, amounts of resources with the least and the most. Empty
    where they are alike, or policy does not look. A node without the label, or the resource, is not compared."""
    if compared.differing is Differing.IGNORE:
        return ""
    return "; ".join((*_labels(fleet, nodes, compared.labels), *_resources(fleet, nodes, compared.resources)))


def values_of(fleet: Fleet, nodes: Nodes, key: str, most: int) -> tuple[str, ...]:
    """The values of this label on these nodes, sorted, or `most` of them: one step for each value, and none for nodes
    that share it."""
    index = fleet.labels.get(key)
    left = nodes & index.present if index is not None else 0
    values: list[str] = []
    while left and index is not None and len(values) < most:
        first = (left & -left).bit_length() - 1
        values.append(fleet.nodes[first].labels[key])
        left &= ~index.equal(values[-1])
    return tuple(sorted(values))


def _labels(fleet: Fleet, nodes: Nodes, keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        values = values_of(fleet, nodes, key, _MOST_VALUES + 1)
        if len(values) > _MOST_VALUES:
            # Which of them were met first depends on the order of nodes.
            yield f"{key} (> {_MOST_VALUES})"
        elif len(values) > 1:
            yield f"{key} {', '.join(values)}"


def _resources(fleet: Fleet, nodes: Nodes, resources: tuple[tuple[str, float], ...]) -> Iterator[str]:
    for name, percent in resources:
        index = fleet.resources.get(name)
        span = index.span(nodes) if index is not None else None
        if span is not None and span[1] > span[0] * (1 + percent / 100):
            yield f"{name} {_amounts(name, *span)}"


def _amounts(name: str, least: int, most: int) -> str:
    if name == "cpu":
        return f"{least / 1000:g}–{most / 1000:g}"
    if name.startswith(_BYTES):
        return f"{least / (1 << 30):.0f}–{most / (1 << 30):.0f} GiB"
    return f"{least}–{most}"
