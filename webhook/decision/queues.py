"""Jobs in a queue that has flavors (Kueue): what is left to the queue, and by which label a pin does not mislead it.

Kueue passes over every selector whose key is in none of its flavors. A job that is pinned by another key than theirs
may get a flavor whose nodes its pods cannot use, and then holds quota while they wait (kubernetes-sigs/kueue#706).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from webhook.decision.pin import pin_to, requires, short_of_room_on, writable
from webhook.decision.pool import RolePool, TargetPool
from webhook.fleet.flavors import Offer
from webhook.fleet.room import pods_up_to
from webhook.model.fleet import Model, Nodes
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.verdict import Pin


class Left(NamedTuple):
    """The flavors that a queue may choose among: their `nodes` and the `models` there. `keeps_off`: there is a flavor
    beside them that it could choose as well, and must not."""

    nodes: Nodes
    models: tuple[Model, ...]
    keeps_off: bool


def queued(pool: TargetPool) -> bool:
    """Whether some role gets its nodes by a flavor."""
    return any(one.offers is not None for one in pool.roles)


def flavor_keys(pool: TargetPool) -> tuple[str, ...]:
    """The node labels that the queue looks at, of all roles."""
    return tuple(sorted({key for one in pool.roles if one.offers is not None for key in one.offers.keys}))


def queue_chooses(pool: TargetPool, job: TrainingJob) -> bool:
    """Whether all pods are on one model whichever flavor the queue takes: one role with devices, which gets one flavor,
    and flavors of one model each.

    Kueue holds back what it manages, as it is created: a job that is not held back is nobody's to choose for. Pods of a
    group may be of several roles.
    """
    if len(pool.roles) != 1 or pool.roles[0].offers is None or not job.suspended or job.group:
        return False
    role = pool.roles[0]
    odd = pool.unknown | pool.two_models
    flavors = [one.nodes & role.nodes for one in pool.roles[0].offers.flavors]
    return any(flavors) and all(
        not nodes & odd and sum(1 for bits in role.models.values() if bits & nodes) <= 1 for nodes in flavors
    )


def left_to_queue(pool: TargetPool, fitting: Iterable[Model], memory_out: Iterable[Model], *, room: bool) -> Left:
    """What the queue may choose among, of a job that `queue_chooses` for: flavors of `fitting` models that can hold the
    gang. With `room` a flavor without room for it is one to keep off, as is always one of a model in `memory_out`; one
    whose quota is too small the queue keeps off by itself."""
    role = pool.roles[0]
    offers = role.offers.flavors if role.offers is not None else ()
    fit, out = pool.of(fitting), pool.of(memory_out)
    good = [one for one in offers if one.nodes & fit and (not room or _can_hold(pool, role, one))]
    bad = (one for one in offers if one not in good)
    keeps_off = any(
        one.nodes & out or (room and one.holds(role.role.gang) and not _has_room(pool, role, one)) for one in bad
    )
    nodes = 0
    for one in good:
        nodes |= one.nodes & role.nodes
    return Left(nodes, tuple(model for model, bits in pool.models.items() if bits & nodes), keeps_off)


def strays(pool: TargetPool, chosen: Nodes) -> bool:
    """Whether the queue can choose a flavor, for some role, in which the role's gang has no room on `chosen` nodes."""
    return any(
        one.holds(role.role.gang) and not _has_room(pool, role, one, chosen)
        for role in pool.roles
        if role.offers is not None and role.role.gang
        for one in role.offers.flavors
    )


class Steered(NamedTuple):
    """A pin for a job in a queue; None: no label separates the models. `misleads`: the queue can choose a flavor
    without room for the job, and no label of the flavors prevents that."""

    pin: Pin | None
    misleads: bool = False


def pin_in_queue(
    pool: TargetPool, models: Iterable[Model], policy: Policy, *, gang: bool, room: bool, beside: bool
) -> Steered:
    """The pin that leaves `models`: by a label of the flavors, else by product, beside one by a label of the flavors
    where the queue might miss them otherwise. `room` and `beside`: whether a lack of room counts, and whether a second
    selector can be written."""
    models = tuple(models)
    chosen = pool.of(models)
    if (pin := pin_by_flavor(pool, chosen, policy, gang=gang, room=room, whole=True)) is not None:
        return Steered(pin)
    pin = pin_to(pool, models, policy, gang=gang, but=flavor_keys(pool))
    if pin is not None and not (room and strays(pool, chosen)):
        return Steered(pin)
    if gang and (partial := pin_by_flavor(pool, chosen, policy, gang=gang, room=room)) is not None:
        return Steered(partial)
    if pin is None or not beside:
        return Steered(pin, misleads=pin is not None)
    flavors = pin_by_flavor(pool, chosen, policy, gang=gang, room=room, among=chosen)
    return Steered(replace(pin, beside=flavors), misleads=flavors is None)


def pin_by_flavor(
    pool: TargetPool,
    chosen: Nodes,
    policy: Policy,
    *,
    gang: bool,
    room: bool = True,
    whole: bool = False,
    among: Nodes = -1,
) -> Pin | None:
    """The pin by a label of the flavors after which every flavor that the queue can still choose has `chosen` nodes and
    no others, and (`room`) holds the gang; None where no label does that. `whole`: and all chosen nodes are left;
    otherwise what is left has to keep the gang's room. Another selector may leave nodes `among` these only."""
    keys = flavor_keys(pool)
    products = (key for one in pool.roles if one.column for key in one.column.product_keys)
    for key in dict.fromkeys(key for key in (*policy.pin_keys, *products, *keys) if key in keys):
        values = _values(pool, key, chosen, room=room, among=among)
        if not values:
            continue
        after = {one.index: _after(one, key, values) & among for one in pool.roles}
        if any(nodes & ~chosen for nodes in after.values()):
            continue
        lacking = [one for one in pool.roles if not requires(one.role, key, values)]
        if not all(writable(one.role, key, values) for one in lacking):
            continue
        all_left = all(after[one.index] == one.nodes & chosen for one in pool.roles)
        if all_left or (gang and not whole and not short_of_room_on(pool, after)):
            return Pin(key, values, tuple(one.index for one in lacking))
    return None


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


def _after(role: RolePool, key: str, values: tuple[str, ...]) -> Nodes:
    """Where the role's pods may land with this pin in it."""
    if role.offers is None:
        return role.nodes
    nodes = 0
    for one in role.offers.flavors:
        if one.flavor.labels.get(key) in values:
            nodes |= one.nodes & role.nodes
    return nodes


def _can_hold(pool: TargetPool, role: RolePool, one: Offer) -> bool:
    return one.holds(role.role.gang) and _has_room(pool, role, one)


def _has_room(pool: TargetPool, role: RolePool, one: Offer, among: Nodes = -1) -> bool:
    """Whether the flavor's nodes, those `among` these, hold the gang."""
    here, gang = one.nodes & role.nodes & among, role.role.gang
    return here.bit_count() >= gang or pods_up_to(pool.fleet, role.role.requests, here, gang) >= gang
