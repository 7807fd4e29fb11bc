"""A fleet out of Kubernetes objects of several kinds, from files or from a cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.catalog.accelerators import Accelerators, accelerators
from webhook.catalog.additions import AdditionError, extended, is_accelerator
from webhook.fleet.build import Used, build_fleet
from webhook.fleet.listed import read_slices
from webhook.fleet.nodes import NodeError, follow, read_node
from webhook.model.fleet import Fleet, Node
from webhook.model.frozen import frozen

KINDS = frozenset({"Node", "ResourceSlice", "Accelerator"})
"""The kinds of objects that `read_fleet` looks at."""


@frozen
class FleetRead:
    """A fleet and the catalog by which it was read, with the Accelerator objects that count in it. `faults` are objects
    that could not be read, with where they stand."""

    fleet: Fleet
    catalog: Accelerators
    accelerators: tuple[Mapping[str, Any], ...]
    faults: tuple[tuple[str, str], ...]


def read_fleet(
    objects: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    model_labels: tuple[str, ...] = (),
    used: Used | None = None,
    grows: str = "",
) -> FleetRead:
    """The fleet of the Nodes among these objects, each with the place that a fault is told by.

    ResourceSlices tell of the devices of nodes, Accelerators add to the catalog; other kinds are left alone. A node
    that comes twice counts as its last one (snapshots may overlap), which is taken for what it has become.
    """
    by_kind: dict[str, list[tuple[str, Mapping[str, Any]]]] = {kind: [] for kind in KINDS}
    for place, obj in objects:
        if obj.get("kind") in KINDS:
            by_kind[obj["kind"]].append((place, obj))
    faults: list[tuple[str, str]] = []
    catalog, added = accelerators(), []
    for place, obj in by_kind["Accelerator"]:
        if is_accelerator(obj):
            try:
                catalog = extended(catalog, [obj])
            except AdditionError as error:
                faults.append((place, str(error)))
            else:
                added.append(obj)
    slices = read_slices(obj for _, obj in by_kind["ResourceSlice"])
    nodes: dict[str, Node] = {}
    for place, obj in by_kind["Node"]:
        try:
            node = read_node(obj, slices=slices.get(_name(obj), ()))
        except NodeError as error:
            faults.append((place, str(error)))
            continue
        if node is not None:
            before = nodes.get(node.name)
            nodes[node.name] = follow(before, node, catalog) if before else node
    fleet = build_fleet(nodes.values(), model_labels=model_labels, catalog=catalog, used=used, grows=grows)
    return FleetRead(fleet, catalog, tuple(added), tuple(faults))


def _name(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, Mapping) else ""
