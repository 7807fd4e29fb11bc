"""Which flavors Kueue may give a podset, and where its pods land then.

By Kueue's own rules: checkFlavorForPodSets and flavorSelector of pkg/scheduler/flavorassigner (sigs.k8s.io/kueue
v0.17.0).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from webhook.fleet.limits import ByFlavors
from webhook.fleet.select import held_back, tolerated
from webhook.model.fleet import Fleet, Nodes, Taint
from webhook.model.frozen import frozen
from webhook.model.index import int64
from webhook.model.job import Role
from webhook.model.placement import Operator, Placement, Requirement, Toleration
from webhook.model.queues import Flavor, Queue

_KEEPS_OUT = ("NoSchedule", "NoExecute")


@frozen
class Offer:
    """One flavor that the role may be given, and those that it leaves of the nodes that its pods may land on at all;
    `now` are those of them whose passing state keeps no pod out. `pods` is how many its quota can ever hold, None where
    nothing bounds it."""

    flavor: Flavor
    nodes: Nodes
    now: Nodes
    pods: int | None

    def holds(self, gang: int) -> bool:
        return self.pods is None or self.pods >= gang


@frozen
class Offers:
    """All flavors of the queue that the role may be given. `keys` are the node labels that Kueue looks at as it chooses
    among them; it passes over every other selector of a job.

    `placement` is the role's with all tolerations that some flavor adds, and `limits` what flavors leave of the nodes
    that it allows, those of the role's device last.
    """

    flavors: tuple[Offer, ...]
    keys: tuple[str, ...]
    placement: Placement
    limits: tuple[ByFlavors, ...]

    @property
    def now(self) -> Nodes:
        return _all(one.now for one in self.flavors)

    def without(self, gone: Nodes) -> "Offers":
        """The same flavors without these nodes."""
        left = (replace(one, nodes=one.nodes & ~gone, now=one.now & ~gone) for one in self.flavors)
        return replace(self, flavors=tuple(left))


def offers(fleet: Fleet, role: Role, queue: Queue) -> Offers | None:
    """None where no flavor covers the role's device: Kueue is not told of it, and whatever it does is not seen here."""
    group = tuple(one for one in queue.flavors if one.covers(role.device))
    if not group:
        return None
    asked = [name for name, amount in role.requests.items() if amount > 0]
    # Each resource has its group of flavors in a queue, and a podset gets one flavor of each.
    others = [
        [one for one in queue.flavors if one.covers(name)]
        for name in asked
        if not any(one.covers(name) for one in group)
    ]
    added = tuple(toleration for other in others for one in other for toleration in one.tolerations)
    own = _tolerating(role.placement, added)
    given = [
        (one, pods)
        for one in _assignable(group, role.placement)
        # A flavor of other nodes may be in the group for its CPUs.
        if (pods := one.holds(role.requests)) != 0 or one.quota is None or one.quota.get(role.device) != 0
    ]
    wide = _tolerating(own, [toleration for one, _ in given for toleration in one.tolerations])
    apart = [_limit(fleet, _assignable(other, role.placement)) for other in others if other]
    carrying = [_carrying(fleet, one, own, wide) for one, _ in given]
    return Offers(
        flavors=tuple(_offer(fleet, one, pods, nodes, own) for (one, pods), nodes in zip(given, carrying, strict=True)),
        keys=tuple(sorted({key for one in group for key in one.labels})),
        placement=wide,
        limits=(*apart, ByFlavors(tuple(one.name for one, _ in given), _all(carrying))),
    )


def _offer(fleet: Fleet, flavor: Flavor, pods: int | None, nodes: Nodes, own: Placement) -> Offer:
    known = nodes and fleet.free is not None
    now = nodes & ~held_back(fleet, _tolerating(own, flavor.tolerations)) if known else 0
    return Offer(flavor, nodes, now, pods)


def _carrying(fleet: Fleet, flavor: Flavor, own: Placement, wide: Placement) -> Nodes:
    """The nodes with the labels of the flavor whose taints its pods tolerate; `wide` tolerates no less than they do."""
    nodes = _labelled(fleet, flavor)
    place = _tolerating(own, flavor.tolerations)
    for limit in tolerated(fleet, place) if place.tolerations != wide.tolerations else ():
        nodes &= limit.nodes
    return nodes


def _limit(fleet: Fleet, flavors: Iterable[Flavor]) -> ByFlavors:
    among = tuple(flavors)
    return ByFlavors(tuple(one.name for one in among), _all(_labelled(fleet, one) for one in among))


def _tolerating(placement: Placement, more: Iterable[Toleration]) -> Placement:
    """The scheduling fields with tolerations added, as Kueue does where it assigns a flavor (pkg/podset, Merge)."""
    added = tuple(dict.fromkeys(more))
    return replace(placement, tolerations=(*placement.tolerations, *added)) if added else placement


def matches(flavor: Flavor, placement: Placement, keys: Collection[str]) -> bool:
    """Whether the labels of a flavor meet what a pod's selectors say of these keys; other keys are passed over."""
    if any(key in keys and flavor.labels.get(key) != value for key, value in placement.node_selector):
        return False
    terms = [[one for one in term.expressions if one.key in keys] for term in placement.terms or ()]
    # A term without any is met by every flavor, and terms are ORed.
    return not all(terms) or not terms or any(all(_met(flavor.labels, one) for one in term) for term in terms)


def _assignable(group: Iterable[Flavor], placement: Placement) -> list[Flavor]:
    flavors = list(group)
    keys = {key for one in flavors for key in one.labels}
    return [
        one
        for one in flavors
        if matches(one, placement, keys)
        and all(
            _tolerated(taint, (*placement.tolerations, *one.tolerations))
            for taint in one.taints
            if taint.effect in _KEEPS_OUT
        )
    ]


def _labelled(fleet: Fleet, flavor: Flavor) -> Nodes:
    nodes = fleet.every
    for key, value in flavor.labels.items():
        index = fleet.labels.get(key)
        nodes &= index.equal(value) if index is not None else 0
    return nodes


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        one.key in ("", taint.key)
        and one.effect in ("", taint.effect)
        and (one.operator == "Exists" or (one.operator in ("", "Equal") and one.value == taint.value))
        for one in tolerations
    )


def _met(labels: Mapping[str, str], one: Requirement) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case Operator.IN:
            return value in one.values
        case Operator.NOT_IN:
            return value not in one.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GT | Operator.LT:
            number = int64(value) if value is not None else None
            bound = int64(one.values[0]) if len(one.values) == 1 else None
            if number is None or bound is None:
                return False
            return number > bound if one.operator is Operator.GT else number < bound


def _all(sets: Iterable[Nodes]) -> Nodes:
    nodes = 0
    for one in sets:
        nodes |= one
    return nodes
