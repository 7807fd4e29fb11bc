"""What one node offers of one accelerator resource, read from its amounts and from labels that often mislead."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache

from webhook.catalog.accelerators import Accelerators, Vendor, accelerators
from webhook.fleet.memory import device_mib, listed_mib, share_mib
from webhook.fleet.signs import TWO_MODELS_KEY, is_display, own_product, shares, two_models
from webhook.model.fleet import Node
from webhook.model.frozen import frozen


class Kind(StrEnum):
    """What the devices of a node are: of one known model, or why they are not."""

    MODEL = "model"
    UNKNOWN = "unknown"
    TWO_MODELS = "two models"
    SHARES = "shares"


@frozen
class Content:
    """`product` is the label's spelling, empty where there is none; `memory_mib` is that of one device, known where
    `kind` is MODEL, or of one share, where that is known. `because` says in a few words why it is not MODEL."""

    kind: Kind
    product: str
    memory_mib: int | None = None
    because: str = ""


@frozen
class Reading:
    """By what nodes are read: the catalog, and labels that name the model before all others (`modelLabels`)."""

    catalog: Accelerators
    model_labels: tuple[str, ...] = ()


def offered(node: Node, resource: str, vendor: Vendor) -> tuple[int, int]:
    """How many devices pods can ask of this node by this resource name: (there, now).

    *There* is what is allocatable, or the capacity where nothing is allocatable now (all unhealthy, the plugin
    restarting) and the node is not cut into MIG slices (whose labels still tell of whole cards).
    """
    now = max(node.allocatable.get(resource, 0), 0)
    there = now if now or offers_shares(node, vendor) else max(node.capacity.get(resource, 0), 0)
    return there, now


def offers_shares(node: Node, vendor: Vendor) -> bool:
    """Whether the node offers a resource of the vendor that is a share by its name."""
    catalog = accelerators()
    return any(
        amount > 0 and catalog.vendor_of(resource) is vendor and vendor.is_share(resource)
        for amounts in (node.allocatable, node.capacity)
        for resource, amount in amounts.items()
    )


def label_keys(resource: str, vendor: Vendor, reading: Reading) -> tuple[str, ...]:
    """The labels that `content_of` looks at, but for the vendor's `counted_keys`."""
    return (TWO_MODELS_KEY, f"{resource}.memory", *reading.model_labels, *vendor.label_keys)


def said(node: Node, resource: str, vendor: Vendor, keys: tuple[str, ...]) -> tuple[object, ...]:
    """All of the node that `content_of` looks at, `keys` being the labels: nodes that say the same hold the same."""
    counted = vendor.counted_keys
    return (
        node.capacity.get(resource, 0),
        node.listed,
        node.last_product,
        node.last_memory_mib,
        node.second_product,
        *map(node.labels.get, keys),
        *(sorted(key for key in node.labels if key.startswith(counted)) if counted else ()),
    )


def telling(labels: Mapping[str, str], model_labels: tuple[str, ...]) -> dict[str, str]:
    """The labels from which devices are read: where these and the amounts are the same, so are the devices."""
    keys, counted = _telling()
    return {key: text for key, text in labels.items() if key in keys or key in model_labels or key.startswith(counted)}


@cache
def _telling() -> tuple[frozenset[str], tuple[str, ...]]:
    vendors = accelerators().vendors
    keys = frozenset(key for vendor in vendors for key in vendor.label_keys)
    return keys | {TWO_MODELS_KEY}, tuple(f"{key}." for vendor in vendors for key in vendor.counted_keys)


def content_of(node: Node, resource: str, vendor: Vendor, reading: Reading) -> Content:
    """What the devices of this node are that pods ask for by this resource. Of the node only `said` counts."""
    catalog = reading.catalog
    product, own = product_of(node, vendor, reading), own_product(node, vendor)
    known = catalog.product(product) or catalog.product(own)
    if vendor.is_share(resource):
        return Content(Kind.SHARES, product, share_mib(node, resource, vendor, known), "told by the resource name")
    if own and vendor.names_nothing(own):
        return Content(Kind.UNKNOWN, product, because="the product label is half set")
    if sign := two_models(node, resource, vendor, catalog):
        return Content(Kind.TWO_MODELS, product, because=sign)
    if is_display(own, catalog):
        return _behind_display(node, vendor, product, catalog)
    if sign := shares(node, resource, vendor):
        return Content(Kind.SHARES, product, share_mib(node, resource, vendor, known), sign)
    if not product:
        return Content(Kind.UNKNOWN, "", because="no label names the model")
    memory = device_mib(node, vendor, product, catalog) or (known.memory_mib if known else None)
    if memory is not None:
        return Content(Kind.MODEL, product, memory)
    unified = known is not None and known.unified
    return Content(Kind.UNKNOWN, product, because="its memory is the host's" if unified else "memory not known")


def product_of(node: Node, vendor: Vendor, reading: Reading) -> str:
    """The product as the node spells it; empty where nothing names it.

    First the labels of the policy, then the vendor's own, then what else lists the devices. Of clouds' labels the first
    counts that the catalog knows (Karpenter calls 40 and 80 GB cards "a100" alike), and last the machine's type.
    """
    labels = node.labels
    named = next((name for key in reading.model_labels if (name := labels.get(key))), "") or own_product(node, vendor)
    if not named:
        named = next((one.product for one in node.listed if one.vendor == vendor.name), "")
    if named:
        return named
    clouds = [name for key in vendor.cloud_keys if (name := labels.get(key))]
    known = next((name for name in clouds if reading.catalog.product(name)), "")
    return known or vendor.product_of_machine(labels) or next(iter(clouds), "")


def _behind_display(node: Node, vendor: Vendor, product: str, catalog: Accelerators) -> Content:
    """While the label names a display card, the devices are what it named before (k8s-device-plugin#731), or what else
    lists them, or what the owner calls them."""
    names = (node.last_product, *(one.product for one in node.listed if one.vendor == vendor.name), product)
    kept = next((name for name in names if name and not is_display(name, catalog)), "")
    if not kept:
        return Content(Kind.UNKNOWN, product, because="the product label names a display card")
    memory = (node.last_memory_mib if kept == node.last_product else None) or listed_mib(node, vendor, kept, catalog)
    if memory is None:
        return Content(Kind.UNKNOWN, kept, because="memory not known")
    return Content(Kind.MODEL, kept, memory)
