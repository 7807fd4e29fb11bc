"""The target pool of a job: which nodes its device roles may land on, and what each model there offers.

The pool is *there*: existing nodes whatever their passing state. What is free *now* is a figure beside it, where the
pods are in view.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from operator import or_
from types import MappingProxyType
from typing import TypeVar

from webhook.catalog.accelerators import accelerators
from webhook.decision.likeness import Member, joined, may_join
from webhook.decision.memory import Facts, Held, facts_of, lacks, weigh
from webhook.fleet.flavors import Offers, offers
from webhook.fleet.limits import ByProduct, Limit
from webhook.fleet.packing import Ask, first_fit
from webhook.fleet.room import fits, free_devices, holding, pods_up_to
from webhook.fleet.select import by_queue, held_back, placed
from webhook.model.demand import Demand
from webhook.model.fleet import DeviceColumn, Fleet, Model, Nodes, Offered, Places
from webhook.model.frozen import frozen
from webhook.model.job import Role, TrainingJob
from webhook.model.placement import Requirement
from webhook.model.pods import Promise, Queued
from webhook.model.policy import Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.model.queues import Queue
from webhook.model.verdict import Candidate, Out, Pool

NOTHING_QUEUED: Queued = MappingProxyType({})
_REMEMBERED = 64
"""So many answers of a fleet: each takes as much as seven sets of nodes."""
_Of = TypeVar("_Of")


@frozen
class RolePool:
    """One device role: the nodes of the fleet on which a pod of it may land, and those of each model among them.

    `index` is its place in the job; `shape` is what a pod of it asks for, as a key. `now` are those of its nodes whose
    passing state keeps no pod out, and `takes` those of them that can take one now, where what is free is known.
    `required` is what its queue says of the labels of nodes. `offers` are the flavors that it may give it; None: it is
    in none that has flavors for it.
    """

    index: int
    role: Role
    shape: frozenset[tuple[str, int]]
    column: DeviceColumn | None
    nodes: Nodes
    now: Nodes
    takes: Nodes
    models: Mapping[Model, Nodes]
    required: tuple[Requirement, ...] = ()
    offers: Offers | None = None

    def without(self, models: frozenset[Model], gone: Nodes) -> "RolePool":
        left = self.offers and self.offers.without(gone)
        return replace(self, nodes=self.nodes & ~gone, models=_others(self.models, models), offers=left)

    def only(self, nodes: Nodes) -> "RolePool":
        """Of a role that no queue places: as if no other nodes than these were there."""
        left = _present(self.models, nodes)
        return replace(self, nodes=self.nodes & nodes, now=self.now & nodes, takes=self.takes & nodes, models=left)


@frozen
class TargetPool:
    """The roles' pools and, over all of them together, the nodes by what they hold; `now` as in RolePool."""

    fleet: Fleet
    roles: tuple[RolePool, ...]
    nodes: Nodes
    now: Nodes
    unknown: Nodes
    two_models: Nodes
    shares: Nodes
    models: Mapping[Model, Nodes]
    """By product, in the order of names: what is decided does not depend on the order of nodes."""
    offered: Mapping[Model, Offered]
    """Of the resource by which some role asks for the model, by the nodes that are in the pool."""
    gang: int
    """The pods of all roles that have to run at the same time."""

    def of(self, models: Iterable[Model]) -> Nodes:
        """The nodes of these models that some role may land on."""
        return _union(self.models, models)

    def of_roles(self, models: Collection[Model]) -> dict[int, Nodes]:
        """The same for each device role, by its place in the job."""
        return {one.index: _union(one.models, models) for one in self.roles}

    def without(self, models: frozenset[Model]) -> "TargetPool":
        """The pool as if these models were not there."""
        if not models:
            return self
        gone = self.of(models)
        return replace(
            self,
            roles=tuple(pool.without(models, gone) for pool in self.roles),
            nodes=self.nodes & ~gone,
            models=_others(self.models, models),
            offered=_others(self.offered, models),
        )

    def only(self, nodes: Nodes) -> "TargetPool":
        """The pool as if no other nodes than these were there."""
        models = _present(self.models, nodes)
        return replace(
            self,
            roles=tuple(pool.only(nodes) for pool in self.roles),
            nodes=self.nodes & nodes,
            now=self.now & nodes,
            unknown=self.unknown & nodes,
            two_models=self.two_models & nodes,
            shares=self.shares & nodes,
            models=models,
            offered=_offered(models, {model: self.offered[model].column for model in models}),
        )


