"""Signs that the devices of a node are not whole devices of one model, each in a few words; empty where none shows."""

from webhook.catalog.accelerators import Accelerators, Vendor
from webhook.fleet.memory import cards, number
from webhook.model.fleet import Node

TWO_MODELS_KEY = "samestep.dev/two-models"
"""A label by which the owner of a node says whether it holds devices of two models: "true", or "false" against signs
that mislead."""


def two_models(node: Node, resource: str, vendor: Vendor, catalog: Accelerators) -> str:
    """Feature discovery gives such a node the labels of one of its models, now of the one, now of the other."""
    labels = node.labels
    said = labels.get(TWO_MODELS_KEY)
    if said in ("true", "false"):
        return f"the label {TWO_MODELS_KEY} says so" if said == "true" else ""
    listed = {catalog.canonical(one.product): one.product for one in node.listed if one.vendor == vendor.name}
    names = sorted(catalog.short_name(name) for name in listed.values() if not is_display(name, catalog))
    if len(names) > 1:
        return f"{' and '.join(names[:2])} are listed"
    for key in vendor.counted_keys:
        counted = sorted(one.removeprefix(f"{key}.") for one in labels if one.startswith(f"{key}."))
        if len(counted) > 1:
            return f"labels count {' and '.join(counted[:2])}"
    if node.second_product:
        return f"its label has also named {catalog.short_name(node.second_product)} since it booted"
    return "" if is_display(own_product(node, vendor), catalog) else _more_than_counted(node, resource, vendor)


def shares(node: Node, resource: str, vendor: Vendor) -> str:
    """One device offered several times, or cut into slices under the name of whole ones."""
    labels = node.labels
    replicas = number(labels, vendor.replicas_key)
    listed = next((one.shares for one in node.listed if one.vendor == vendor.name and one.shares > 1), 0)
    if replicas > 1 or listed:
        return f"each device is offered {max(replicas, listed)} times"
    product = own_product(node, vendor)
    if vendor.names_share(product) or vendor.names_slice(product):
        return "the product label says so"
    if key := vendor.sharing_label(labels) or vendor.slicing_label(labels):
        return f"the label {key} says so"
    count, capacity = cards(labels, vendor), node.capacity.get(resource, 0)
    if count is not None and count < capacity and not number(labels, vendor.count_key):
        return f"{capacity} devices on {count} cards"
    return ""


def own_product(node: Node, vendor: Vendor) -> str:
    """The product as the vendor's own label spells it; empty where it does not."""
    return next((name for key in vendor.product_keys if (name := node.labels.get(key))), "")


def is_display(product: str, catalog: Accelerators) -> bool:
    """Whether this is a display card."""
    known = catalog.product(product) if product else None
    return known is not None and known.display


def _more_than_counted(node: Node, resource: str, vendor: Vendor) -> str:
    """More devices than the labelled model has here: the rest is of another (gpu-feature-discovery#66).

    Capacity, not allocatable, which drops with every unhealthy card. Where devices are shared without a word of how
    often, the count says nothing (gpu-feature-discovery#76).
    """
    count, replicas = (number(node.labels, key) for key in (vendor.count_key, vendor.replicas_key))
    capacity = node.capacity.get(resource, 0)
    if not 0 < count * max(replicas, 1) < capacity or (replicas <= 1 and shares(node, resource, vendor)):
        return ""
    return f"its labels count {count}{f' × {replicas}' if replicas > 1 else ''} and there are {capacity}"
