"""What the devices of one node are."""

from webhook.model.fleet import Fleet
from webhook.model.run import Device


def device_on(fleet: Fleet, node: str, resource: str) -> Device | None:
    """The devices that pods ask for on this node by this resource; None where the node is not there (any more), or they
    are no whole devices of one known model."""
    column, nodes = fleet.devices.get(resource), fleet.names.equal(node)
    span = column.memory.span(nodes) if column is not None and nodes else None
    if column is None or span is None:
        return None
    count = column.there.value(nodes.bit_length() - 1)
    return next(
        (Device(model.product, span[0], count) for model, those in column.models.items() if nodes & those), None
    )