def target_pool(job: TrainingJob, fleet: Fleet) -> TargetPool:
    """Selectors, affinity, tolerations and resources of each device role, by Kubernetes' own rules, and the job's queue
    by those of its controller."""
    roles: list[RolePool] = []
    different: list[RolePool] = []
    places: list[Places] = []
    for index, role in enumerate(job.roles):
        if role.decided:
            # Most jobs have one template, or the same one for a master and its workers.
            alike = next((one for one in different if _alike(one.role, role)), None)
            if alike is None:
                pool, where = _role_pool(index, role, fleet, job.reach)
                different.append(pool)
                places.append(where)
            roles.append(replace(alike, index=index, role=role) if alike else different[-1])
    nodes, models, offered = places[0] if len(places) == 1 else _together(different)
    now = unknown = two_models = shares = 0
    for pool in different:
        now |= pool.now
        if pool.column is not None:
            unknown |= pool.nodes & pool.column.unknown
            two_models |= pool.nodes & pool.column.two_models
            shares |= pool.nodes & pool.column.shares
    gang = sum([one.role.gang for one in roles])
    return TargetPool(fleet, tuple(roles), nodes, now, unknown, two_models, shares, models, offered, gang)


def _together(pools: Iterable[RolePool]) -> Places:
    nodes = 0
    models: dict[Model, Nodes] = {}
    columns: dict[Model, DeviceColumn] = {}
    for pool in pools:
        nodes |= pool.nodes
        if pool.column is not None:
            columns = dict.fromkeys(pool.models, pool.column) | columns
        for model, bits in pool.models.items():
            models[model] = models.get(model, 0) | bits
    ordered = dict(sorted(models.items(), key=lambda one: one[0].product))
    return Places(nodes, ordered, _offered(ordered, columns))


def _offered(models: Mapping[Model, Nodes], columns: Mapping[Model, DeviceColumn]) -> dict[Model, Offered]:
    return {model: _offered_by(model, here, columns[model]) for model, here in models.items()}


def _offered_by(model: Model, nodes: Nodes, column: DeviceColumn) -> Offered:
    least, most = column.spans[model]
    span = column.memory.span(nodes) if least < most else (least, most)
    assert span is not None
    return Offered(column, column.there.total(nodes), span)


def _alike(one: Role, other: Role) -> bool:
    return one.device == other.device and one.requests == other.requests and one.placement == other.placement


def _role_pool(index: int, role: Role, fleet: Fleet, reach: Queue | None) -> tuple[RolePool, Places]:
    column = fleet.devices.get(role.device)
    offered = offers(fleet, role, reach) if reach is not None and reach.flavors else None
    required = reach.nodes if reach is not None else ()
    among = fleet.every
    for limit in chain(_where(role, fleet, offered), _of_queue_and_claims(role, fleet, required, offered)):
        among &= limit.nodes
    shape = frozenset(role.requests.items())
    places = _places(role, shape, fleet, among)
    nodes = places.nodes
    if offered is not None:
        now = nodes & offered.now
    else:
        now = nodes & ~held_back(fleet, role.placement) if fleet.free is not None else 0
    takes = now and now & fits(fleet, role.requests, now=True)
    return RolePool(index, role, shape, column, nodes, now, takes, places.models, required, offered), places


def _places(role: Role, shape: frozenset[tuple[str, int]], fleet: Fleet, among: Nodes) -> Places:
    """The nodes out of `among` that hold a pod of this role. Jobs ask for the same again and again."""
    asked = role.device, shape, among
    known = fleet.places.get(asked)
    if known is None:
        nodes = among
        for limit in holding(fleet, role.requests):
            nodes &= limit.nodes
        column = fleet.devices.get(role.device)
        models = _present(column.models, nodes) if column else {}
        known = Places(nodes, models, _offered(models, dict.fromkeys(models, column)) if column else {})
        # What no node offers may have a name of any length.
        if nodes:
            if len(fleet.places) >= _REMEMBERED:
                fleet.places.clear()
            fleet.places[asked] = known
    return known


def limits(role: Role, fleet: Fleet, required: Iterable[Requirement], offered: Offers | None) -> Iterator[Limit]:
    """What keeps a pod of this role off nodes, one thing after the other: what all of them leave is its pool.

    `required` and `offered` are what its queue says of the labels of nodes, and the flavors that it may give it.
    """
    yield from _where(role, fleet, offered)
    yield from holding(fleet, role.requests)
    yield from _of_queue_and_claims(role, fleet, required, offered)


def _where(role: Role, fleet: Fleet, offered: Offers | None) -> Iterator[Limit]:
    return placed(fleet, role.placement if offered is None else offered.placement)


