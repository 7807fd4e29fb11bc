"""Jobs in a queue that has flavors (Kueue): what is left to the queue, and by which label a pin does not mislead it.

Kueue passes over every selector whose key is in none of its flavors. A job that is pinned by another key than theirs
may get a flavor whose nodes its pods cannot use, and then holds quota while they wait (kubernetes-sigs/kueue#706).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from webhook.decision.gang import pods_held, short_of_flavors
from webhook.decision.notes import Key, Keys, Tried
from webhook.decision.pin import (
    keeping_room,
    requires,
    selected_by_all,
    separating,
    short_of_room_on,
    tried_keys,
    writable,
)
from webhook.decision.pool import RolePool, TargetPool
from webhook.fleet.flavors import Offer
from webhook.model.fleet import Model, Nodes
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.verdict import Out, Pin


class Left(NamedTuple):
    """The flavors that a queue may choose among: their `nodes` and the `models` there. `keeps_off`: there is a flavor
    beside them that it could choose as well, and must not."""

    nodes: Nodes
    models: frozenset[Model]
    keeps_off: bool


def queued(pool: TargetPool) -> bool:
    """Whether some role gets its nodes by a flavor."""
    return any(one.offers is not None for one in pool.roles)


def flavor_keys(pool: TargetPool) -> tuple[str, ...]:
    """The node labels that the queue looks at, of all roles."""
    return tuple(sorted({key for one in pool.roles if one.offers is not None for key in one.offers.keys}))


def queue_chooses(pool: TargetPool, job: TrainingJob, alike: Iterable[Iterable[Model]]) -> bool:
    """Whether all pods are on models that count as one whichever flavor the queue takes: one role with devices, which
    gets one flavor, and flavors of models each of which are `alike`.

    Kueue holds back what it manages, as it is created: a job that is not held back is nobody's to choose for. Pods of a
    group may be of several roles.
    """
    if len(pool.roles) != 1 or pool.roles[0].offers is None or not job.suspended or job.group:
        return False
    role = pool.roles[0]
    odd = pool.unknown | pool.two_models | pool.shares
    flavors = [one.nodes & role.nodes for one in pool.roles[0].offers.flavors]
    groups = [pool.of(models) for models in alike]
    return any(flavors) and all(not nodes & odd and sum(1 for bits in groups if bits & nodes) <= 1 for nodes in flavors)


def left_to_queue(pool: TargetPool, fitting: Iterable[Model], barred: Iterable[Model], *, room: bool) -> Left:
    """What the queue may choose among, of a job that `queue_chooses` for: flavors of `fitting` models that can hold the
    gang. With `room` a flavor without room for it is one to keep off, as is always one of a model that is `barred`; one
    whose quota is too small the queue keeps off by itself."""
    role = pool.roles[0]
    offers = role.offers.flavors if role.offers is not None else ()
    fit, out = pool.of(fitting), pool.of(barred)
    good = [one for one in offers if one.nodes & fit and (not room or _can_hold(pool, role, one))]
    bad = (one for one in offers if one not in good)
    keeps_off = any(
        one.nodes & out or (room and one.holds(role.role.gang) and not _has_room(pool, role, one)) for one in bad
    )
    nodes = 0
    for one in good:
        nodes |= one.nodes & role.nodes
    return Left(nodes, frozenset(model for model, bits in pool.models.items() if bits & nodes), keeps_off)


def strays(pool: TargetPool, chosen: Nodes) -> bool:
    """Whether the queue can choose a flavor, for some role, in which the role's gang has no room on `chosen` nodes."""
    return any(
        one.holds(role.role.gang) and not _has_room(pool, role, one, chosen)
        for role in pool.roles
        if role.offers is not None and role.role.gang
        for one in role.offers.flavors
    )


def keeps_to(pool: TargetPool, chosen: Nodes, policy: Policy) -> bool:
    """Whether a label of the flavors keeps the queue to `chosen` nodes, and to flavors that hold the gang."""
    keys = tuple(flavors_tried(pool, chosen, policy, gang=True, room=True))
    return (separating(keys) or keeping_room(keys)) is not None


class Steered(NamedTuple):
    """A pin for a job in a queue, and the label keys that were tried; None: no label separates the models. `misleads`:
    the queue can choose a flavor without room for the job, and no label of the flavors prevents that."""

    pin: Pin | None
    keys: Keys
    misleads: bool = False

    @property
    def misses(self) -> bool:
        """Whether no label keeps the queue to flavors that have the models."""
        return self.pin is None or self.misleads


