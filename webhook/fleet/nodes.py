"""A raw v1 Node, projected to what decisions need, and what of it is remembered from one look to the next."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any

from webhook.catalog.accelerators import INSTANCE_TYPE_KEYS, Accelerators, Vendor, accelerators
from webhook.fleet.listed import read_registers
from webhook.fleet.memory import labelled_mib, number
from webhook.fleet.remembered import ANNOTATION, Remembered, read_remembered
from webhook.fleet.shared_keys import SharedKeys
from webhook.fleet.signs import is_display, own_product
from webhook.model.fleet import Listed, Node, Taint
from webhook.model.quantity import QuantityError, milli, units
from webhook.model.request import Object

_NOTHING: Mapping[Any, Any] = {}
_NEW = Remembered()


class NodeError(ValueError):
    """Not a node; the message begins with the place of the fault."""


def read_node(obj: Object, known_since: float = 0.0, slices: tuple[Listed, ...] = ()) -> Node | None:
    """The node, or None where it has nothing to do with accelerators: it names no such resource and no product, and is
    no machine that is known to have some. `slices` are the devices that ResourceSlices list for it (`read_slices`).

    What is missing, null or of a wrong type counts as not said: an amount that is no quantity is no amount, and a node
    without a Ready condition counts as ready (the scheduler goes by taints, and trimmed snapshots have no conditions).
    Raises NodeError where a node with accelerators has no usable name.
    """
    metadata, spec, status = (_map(_map(obj).get(part)) for part in ("metadata", "spec", "status"))
    labels, allocatable, capacity = map(
        _map, (metadata.get("labels"), status.get("allocatable"), status.get("capacity"))
    )
    devices = {name for name in {*allocatable, *capacity} if isinstance(name, str) and accelerators().is_device(name)}
    if not (devices or slices or _names_product(labels)):
        return None
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise NodeError(f"metadata.name: expected a name, got {name!r:.40}")
    annotations = _map(metadata.get("annotations"))
    kept = read_remembered(annotations[ANNOTATION]) if ANNOTATION in annotations else _NEW
    node = Node(
        name=intern(name),
        uid=_text(metadata.get("uid")) or "",
        labels=SharedKeys(_labels(labels)),
        taints=_taints(spec.get("taints")),
        unschedulable=spec.get("unschedulable") is True,
        ready=_ready(status.get("conditions")),
        deleting=bool(metadata.get("deletionTimestamp")),
        allocatable=SharedKeys(_amounts(allocatable)),
        capacity=SharedKeys(_amounts({name: amount for name, amount in capacity.items() if name in devices})),
        known_since=known_since,
        boot_id=_text(_map(status.get("nodeInfo")).get("bootID")) or "",
        listed=kept.listed or read_registers(annotations),
        last_product=kept.last_product,
        last_memory_mib=kept.last_memory_mib,
        second_product=kept.second_product,
    )
    return _with_slices(node, slices) if slices else node


def _with_slices(node: Node, slices: tuple[Listed, ...]) -> Node:
    """The node with the devices that ResourceSlices list for it. Pods ask for them through claims; here they are an
    amount under the name of the driver, beside those that have a resource name."""
    drivers = {vendor.name: driver for driver, vendor in accelerators().drivers.items()}
    offered: dict[str, int] = {}
    for one in slices:
        offered[drivers[one.vendor]] = offered.get(drivers[one.vendor], 0) + one.count
    kept, whole = (
        {name: amount for name, amount in amounts.items() if name not in accelerators().drivers}
        for amounts in (node.allocatable, node.capacity)
    )
    return replace(node, listed=slices, allocatable=kept | offered, capacity=whole | offered)


def follow(before: Node, now: Node, catalog: Accelerators | None = None) -> Node:
    """`now` with what only the past can tell, `before` being the same node as it was known until now.

    Where feature discovery meets two models in one node, its labels name now the one, now the other
    (gpu-feature-discovery#27): another product without a new bootID is a sign of it, kept until the node boots. Where
    the other is a display card (k8s-device-plugin#731), or the labels no longer count what is allocatable, the product
    last seen to do so is kept. A node of another uid is another node. `catalog` is the package's unless given.
    """
    if before.uid != now.uid:
        return now
    if (before.labels, before.boot_id, before.allocatable) == (now.labels, now.boot_id, now.allocatable):
        # Nearly all changes of a node: of its taints, or whether it is ready.
        return _with(now, before.second_product, before.last_product, before.last_memory_mib)
    last, second = (before.last_product, before.last_memory_mib), ""
    # Of a node with cards of two vendors only the first one's are remembered.
    vendor = next((one for one in accelerators().vendors if own_product(now, one) or own_product(before, one)), None)
    if vendor is not None:
        second = _second(before, now, vendor, catalog or accelerators())
        if _counts(now, vendor):
            last = ("", None)
        elif _counts(before, vendor):
            last = (own_product(before, vendor), labelled_mib(before.labels, vendor))
    if not second and now.boot_id == before.boot_id:
        second = before.second_product
    return _with(now, second, *last)


def _with(now: Node, second: str, last: str, memory_mib: int | None) -> Node:
    if (now.second_product, now.last_product, now.last_memory_mib) == (second, last, memory_mib):
        return now
    return replace(now, second_product=second, last_product=last, last_memory_mib=memory_mib)


def _second(before: Node, now: Node, vendor: Vendor, catalog: Accelerators) -> str:
    was, is_ = own_product(before, vendor), own_product(now, vendor)
    if not now.boot_id or now.boot_id != before.boot_id or catalog.canonical(was) == catalog.canonical(is_):
        return ""
    # Half set, or gone while the driver is exchanged: no other product.
    if any(vendor.names_nothing(one) or is_display(one, catalog) for one in (was, is_)):
        return ""
    return was


def _counts(node: Node, vendor: Vendor) -> bool:
    """Whether the product label names what is allocatable: a card that counts, and as many of it."""
    product = own_product(node, vendor)
    if vendor.names_nothing(product) or is_display(product, accelerators()):
        return False
    count, replicas = number(node.labels, vendor.count_key), number(node.labels, vendor.replicas_key)
    allocatable = sum(amount for name, amount in node.allocatable.items() if name in vendor.resources)
    return count in (0, allocatable) or count * replicas == allocatable


def _names_product(labels: Mapping[Any, Any]) -> bool:
    if not accelerators().product_keys.isdisjoint(labels):
        return True
    return any(_is_known_machine(str(labels[key])) for key in INSTANCE_TYPE_KEYS if key in labels)


@lru_cache(maxsize=4096)  # a cluster has few types, and asks for every one of its nodes
def _is_known_machine(machine: str) -> bool:
    named = {INSTANCE_TYPE_KEYS[0]: machine}
    return any(vendor.product_of_machine(named) for vendor in accelerators().vendors)


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
    return value if isinstance(value, dict) else _NOTHING