def _of_queue_and_claims(
    role: Role, fleet: Fleet, required: Iterable[Requirement], offered: Offers | None
) -> Iterator[Limit]:
    yield from by_queue(fleet, required)
    if offered is not None:
        yield from offered.limits
    column = fleet.devices.get(role.device)
    if role.products and column is not None:
        wanted = {accelerators().canonical(name) for name in role.products}
        named = (bits for model, bits in column.models.items() if accelerators().canonical(model.product) in wanted)
        yield ByProduct(role.products, reduce(or_, named, 0))


def _union(nodes: Mapping[Model, Nodes], models: Iterable[Model]) -> Nodes:
    together = 0
    for model in models:
        together |= nodes.get(model, 0)
    return together


def _present(models: Mapping[Model, Nodes], nodes: Nodes) -> dict[Model, Nodes]:
    return {model: here for model, bits in models.items() if (here := bits & nodes)}


def _others(models: Mapping[Model, _Of], gone: frozenset[Model]) -> Mapping[Model, _Of]:
    return {model: of for model, of in models.items() if model not in gone}


def candidates(
    pool: TargetPool,
    demand: Demand,
    policy: Policy,
    *,
    gang: bool,
    promises: Iterable[Promise] = (),
    queued: Queued = NOTHING_QUEUED,
    lessons: Lessons = NO_LESSONS,
) -> tuple[Candidate, ...]:
    """The pool's candidates, weighed: memory, and, for a job with a `gang`, room for it. What is promised to others is
    not free now; what is `queued` is, since the scheduler passes over pods that it has no room for. A run that ended
    well on a model, or ran out of memory there (`lessons`), goes before all figures.

    Only ranks of a gang have anything to gain from models that count as one; to all others each model is a candidate.
    Of such models, those without the memory are candidates of their own: they would take the others down with them.
    """
    before = _Before(_promised_to_others(promises), _awaited(pool.fleet, queued))
    facts = facts_of(((model, one.memory_mib[0]) for model, one in pool.offered.items()), lessons)
    groups = likes(pool, policy) if gang else [(model,) for model in pool.models]
    apart = [one for group in groups for one in _with_memory_apart(pool, group, demand, policy, facts)]
    return tuple([_candidate(pool, models, demand, policy, gang=gang, before=before, facts=facts) for models in apart])


def together(
    pool: TargetPool,
    demand: Demand,
    policy: Policy,
    *,
    promises: Iterable[Promise] = (),
    lessons: Lessons = NO_LESSONS,
) -> Candidate:
    """All models of the pool as one candidate for a gang: what a job that may land on any of them has."""
    before = _Before(_promised_to_others(promises), {})
    facts = facts_of(((model, one.memory_mib[0]) for model, one in pool.offered.items()), lessons)
    return _candidate(pool, tuple(pool.models), demand, policy, gang=True, before=before, facts=facts)


@frozen
class _Before:
    """Devices that others have before us: `promised`, by resource and by the products of which they will be, and
    `awaited` by pods without a node, by resource and product."""

    promised: Mapping[tuple[str, tuple[str, ...]], int]
    awaited: Mapping[tuple[str, str], int]


def _promised_to_others(promises: Iterable[Promise]) -> dict[tuple[str, tuple[str, ...]], int]:
    taken: dict[tuple[str, tuple[str, ...]], int] = {}
    for one in promises:
        key = one.resource, one.products
        taken[key] = taken.get(key, 0) + one.devices * one.pods
    return taken


def likes(pool: TargetPool, policy: Policy) -> Sequence[tuple[Model, ...]]:
    """The pool's models in groups, each of which counts as one."""
    if len(pool.models) < 2 or not may_join(policy):
        return [(model,) for model in pool.models]
    return joined(tuple(Member(model, one.memory_mib[0]) for model, one in pool.offered.items()), policy)


def _with_memory_apart(
    pool: TargetPool, group: tuple[Model, ...], demand: Demand, policy: Policy, facts: Facts
) -> Iterable[tuple[Model, ...]]:
    if len(group) == 1:
        return (group,)
    fitting = tuple(one for one in group if lacks(*_held(pool, one, policy, facts), demand) is None)
    return (*((fitting,) if fitting else ()), *((one,) for one in group if one not in fitting))


def _held(pool: TargetPool, model: Model, policy: Policy, facts: Facts) -> Held:
    return pool.offered[model].memory_mib[0] - policy.reserve_mib, facts.get(model) if facts else None


