"""The target pool of a job: which nodes its device roles may land on, and which of them have which model.

The pool is *there*: existing nodes whatever their passing state. What is free *now* is a figure beside it, where the
pods are in view.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import TypeVar

from webhook.catalog.accelerators import accelerators
from webhook.fleet.flavors import Offers, offers
from webhook.fleet.limits import ByProduct, Limit
from webhook.fleet.room import fits, holding
from webhook.fleet.select import by_queue, held_back, placed
from webhook.model.fleet import DeviceColumn, Fleet, Model, Nodes, Offered, Places
from webhook.model.frozen import frozen
from webhook.model.job import Role, TrainingJob
from webhook.model.placement import Requirement
from webhook.model.queues import Queue

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
    """Whether pods of both may land on the same nodes."""
    asks = one.device == other.device and one.requests == other.requests and one.products == other.products
    return asks and one.placement == other.placement


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
