"""Devices that something lists one by one: DRA's ResourceSlices, and the annotations of fractional plugins."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from webhook.catalog.accelerators import Slices, accelerators
from webhook.model.fleet import Listed
from webhook.model.frozen import frozen
from webhook.model.quantity import MEBI, QuantityError, units

_NOTHING: Mapping[str, Any] = {}
_MOST = 1 << 20


def read_slices(objects: Iterable[object]) -> dict[str, tuple[Listed, ...]]:
    """The whole devices of known vendors in these ResourceSlices, by the name of their node.

    Of a pool the slices of its highest generation count, as for the scheduler (resource.k8s.io/v1, ResourcePool).
    Devices that no single node holds are left out, and so is what cannot be read.
    """
    newest: dict[tuple[str, str], tuple[int, list[Mapping[str, Any]]]] = {}
    for spec in (_map(_map(one).get("spec")) for one in objects):
        pool = _map(spec.get("pool"))
        identity = (str(spec.get("driver")), str(pool.get("name")))
        generation = _whole(pool.get("generation"))
        known, slices = newest.get(identity, (generation, []))
        if generation >= known:
            newest[identity] = (generation, [*slices, spec] if generation == known else [spec])
    found: dict[str, list[Listed]] = defaultdict(list)
    for (driver, _), (_, slices) in newest.items():
        vendor = accelerators().drivers.get(driver)
        if vendor is not None and vendor.slices is not None:
            for spec in slices:
                node = spec.get("nodeName")
                if isinstance(node, str) and node:
                    found[node] += _devices(spec.get("devices"), vendor.name, vendor.slices)
    return {node: together(devices) for node, devices in found.items()}


@frozen
class Slice:
    """One ResourceSlice: some devices of one node, and the pool and generation that they are published with."""

    name: str
    node: str
    pool: tuple[str, str]
    generation: int
    devices: tuple[Listed, ...]


def read_slice(obj: object) -> Slice | None:
    """The slice; None where it holds no whole devices of a known vendor on one node."""
    spec, metadata = _map(_map(obj).get("spec")), _map(_map(obj).get("metadata"))
    pool = _map(spec.get("pool"))
    for node, devices in read_slices([obj]).items():
        identity = (str(spec.get("driver")), str(pool.get("name")))
        return Slice(str(metadata.get("name")), node, identity, _whole(pool.get("generation")), devices)
    return None


def devices_of(slices: Iterable[Slice]) -> tuple[Listed, ...]:
    """All devices of one node; of a pool those of its highest generation."""
    newest: dict[tuple[str, str], tuple[int, tuple[Listed, ...]]] = {}
    for one in slices:
        known, devices = newest.get(one.pool, (one.generation, ()))
        if one.generation >= known:
            newest[one.pool] = one.generation, one.devices + (devices if one.generation == known else ())
    return together(device for _, devices in newest.values() for device in devices)


def read_registers(annotations: Mapping[str, Any]) -> tuple[Listed, ...]:
    """The devices that fractional plugins list in a node's annotations."""
    found: list[Listed] = []
    for key, vendor in accelerators().registers.items():
        text = annotations.get(key)
        if isinstance(text, str) and text:
            found += _register(text, vendor.name)
    return together(found) if found else ()


def together(devices: Iterable[Listed]) -> tuple[Listed, ...]:
    """Alike devices counted together, in the order of their products; the least of their memory counts."""
    alike: dict[tuple[str, str, int], Listed] = {}
    for one in devices:
        before = alike.get((one.vendor, one.product, one.shares))
        if before is not None:
            memory = min(filter(None, (before.memory_mib, one.memory_mib)), default=None)
            one = Listed(one.vendor, one.product, memory, before.count + one.count, one.shares)
        alike[one.vendor, one.product, one.shares] = one
    return tuple(alike[identity] for identity in sorted(alike))


def _devices(raw: object, vendor: str, named: Slices) -> Iterator[Listed]:
    for device in map(_map, raw if isinstance(raw, list) else ()):
        device = _map(device.get("basic")) or device  # as up to v1beta1
        attributes = _unqualified(device.get("attributes"), named.driver)
        product = _map(attributes.get(named.product)).get("string")
        whole = all(_map(attributes.get(key)).get("string") == value for key, value in named.whole.items())
        if isinstance(product, str) and product and whole:
            capacity = _unqualified(device.get("capacity"), named.driver).get(named.memory or "")
            yield Listed(vendor, product, _mebibytes(_map(capacity).get("value")), 1)


def _unqualified(raw: object, driver: str) -> dict[str, Any]:
    """By plain name: a name without a domain is the driver's own."""
    return {str(name).removeprefix(f"{driver}/"): value for name, value in _map(raw).items()}


@lru_cache(maxsize=1024)  # every status of a node repeats it
def _register(text: str, vendor: str) -> tuple[Listed, ...]:
    """HAMi writes a JSON list, and wrote "id,split,memory,cores,type,numa,health:" for each device (HAMi#314); Volcano
    leaves out the cores."""
    devices: list[tuple[object, object, object]]
    try:
        devices = [(one.get("type"), one.get("count"), one.get("devmem")) for one in map(_map, orjson.loads(text))]
    except (ValueError, TypeError):
        devices = [_written(one.split(",")) for one in text.split(":")]
    return tuple(
        Listed(vendor, " ".join(product.split()), _whole(memory) or None, 1, _whole(split) or 1)
        for product, split, memory in devices
        if isinstance(product, str) and product
    )


def _written(parts: Sequence[str]) -> tuple[object, object, object]:
    if len(parts) < 4:
        return None, None, None
    name = next((one for one in parts[3:] if not one.isdigit() and one not in ("true", "false")), None)
    return name, parts[1], parts[2]


def _mebibytes(quantity: object) -> int | None:
    try:
        return units(quantity) // MEBI or None
    except QuantityError:
        return None


def _whole(value: object) -> int:
    """A number from 0 to a million, 0 where it is none."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 8 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else 0


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