def _awaited(fleet: Fleet, queued: Queued) -> dict[tuple[str, str], int]:
    """The devices that pods wait for, by resource and product."""
    found: dict[tuple[str, str], int] = {}
    for (resource, label, value), devices in queued.items():
        if resource in fleet.devices and label in fleet.labels:
            named = fleet.labels[label].equal(value)
            for model, nodes in fleet.devices[resource].models.items():
                if nodes & named:
                    found[resource, model.product] = found.get((resource, model.product), 0) + devices
    return found


def told(pool: TargetPool, weighed: tuple[Candidate, ...]) -> Pool:
    """The pool as plain figures, for messages and JSON."""
    return Pool(
        candidates=weighed,
        nodes=pool.nodes.bit_count(),
        unknown_nodes=pool.unknown.bit_count(),
        two_model_nodes=pool.two_models.bit_count(),
        share_nodes=pool.shares.bit_count(),
    )


def _candidate(
    pool: TargetPool,
    models: tuple[Model, ...],
    demand: Demand,
    policy: Policy,
    *,
    gang: bool,
    before: _Before,
    facts: Facts,
) -> Candidate:
    offered = [pool.offered[model] for model in models]
    memory = min([one.memory_mib[0] for one in offered])
    held = weigh([_held(pool, model, policy, facts) for model in models], demand, policy.headroom_percent)
    short = _short(pool, models) if gang else None
    out = held.out if short is None else (*held.out, short.reason)
    free = free_now(pool, models)
    promised = 0 if free is None else _promised(pool, models, before.promised)
    awaited = 0 if free is None else _awaited_of(pool, models, before.awaited)
    return Candidate(
        model=models[0],
        also=models[1:],
        nodes=pool.of(models).bit_count(),
        memory_mib=memory,
        usable_mib=memory - policy.reserve_mib,
        devices=sum([one.devices for one in offered]),
        devices_now=None if free is None else max(free - promised, 0),
        left_now=None if free is None else free - promised - awaited,
        waits=gang and not out and free is not None and waits(pool, models, promised),
        out=out,
        short_role=short.role if short else "",
        pods=short.pods if short else 0,
        unlikely=held.unlikely,
        risk=held.risk,
        fits=held.fits,
        against=held.against,
        ran_out=held.ran_out,
        doubt=held.doubt,
    )


def _promised(pool: TargetPool, models: tuple[Model, ...], taken: Mapping[tuple[str, tuple[str, ...]], int]) -> int:
    """What is promised of several models counts whole for each of them: on which of them it will be is not known yet,
    and a job that goes elsewhere for a minute loses less than two that wait for the same devices."""
    if not taken:
        return 0
    wanted = {(pool.offered[model].column.resource, model.product) for model in models}
    return sum(
        devices
        for (resource, products), devices in taken.items()
        if any((resource, product) in wanted for product in products)
    )


def _awaited_of(pool: TargetPool, models: tuple[Model, ...], awaited: Mapping[tuple[str, str], int]) -> int:
    if not awaited:
        return 0
    return sum([awaited.get((pool.offered[one].column.resource, one.product), 0) for one in models])


def free_now(pool: TargetPool, models: tuple[Model, ...]) -> int | None:
    """Their devices that no pod has asked for; None where the pods are not in view."""
    if pool.fleet.free is None:
        return None
    free = 0
    for model in models:
        free += free_devices(pool.fleet, pool.offered[model].column.resource, pool.models[model] & pool.now) or 0
    return free


@frozen
class Short:
    """The gang is not to be had: a role, and how many of the pods of its shape could be placed."""

    reason: Out
    role: str
    pods: int


def _short(pool: TargetPool, models: tuple[Model, ...]) -> Short | None:
    """Why the gang cannot be there on these models, by bounds that no packing can beat; None where they hold."""
    nodes = pool.of_roles(models)
    for one in pool.roles:
        if one.role.gang and not nodes[one.index]:
            return Short(Out.UNREACHABLE, one.role.name, 0)
    return short_of_room(pool, nodes) or _short_of_flavors(pool, nodes)


def _has_one_each(pool: TargetPool, nodes: Mapping[int, Nodes], promised: int = 0) -> bool:
    """Whether all pods of the gang, and others that so many devices are promised to, can have a node each: then there
    is room for them whatever they ask for, since every node holds one."""
    return min(map(int.bit_count, nodes.values())) >= pool.gang + promised


