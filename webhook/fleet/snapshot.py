"""A fleet as trimmed v1 Nodes: a snapshot that kubectl-style tools and `--fleet FILE` read alike."""

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.fleet.remembered import ANNOTATION, remembered
from webhook.model.fleet import Fleet, Node


def to_objects(fleet: Fleet, accelerators: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The fleet's nodes as Node objects: no addresses, images, or annotations but one of our own. Read and built again
    they give an equal fleet, but for when each node was first seen and has booted, when the snapshot was taken, what is
    free, and whether something may add nodes. `accelerators` are the Accelerator objects by which it was read."""
    return [*map(_accelerator, accelerators), *map(_object, fleet.nodes)]


def _accelerator(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {"name": obj["metadata"]["name"]}}


def _object(node: Node) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": node.name, "labels": dict(node.labels)}
    if node.uid:
        metadata["uid"] = node.uid
    if kept := remembered(node):
        metadata["annotations"] = {ANNOTATION: kept}
    if node.deleting:
        # That it is being deleted counts; since when was not kept.
        metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    spec: dict[str, Any] = {}
    if node.unschedulable:
        spec["unschedulable"] = True
    if node.taints:
        spec["taints"] = [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in node.taints
        ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "allocatable": {name: _quantity(name, amount) for name, amount in node.allocatable.items()},
            "capacity": {name: _quantity(name, amount) for name, amount in node.capacity.items()},
            "conditions": [{"type": "Ready", "status": "True" if node.ready else "False"}],
        },
    }


def _quantity(resource: str, amount: int) -> str:
    if resource != "cpu":
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)
