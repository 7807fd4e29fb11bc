"""First fit: whether pods of several shapes find places together.

The bounds of `room` hold for any packing; this is one packing. Where it fails another might succeed, so it only warns.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from webhook.model.fleet import Fleet, Nodes
from webhook.model.index import positions_of


class Ask(NamedTuple):
    """`pods` pods that request the same, on nodes each of which holds at least one of them."""

    requests: Mapping[str, int]
    nodes: Nodes
    pods: int


def first_fit(fleet: Fleet, asks: Iterable[Ask]) -> bool:
    """Whether every pod gets a place, largest requests first, node by node, on what the nodes offer *there*.

    A node that nothing has been put on holds one pod at least, so no more nodes are looked at than there are pods.
    """
    left: dict[int, dict[str, float]] = {}
    for ask in sorted(asks, key=lambda one: sorted(one.requests.values(), reverse=True), reverse=True):
        wanted = ask.pods
        asked = {resource: amount for resource, amount in ask.requests.items() if amount > 0} | {"pods": 1}
        for position in positions_of(ask.nodes):
            if wanted <= 0:
                break
            free = left.setdefault(position, {})
            for resource in asked.keys() - free.keys():
                free[resource] = _offered(fleet, resource, position)
            placed = min(wanted, *(int(free[resource] // amount) for resource, amount in asked.items()))
            for resource, amount in asked.items():
                free[resource] -= placed * amount
            wanted -= placed
        if wanted > 0:
            return False
    return True


def _offered(fleet: Fleet, resource: str, position: int) -> float:
    column = fleet.devices.get(resource)
    if column is not None:
        return column.there.value(position) if column.there.present >> position & 1 else 0
    # Nodes that do not say how many pods they take (a snapshot trimmed by hand) take any number.
    return fleet.nodes[position].allocatable.get(resource, _ANY_NUMBER if resource == "pods" else 0)


_ANY_NUMBER = 1 << 31
