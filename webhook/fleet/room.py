"""Room: which nodes hold a pod, and how many pods a set of nodes holds at the most."""

from collections.abc import Iterator, Mapping

from webhook.fleet.limits import ByResource
from webhook.model.fleet import Fleet, Nodes
from webhook.model.index import ThresholdIndex


def fits(fleet: Fleet, requests: Mapping[str, int], copies: int = 1, *, now: bool = False) -> Nodes:
    """The nodes that hold this many copies of a pod, by every resource it requests and by the number of pods.

    What runs there is not counted, and an accelerator counts as it is *there*; with `now`, what is free counts, or what
    is allocatable where the pods are not in view. `requests` is CPU in thousandths under "cpu", everything else in
    whole units.
    """
    nodes = fleet.every
    for limit in holding(fleet, requests, copies, now=now):
        nodes &= limit.nodes
    return nodes


def holding(fleet: Fleet, requests: Mapping[str, int], copies: int = 1, *, now: bool = False) -> Iterator[ByResource]:
    """What the number of pods and each resource leave, one after the other."""
    yield ByResource("pods", copies, _takes_pods(fleet, copies, now=now))
    for resource, amount in requests.items():
        if amount > 0:
            offered = offered_of(fleet, resource, now=now)
            yield ByResource(resource, amount * copies, 0 if offered is None else offered.at_least(amount * copies))


def pods_up_to(fleet: Fleet, requests: Mapping[str, int], among: Nodes, enough: int, *, now: bool = False) -> int:
    """How many such pods these nodes hold, each node alone: the sum of ⌊offered ÷ requested⌋, the least over resources.

    Exact below `enough`; from there on, some number from `enough` to the exact one. One step for each distinct number
    of pods that a node holds.
    """
    pods, copies = 0, 1
    while pods < enough:
        here = among & fits(fleet, requests, copies, now=now)
        each = here.bit_count()
        if pods + each >= enough or not here:
            return pods + each
        alike = _copies_on_each(fleet, requests, here, now=now)
        if alike is None:
            return enough
        pods += each * (alike - copies + 1)
        copies = alike + 1
    return pods


def free_devices(fleet: Fleet, resource: str, among: Nodes) -> int | None:
    """How many of these devices no pod has asked for, on these nodes; None where the pods are not in view."""
    if fleet.free is None:
        return None
    free = fleet.free.get(resource)
    return free.total(among) if free is not None else 0


def _takes_pods(fleet: Fleet, copies: int, *, now: bool) -> Nodes:
    """Nodes that do not say how many pods they take (a snapshot trimmed by hand) take any number."""
    limits = offered_of(fleet, "pods", now=now)
    return fleet.every if limits is None else fleet.every & ~limits.below(copies)


def _copies_on_each(fleet: Fleet, requests: Mapping[str, int], nodes: Nodes, *, now: bool) -> int | None:
    """The number of copies that every one of these nodes holds; None where nothing limits it."""
    limits = [(offered_of(fleet, "pods", now=now), 1)]
    limits += [(offered_of(fleet, resource, now=now), amount) for resource, amount in requests.items() if amount > 0]
    held = [
        least // amount
        for offered, amount in limits
        if offered is not None and (least := offered.least(nodes)) is not None
    ]
    return min(held, default=None)


def offered_of(fleet: Fleet, resource: str, *, now: bool) -> ThresholdIndex | None:
    """What nodes offer of a resource: *there* what is allocatable, and of an accelerator what the node holds; with
    `now`, what is free. None where none does."""
    if now and fleet.free is not None:
        return fleet.free.get(resource)
    column = fleet.devices.get(resource)
    if column is None:
        return fleet.resources.get(resource)
    return column.now if now else column.there
