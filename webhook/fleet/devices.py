"""What one node offers of one accelerator resource, read from its amounts and from labels that often mislead."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.catalog.accelerators import Vendor, accelerators
from webhook.model.fleet import Node
from webhook.model.index import int64

_MEMORY = re.compile(r"(\d{1,20}(?:\.\d{1,3})?)(?:([KMGT])i?)?(B?)\Z", re.ASCII)
_KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}
_PLAUSIBLE_MIB = range(512, 16 << 20)


class Kind(StrEnum):
    """What the devices of a node are: of one known model, or why they are not."""

    MODEL = "model"
    UNKNOWN = "unknown"
    TWO_MODELS = "two models"
    SHARES = "shares"


@dataclass(frozen=True, slots=True)
class Content:
    """`product` is the label's spelling, empty where there is none; `memory_mib` of one device is known where `kind` is
    MODEL, and only there."""

    kind: Kind
    product: str
    memory_mib: int | None = None


def offered(node: Node, resource: str, vendor: Vendor) -> tuple[int, int]:
    """How many devices pods can ask of this node by this resource name: (there, now).

    *There* is what is allocatable, or the capacity where nothing is allocatable now (all unhealthy, the plugin
    restarting) and the node is not cut into MIG slices (whose labels still tell of whole cards).
    """
    now = max(node.allocatable.get(resource, 0), 0)
    there = now if now or _offers_shares(node, vendor) else max(node.capacity.get(resource, 0), 0)
    return there, now


def content_of(labels: Mapping[str, str], capacity: int, resource: str, vendor: Vendor) -> Content:
    """What the devices of a node with these labels are, of which it has this capacity.

    Of the labels only `vendor.label_keys` count.
    """
    product = product_of(labels, vendor)
    if vendor.is_share(resource):
        return Content(Kind.SHARES, product)
    if product and vendor.names_nothing(product):
        return Content(Kind.UNKNOWN, product)
    if _number(labels, vendor.replicas_key) > 1 or vendor.names_share(product) or vendor.labels_share(labels):
        return Content(Kind.SHARES, product)
    known = accelerators().product(product) if product else None
    # More devices than the labelled model has here: the rest is of another (gpu-feature-discovery#66). Capacity, not
    # allocatable, which drops with every unhealthy card.
    if 0 < _number(labels, vendor.count_key) < capacity or (known is not None and known.display):
        return Content(Kind.TWO_MODELS, product)
    memory = _labelled_memory(labels, vendor) or (known.memory_mib if known else None)
    return Content(Kind.MODEL, product, memory) if product and memory else Content(Kind.UNKNOWN, product)


def product_of(labels: Mapping[str, str], vendor: Vendor) -> str:
    """The product as the first of the vendor's and clouds' labels that the node carries spells it; or empty."""
    return next((product for key in vendor.product_keys if (product := labels.get(key))), "")


def memory_mib(text: str, unit: str) -> int | None:
    """A memory label in MiB; None where it cannot be one device's memory.

    A bare number is in `unit`, or in bytes where that alone makes sense (gpu-feature-discovery#26). A suffix is binary
    with or without the "i": devices come in powers of two, and AMD's labeller writes rounded GiB as "192G".
    """
    found = _MEMORY.match(text)
    if found is None:
        return None
    number, suffix, octets = found.groups()
    amount = float(number)
    if suffix:
        readings = [amount * _KIB[suffix] / 1024]
    elif octets:
        readings = [amount / (1 << 20)]
    else:
        readings = [amount * _KIB[unit[0]] / 1024, amount / (1 << 20)]
    return next((int(mib) for mib in readings if int(mib) in _PLAUSIBLE_MIB), None)


def _labelled_memory(labels: Mapping[str, str], vendor: Vendor) -> int | None:
    return next((mib for one in vendor.memory_keys if (mib := memory_mib(labels.get(one.key, ""), one.unit))), None)


def _offers_shares(node: Node, vendor: Vendor) -> bool:
    catalog = accelerators()
    return any(
        amount > 0 and catalog.vendor_of(resource) is vendor and vendor.is_share(resource)
        for amounts in (node.allocatable, node.capacity)
        for resource, amount in amounts.items()
    )


def _number(labels: Mapping[str, str], key: str | None) -> int:
    return int64(labels.get(key, "")) or 0 if key else 0
