"""A raw v1 Node, projected to what decisions need."""

from collections.abc import Mapping
from sys import intern
from typing import Any

from webhook.catalog.accelerators import accelerators
from webhook.model.fleet import Node, Taint
from webhook.model.quantity import QuantityError, milli, units
from webhook.model.request import Object

_NOTHING: Mapping[Any, Any] = {}


class NodeError(ValueError):
    """Not a node; the message begins with the place of the fault."""


def read_node(obj: Object, known_since: float = 0.0) -> Node | None:
    """The node, or None where it has nothing to do with accelerators: it names no such resource and no product.

    What is missing, null or of a wrong type counts as not said: an amount that is no quantity is no amount, and a node
    without a Ready condition counts as ready (the scheduler goes by taints, and trimmed snapshots have no conditions).
    Raises NodeError where a node with accelerators has no usable name.
    """
    metadata, spec, status = (_map(_map(obj).get(part)) for part in ("metadata", "spec", "status"))
    labels, allocatable, capacity = map(
        _map, (metadata.get("labels"), status.get("allocatable"), status.get("capacity"))
    )
    devices = {name for name in {*allocatable, *capacity} if isinstance(name, str) and accelerators().is_device(name)}
    if not devices and accelerators().product_keys.isdisjoint(labels):
        return None
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise NodeError(f"metadata.name: expected a name, got {name!r:.40}")
    return Node(
        name=intern(name),
        uid=_text(metadata.get("uid")) or "",
        labels=_labels(labels),
        taints=_taints(spec.get("taints")),
        unschedulable=spec.get("unschedulable") is True,
        ready=_ready(status.get("conditions")),
        deleting=bool(metadata.get("deletionTimestamp")),
        allocatable=_amounts(allocatable),
        capacity=_amounts({name: amount for name, amount in capacity.items() if name in devices}),
        known_since=known_since,
    )


def _labels(raw: Mapping[Any, Any]) -> dict[str, str]:
    """Strings are interned: a fleet's labels are few distinct ones, repeated on thousands of nodes."""
    try:
        return {intern(key): intern(value) for key, value in raw.items()}
    except TypeError:  # written by hand: not all of it is text
        texts = ((key, _text(value)) for key, value in raw.items() if isinstance(key, str))
        return {intern(key): text for key, text in texts if text is not None}


def _taints(raw: object) -> tuple[Taint, ...]:
    """Key and effect are a taint's identity: of several with the same, which no API server takes, the first counts."""
    taints: dict[tuple[str, str], Taint] = {}
    for one in map(_map, raw if isinstance(raw, list) else ()):
        key, value, effect = (_text(one.get(part)) or "" for part in ("key", "value", "effect"))
        if key:
            taints.setdefault((key, effect), Taint(key, value, effect))
    return tuple(taints.values())


def _ready(raw: object) -> bool:
    for condition in map(_map, raw if isinstance(raw, list) else ()):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return True


def _amounts(raw: Mapping[Any, Any]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for resource, amount in raw.items():
        if isinstance(resource, str):
            try:
                amounts[intern(resource)] = milli(amount) if resource == "cpu" else units(amount)
            except QuantityError:
                continue
    return amounts


def _text(value: object) -> str | None:
    """Text as the API server keeps it; YAML written by hand has bare numbers and booleans where text is meant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return intern(value)
    return str(value) if isinstance(value, int) else None


def _map(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