def pin_in_queue(
    pool: TargetPool, models: Iterable[Model], policy: Policy, *, gang: bool, room: bool, beside: bool
) -> Steered:
    """The pin that leaves `models`: by a label of the flavors, else by product, beside one by a label of the flavors
    where the queue might miss them otherwise. `room` and `beside`: whether a lack of room counts, and whether a second
    selector can be written."""
    chosen = pool.of(models)
    by_flavor = tuple(flavors_tried(pool, chosen, policy, gang=gang, room=room))
    if (pin := separating(by_flavor)) is not None:
        return Steered(pin, Keys(by_flavor, chosen.bit_count(), pin))
    by_product = tuple(tried_keys(pool, chosen, policy, gang=gang, but=flavor_keys(pool)))
    pin, misleads = separating(by_product) or keeping_room(by_product), False
    if pin is None or (room and strays(pool, chosen)):
        partial = keeping_room(by_flavor)
        misleads = pin is not None and partial is None
        pin = partial or pin
    if pin is not None and misleads and beside:
        also = tuple(flavors_tried(pool, chosen, policy, gang=gang, room=room, among=chosen))
        pin = replace(pin, beside=separating(also) or keeping_room(also))
        misleads = pin.beside is None
        taken = {one.key: one._replace(tried=Tried.BESIDE) for one in also if one.pin and one.pin == pin.beside}
        by_flavor = tuple(taken.get(one.key, one) for one in by_flavor)
    return Steered(pin, Keys((*by_flavor, *by_product), chosen.bit_count(), pin), misleads)


def flavors_tried(
    pool: TargetPool, chosen: Nodes, policy: Policy, *, gang: bool, room: bool, among: Nodes = -1
) -> Iterator[Key]:
    """The labels of the flavors to pin by, and what comes of each, as far as that may make a difference.

    One separates after which every flavor that the queue can still choose has `chosen` nodes and no others, and
    (`room`) holds the gang, and all chosen nodes are left. Another selector may leave nodes `among` these only. None
    may take from the gang the flavors that have the quota for it.
    """
    keys = flavor_keys(pool)
    products = (key for one in pool.roles if one.column for key in one.column.product_keys)
    selected = selected_by_all(pool)
    has_quota = gang and not _short_of_quota(pool, {one.index: one.nodes & chosen for one in pool.roles})
    complete = partial = False
    for key in dict.fromkeys(key for key in (*policy.pin_keys, *products, *keys) if key in keys):
        if complete and key not in selected:
            yield Key(key, Tried.NOT_ASKED)
            continue
        values = _values(pool, key, chosen, room=room, among=among)
        left = _left_by(pool, key, values)
        after = {one.index: _after(one) & among for one in left.roles}
        if not values or any(nodes & ~chosen for nodes in after.values()):
            yield Key(key, Tried.MISLEADS)
            continue
        lacking = [one for one in pool.roles if not requires(one.role, key, values)]
        pin = Pin(key, values, tuple(one.index for one in lacking))
        if not all(writable(one.role, key, values) for one in lacking):
            tried = Tried.NOT_WRITABLE
        elif has_quota and _short_of_quota(left, after):
            tried = Tried.NO_ROOM
        elif all(after[one.index] == one.nodes & chosen for one in pool.roles):
            tried, complete = Tried.SEPARATES, True
        elif complete or partial:
            tried = Tried.NOT_ASKED
        elif gang and not short_of_room_on(pool, after):
            tried, partial = Tried.PARTLY, True
        else:
            tried = Tried.NO_ROOM
        nodes = 0
        for one in after.values():
            nodes |= one
        yield Key(key, tried, values, nodes.bit_count(), pin)


def _values(pool: TargetPool, key: str, chosen: Nodes, *, room: bool, among: Nodes) -> tuple[str, ...]:
    """The values of this key that only flavors have whose nodes are chosen, and hold the gang."""
    good: set[str] = set()
    bad: set[str] = set()
    for role in pool.roles:
        for one in role.offers.flavors if role.offers is not None else ():
            value = one.flavor.labels.get(key)
            if value is not None:
                nodes = one.nodes & role.nodes & among
                roomy = not room or not one.holds(role.role.gang) or _has_room(pool, role, one, among)
                (good if nodes and not nodes & ~chosen and roomy else bad).add(value)
    return tuple(sorted(good - bad))


def _left_by(pool: TargetPool, key: str, values: tuple[str, ...]) -> TargetPool:
    """The pool with the flavors that this pin leaves to the queue."""

    def left(one: RolePool) -> RolePool:
        if one.offers is None:
            return one
        flavors = tuple(offer for offer in one.offers.flavors if offer.flavor.labels.get(key) in values)
        return replace(one, offers=replace(one.offers, flavors=flavors))

    return replace(pool, roles=tuple(left(one) for one in pool.roles))


def _after(role: RolePool) -> Nodes:
    """Where the role's pods may land with the flavors that are left."""
    if role.offers is None:
        return role.nodes
    nodes = 0
    for one in role.offers.flavors:
        nodes |= one.nodes & role.nodes
    return nodes


def _short_of_quota(pool: TargetPool, nodes: Mapping[int, Nodes]) -> bool:
    short = short_of_flavors(pool, nodes)
    return short is not None and short.reason is Out.QUOTA


def _can_hold(pool: TargetPool, role: RolePool, one: Offer) -> bool:
    return one.holds(role.role.gang) and _has_room(pool, role, one)


def _has_room(pool: TargetPool, role: RolePool, one: Offer, among: Nodes = -1) -> bool:
    """Whether the flavor's nodes, those `among` these, hold the gang."""
    here, gang = one.nodes & role.nodes & among, role.role.gang
    return pods_held(pool.fleet, role.role.requests, here, gang) >= gang
