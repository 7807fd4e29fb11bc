"""The target pool of a job: which nodes its device roles may land on, and what each model there offers.

The pool is *there*: existing nodes whatever their passing state. What is free *now* is a figure beside it, where the
pods are in view.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from webhook.catalog.accelerators import accelerators
from webhook.fleet.flavors import Offers, offers
from webhook.fleet.packing import Ask, first_fit
from webhook.fleet.room import fits, free_devices, pods_up_to
from webhook.fleet.select import held_back, meeting, reachable
from webhook.model.demand import Demand
from webhook.model.fleet import DeviceColumn, Fleet, Model, Nodes
from webhook.model.job import Role, TrainingJob
from webhook.model.pods import Promise
from webhook.model.policy import Policy
from webhook.model.queues import Queue
from webhook.model.verdict import Candidate, Out, Pool


@dataclass(frozen=True, slots=True)
class RolePool:
    """One device role: the nodes of the fleet on which a pod of it may land, and those of each model among them.

    `index` is its place in the job; `shape` is what a pod of it asks for, as a key. `now` are those of its nodes whose
    passing state keeps no pod out, and `takes` those of them that can take one now, where what is free is known.
    `offers` are the flavors that its queue may give it; None: it is in none that has flavors for it.
    """

    index: int
    role: Role
    shape: frozenset[tuple[str, int]]
    column: DeviceColumn | None
    nodes: Nodes
    now: Nodes
    takes: Nodes
    models: Mapping[Model, Nodes]
    offers: Offers | None = None

    def without(self, models: frozenset[Model], gone: Nodes) -> "RolePool":
        left = self.offers and self.offers.without(gone)
        return replace(self, nodes=self.nodes & ~gone, models=_others(self.models, models), offers=left)


@dataclass(frozen=True, slots=True)
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

    def of(self, models: Iterable[Model]) -> Nodes:
        """The nodes of these models that some role may land on."""
        return reduce(or_, (self.models[model] for model in models), 0)

    def without(self, models: frozenset[Model]) -> "TargetPool":
        """The pool as if these models were not there."""
        gone = self.of(models)
        return replace(
            self,
            roles=tuple(pool.without(models, gone) for pool in self.roles),
            nodes=self.nodes & ~gone,
            models=_others(self.models, models),
        )


def target_pool(job: TrainingJob, fleet: Fleet) -> TargetPool:
    """Selectors, affinity, tolerations and resources of each device role, by Kubernetes' own rules, and the job's queue
    by those of its controller."""
    roles: list[RolePool] = []
    different: list[RolePool] = []
    for index, role in enumerate(job.roles):
        if role.devices:
            # Most jobs have one template, or the same one for a master and its workers.
            alike = next((one for one in different if _alike(one.role, role)), None)
            if alike is None:
                different.append(_role_pool(index, role, fleet, job.reach))
            roles.append(replace(alike, index=index, role=role) if alike else different[-1])
    nodes = now = unknown = two_models = shares = 0
    models: dict[Model, Nodes] = {}
    for pool in different:
        nodes |= pool.nodes
        now |= pool.now
        if pool.column is not None:
            unknown |= pool.nodes & pool.column.unknown
            two_models |= pool.nodes & pool.column.two_models
            shares |= pool.nodes & pool.column.shares
        for model, bits in pool.models.items():
            models[model] = models.get(model, 0) | bits
    ordered = dict(sorted(models.items(), key=lambda one: one[0].product))
    return TargetPool(fleet, tuple(roles), nodes, now, unknown, two_models, shares, ordered)


def _alike(one: Role, other: Role) -> bool:
    return one.device == other.device and one.requests == other.requests and one.placement == other.placement


def _role_pool(index: int, role: Role, fleet: Fleet, reach: Queue | None) -> RolePool:
    column = fleet.devices.get(role.device)
    offered = offers(fleet, role, reach) if reach is not None and reach.flavors else None
    if offered is not None:
        nodes = offered.nodes
    else:
        nodes = reachable(fleet, role.placement, now=False) & fits(fleet, role.requests)
    if reach is not None:
        nodes &= meeting(fleet, reach.nodes)
    if role.products and column is not None:
        wanted = {accelerators().canonical(name) for name in role.products}
        named = (bits for model, bits in column.models.items() if accelerators().canonical(model.product) in wanted)
        nodes &= reduce(or_, named, 0)
    models = {model: here for model, bits in column.models.items() if (here := bits & nodes)} if column else {}
    if offered is not None:
        now = nodes & offered.now
    else:
        now = nodes & ~held_back(fleet, role.placement) if fleet.free is not None else 0
    takes = now and now & fits(fleet, role.requests, now=True)
    return RolePool(index, role, frozenset(role.requests.items()), column, nodes, now, takes, models, offered)


def _others(models: Mapping[Model, Nodes], gone: frozenset[Model]) -> Mapping[Model, Nodes]:
    return {model: bits for model, bits in models.items() if model not in gone}


def candidates(
    pool: TargetPool, demand: Demand, policy: Policy, *, gang: bool, promises: Iterable[Promise] = ()
) -> tuple[Candidate, ...]:
    """Each model of the pool, weighed: memory, and, for a job with a `gang`, room for it. What is promised to others is
    not free now."""
    taken: dict[tuple[str, str], int] = {}
    for one in promises:
        key = one.resource, one.product
        taken[key] = taken.get(key, 0) + one.devices * one.pods
    return tuple(
        _candidate(pool, model, nodes, demand, policy, gang=gang, taken=taken) for model, nodes in pool.models.items()
    )


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
    model: Model,
    nodes: Nodes,
    demand: Demand,
    policy: Policy,
    *,
    gang: bool,
    taken: Mapping[tuple[str, str], int],
) -> Candidate:
    column = next(one.column for one in pool.roles if model in one.models)
    assert column is not None
    memory, most = _memory_mib(column, model, nodes)
    usable = memory - policy.reserve_mib
    out: list[Out] = []
    if demand.low_mib is not None and demand.low_mib > usable and demand.may_deny:
        out.append(Out.MEMORY)
    # Of a bound there is only the low end.
    likely, high = demand.likely_mib or demand.low_mib, demand.high_mib or demand.low_mib
    short = _short(pool, model) if gang else None
    if short is not None:
        out.append(short.reason)
    promised = taken.get((column.resource, model.product), 0)
    free = free_devices(pool.fleet, column.resource, nodes & pool.now)
    return Candidate(
        model=model,
        nodes=nodes.bit_count(),
        memory_mib=memory,
        usable_mib=usable,
        devices=int(column.there.total(nodes)),
        devices_now=None if free is None else max(free - promised, 0),
        waits=gang and not out and free is not None and _waits(pool, model, promised),
        spread_percent=100 * (most - memory) / memory,
        out=tuple(out),
        short_role=short.role if short else "",
        pods=short.pods if short else 0,
        unlikely=likely is not None and likely > usable,
        risk=high is not None and high * (1 + policy.headroom_percent / 100) > usable,
    )


def _memory_mib(column: DeviceColumn, model: Model, nodes: Nodes) -> tuple[int, int]:
    """The least and the most that these nodes of the model report."""
    least, most = column.spans[model]
    span = column.memory.span(nodes) if least < most else (least, most)
    assert span is not None
    return span


@dataclass(frozen=True, slots=True)
class Short:
    """The gang is not to be had: a role, and how many of the pods of its shape could be placed."""

    reason: Out
    role: str
    pods: int


def _short(pool: TargetPool, model: Model) -> Short | None:
    """Why the gang cannot be there on this model, by bounds that no packing can beat; None where they hold."""
    nodes = {one.index: one.models.get(model, 0) for one in pool.roles}
    for one in pool.roles:
        if one.role.gang and not nodes[one.index]:
            return Short(Out.UNREACHABLE, one.role.name, 0)
    return short_of_room(pool, nodes) or _short_of_flavors(pool, nodes)


def _short_of_flavors(pool: TargetPool, nodes: Mapping[int, Nodes]) -> Short | None:
    """Whether no flavor alone has the quota and the room for a role's gang, or all of them together not for all roles'
    devices: Kueue gives all pods of a role the same flavor."""
    for one in pool.roles:
        gang = one.role.gang
        if one.offers is None or not gang:
            continue
        quota = room = 0
        for offer in one.offers.flavors:
            if here := offer.nodes & nodes[one.index]:
                holds = gang if offer.pods is None else min(offer.pods, gang)
                quota = max(quota, holds)
                room = max(room, min(holds, pods_up_to(pool.fleet, one.role.requests, here, gang)))
        if room < gang:
            return Short(Out.QUOTA if quota < gang else Out.ROOM, one.role.name, room)
    if len(pool.roles) == 1:
        return None
    for resource, (wanted, _) in _devices(pool, nodes).items():
        limits = {
            offer.flavor.name: offer.flavor.quota.get(resource) if offer.flavor.quota is not None else None
            for one in pool.roles
            if one.role.device == resource and one.offers is not None
            for offer in one.offers.flavors
            if offer.nodes & nodes[one.index]
        }
        bounds = [limit for limit in limits.values() if limit is not None]
        if bounds and len(bounds) == len(limits) and sum(bounds) < wanted:
            role = next(one.role for one in pool.roles if one.role.device == resource)
            return Short(Out.QUOTA, role.name, min(sum(bounds) // role.devices, role.gang))
    return None


def _waits(pool: TargetPool, model: Model, promised: int) -> bool:
    """Whether the gang does not fit into what is free now, less so many devices that are promised to others."""
    nodes = {one.index: one.models.get(model, 0) & one.takes for one in pool.roles}
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
    asks = _asks(pool, nodes)
    for role, ask in asks:
        # Each of these nodes holds one pod: where there are as many nodes as pods, there is nothing to count.
        held = ask.nodes.bit_count()
        if held < ask.pods:
            held = pods_up_to(pool.fleet, ask.requests, ask.nodes, ask.pods)
        if held < ask.pods:
            return Short(Out.ROOM, role.name, held)
    if len(asks) == 1:
        return None
    for resource, (wanted, among) in _devices(pool, nodes).items():
        column = pool.fleet.devices.get(resource)
        if column is not None and wanted > column.there.total(among):
            return Short(Out.ROOM, next(one.role.name for one in pool.roles if one.role.device == resource), 0)
    return None


def _devices(pool: TargetPool, nodes: Mapping[int, Nodes]) -> dict[str, tuple[int, Nodes]]:
    """By device: how many all roles together want at once, and the nodes on which they may be."""
    asked: dict[str, tuple[int, Nodes]] = {}
    for one in pool.roles:
        wanted, among = asked.get(one.role.device, (0, 0))
        asked[one.role.device] = wanted + one.role.gang * one.role.devices, among | nodes[one.index]
    return asked


def packs(pool: TargetPool, model: Model) -> bool:
    """Whether first fit finds places for the whole gang on this model; one shape of pod alone needs no packing."""
    asks = _asks(pool, {one.index: one.models.get(model, 0) for one in pool.roles})
    return len(asks) == 1 or first_fit(pool.fleet, (ask for _, ask in asks))


def _asks(pool: TargetPool, nodes: Mapping[int, Nodes]) -> list[tuple[Role, Ask]]:
    """Roles whose pods ask for the same on the same nodes are one to room, told by the first of them."""
    alike: dict[tuple[Nodes, frozenset[tuple[str, int]]], list[Role]] = {}
    for one in pool.roles:
        alike.setdefault((nodes[one.index], one.shape), []).append(one.role)
    return [
        (roles[0], Ask(roles[0].requests, bits, sum(role.gang for role in roles))) for (bits, _), roles in alike.items()
    ]