def _short_of_flavors(pool: TargetPool, nodes: Mapping[int, Nodes]) -> Short | None:
    """Whether no flavor alone has the quota and the room for a role's gang, or all of them together not for all roles'
    devices: Kueue gives all pods of a role the same flavor."""
    queued = [(one, one.offers) for one in pool.roles if one.offers is not None and one.role.gang]
    if not queued:
        return None
    for one, offered in queued:
        gang = one.role.gang
        quota = room = 0
        for offer in offered.flavors:
            if here := offer.nodes & nodes[one.index]:
                holds = gang if offer.pods is None else min(offer.pods, gang)
                quota = max(quota, holds)
                room = max(room, min(holds, pods_held(pool.fleet, one.role.requests, here, gang)))
        if room < gang:
            return Short(Out.QUOTA if quota < gang else Out.ROOM, one.role.name, room)
    if len(pool.roles) == 1:
        return None
    for resource, (wanted, _) in _devices(pool, nodes).items():
        limits = {
            offer.flavor.name: offer.flavor.quota.get(resource) if offer.flavor.quota is not None else None
            for one, offered in queued
            if one.role.device == resource
            for offer in offered.flavors
            if offer.nodes & nodes[one.index]
        }
        bounds = [limit for limit in limits.values() if limit is not None]
        if bounds and len(bounds) == len(limits) and sum(bounds) < wanted:
            role = next(one.role for one in pool.roles if one.role.device == resource)
            return Short(Out.QUOTA, role.name, min(sum(bounds) // role.devices, role.gang))
    return None


def waits(pool: TargetPool, models: tuple[Model, ...], promised: int = 0) -> bool:
    """Whether the gang does not fit into what is free now, less so many devices that are promised to others."""
    there = pool.of_roles(models)
    nodes = {one.index: there[one.index] & one.takes for one in pool.roles}
    if _has_one_each(pool, nodes, promised):
        return False
    for resource, (wanted, among) in _devices(pool, nodes).items():
        free = free_devices(pool.fleet, resource, among)
        if free is not None and wanted + promised > free:
            return True
    for role, ask in _asks(pool, nodes):
        wanted = ask.pods + -(-promised // role.devices)
        held = ask.nodes.bit_count()
        if held < wanted and pods_up_to(pool.fleet, ask.requests, ask.nodes, wanted, now=True) < wanted:
            return True
    return False


def short_of_room(pool: TargetPool, nodes: Mapping[int, Nodes]) -> Short | None:
    """Whether these nodes (by role index) lack room for the gang: each shape of pod alone, and devices in all."""
    if _has_one_each(pool, nodes):
        return None
    asks = _asks(pool, nodes)
    for role, ask in asks:
        held = pods_held(pool.fleet, ask.requests, ask.nodes, ask.pods)
        if held < ask.pods:
            return Short(Out.ROOM, role.name, held)
    if len(asks) == 1:
        return None
    for resource, (wanted, among) in _devices(pool, nodes).items():
        column = pool.fleet.devices.get(resource)
        if column is not None and wanted > column.there.total(among):
            return Short(Out.ROOM, next(one.role.name for one in pool.roles if one.role.device == resource), 0)
    return None


def pods_held(fleet: Fleet, requests: Mapping[str, int], nodes: Nodes, enough: int) -> int:
    """How many such pods these nodes hold, exact below `enough`; each of them holds one."""
    # Where there are as many nodes as pods, there is nothing to count.
    held = nodes.bit_count()
    return held if held >= enough else pods_up_to(fleet, requests, nodes, enough)


def _devices(pool: TargetPool, nodes: Mapping[int, Nodes]) -> dict[str, tuple[int, Nodes]]:
    """By device: how many all roles together want at once, and the nodes on which they may be."""
    asked: dict[str, tuple[int, Nodes]] = {}
    for one in pool.roles:
        wanted, among = asked.get(one.role.device, (0, 0))
        asked[one.role.device] = wanted + one.role.gang * one.role.devices, among | nodes[one.index]
    return asked


def packs(pool: TargetPool, models: tuple[Model, ...]) -> bool:
    """Whether first fit finds places for the whole gang on these models; one shape of pod alone needs no packing."""
    nodes = pool.of_roles(models)
    if _has_one_each(pool, nodes):
        return True
    asks = _asks(pool, nodes)
    return len(asks) == 1 or first_fit(pool.fleet, (ask for _, ask in asks))


def _asks(pool: TargetPool, nodes: Mapping[int, Nodes]) -> list[tuple[Role, Ask]]:
    """Roles whose pods ask for the same on the same nodes are one to room, told by the first of them."""
    alike: dict[tuple[Nodes, frozenset[tuple[str, int]]], list[Role]] = {}
    for one in pool.roles:
        alike.setdefault((nodes[one.index], one.shape), []).append(one.role)
    return [
        (roles[0], Ask(roles[0].requests, bits, sum(role.gang for role in roles))) for (bits, _), roles in alike.items()
    ]
