"""Memory of one device or one share, in the order of trust: the node's label, what lists the devices, the catalog."""

import re
from collections.abc import Mapping

from webhook.catalog.accelerators import Accelerators, MemoryKey, Product, Vendor
from webhook.model.fleet import Node
from webhook.model.index import int64

_MEMORY = re.compile(r"(\d{1,20}(?:\.\d{1,3})?)(?:([KMGT])i?)?(B?)\Z", re.ASCII)
_KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}
_UNIT_MIB = {"B": 1 / (1 << 20), "MiB": 1.0, "GiB": 1024.0}
_PLAUSIBLE_MIB = range(512, 16 << 20)


def device_mib(node: Node, vendor: Vendor, product: str, catalog: Accelerators) -> int | None:
    """MiB of a whole device of this product; None where nothing tells. Never a number inside a name."""
    labelled = labelled_mib(node.labels, vendor)
    return listed_mib(node, vendor, product, catalog) if labelled is None else labelled


def listed_mib(node: Node, vendor: Vendor, product: str, catalog: Accelerators) -> int | None:
    """The same where the node's label is another product's."""
    name = catalog.canonical(product)
    alike = (one for one in node.listed if one.vendor == vendor.name and catalog.canonical(one.product) == name)
    least = min((one.memory_mib for one in alike if one.memory_mib), default=None)
    known = catalog.product(product)
    return least or (known.memory_mib if known else None)


def share_mib(node: Node, resource: str, vendor: Vendor, known: Product | None) -> int | None:
    """MiB of a share; None where nothing tells.

    A slice has a label of its own (MIG, strategy "mixed") or the node's (strategy "single", vGPU). Those who share a
    device get equal parts of it, as MPS enforces and time slicing does not.
    """
    labels = node.labels
    own = memory_mib(labels.get(f"{resource}.memory", ""), "MiB") if vendor.is_share(resource) else None
    if own is not None:
        return own
    listed = next((one for one in node.listed if one.vendor == vendor.name and one.shares > 1), None)
    if listed is not None:
        return listed.memory_mib // listed.shares if listed.memory_mib else None
    labelled, replicas = labelled_mib(labels, vendor), number(labels, vendor.replicas_key)
    if not vendor.is_share(resource) and is_sliced(labels, vendor):
        return labelled // max(replicas, 1) if labelled else None
    whole = labelled or (known.memory_mib if known else None)
    return whole // replicas if whole and replicas > 1 else None


def is_sliced(labels: Mapping[str, str], vendor: Vendor) -> bool:
    """Whether labels say that devices are cut into slices with memory of their own."""
    named = (labels.get(key, "") for key in vendor.product_keys)
    return bool(vendor.slicing_label(labels)) or any(map(vendor.names_slice, named))


def labelled_mib(labels: Mapping[str, str], vendor: Vendor) -> int | None:
    """The memory of one device as the vendor's labels give it."""
    return next((mib for one in vendor.memory_keys if (mib := _labelled(labels, one, vendor)) is not None), None)


def memory_mib(text: str, unit: str) -> int | None:
    """A memory label in MiB; None where it cannot be one device's memory.

    A bare number is in `unit`, or in bytes where that alone makes sense (gpu-feature-discovery#26). A suffix is binary
    with or without the "i": devices come in powers of two, and AMD's labeller writes rounded GiB as "192G".
    """
    found = _MEMORY.match(text)
    if found is None:
        return None
    digits, suffix, octets = found.groups()
    amount = float(digits)
    if suffix:
        readings = [amount * _KIB[suffix] / 1024]
    elif octets:
        readings = [amount / (1 << 20)]
    else:
        readings = [amount * _UNIT_MIB[unit], amount / (1 << 20)]
    return next((int(mib) for mib in readings if int(mib) in _PLAUSIBLE_MIB), None)


def number(labels: Mapping[str, str], key: str | None) -> int:
    """A label that is a number; 0 where it is none."""
    return int64(labels.get(key, "")) or 0 if key else 0


def cards(labels: Mapping[str, str], vendor: Vendor) -> int | None:
    """How many physical cards the machine has, as a cloud or a vendor's plugin says; None where neither does."""
    return next((count for key in vendor.card_keys if (count := int64(labels.get(key, ""))) is not None), None)


def _labelled(labels: Mapping[str, str], one: MemoryKey, vendor: Vendor) -> int | None:
    text = labels.get(one.key, "")
    if one.per == "device":
        return memory_mib(text, one.unit)
    count, together = cards(labels, vendor), int64(text)
    return memory_mib(str(together // count), one.unit) if count and together is not None else None
