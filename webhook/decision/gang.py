"""Whether a gang has room on some models of its target pool: by bounds that no packing can beat, and by packing."""

from collections.abc import Mapping

from webhook.decision.pool import TargetPool
from webhook.fleet.packing import Ask, first_fit
from webhook.fleet.room import free_devices, pods_up_to
from webhook.model.fleet import Fleet, Model, Nodes
from webhook.model.frozen import frozen
from webhook.model.job import Role
from webhook.model.verdict import Out


@frozen
class Short:
    """The gang is not to be had: a role, and how many of the pods of its shape could be placed."""

    reason: Out
    role: str
    pods: int


def short_of(pool: TargetPool, models: tuple[Model, ...]) -> Short | None:
    """Why the gang cannot be there on these models, by bounds that no packing can beat; None where they hold."""
    nodes = pool.of_roles(models)
    for one in pool.roles:
        if one.role.gang and not nodes[one.index]:
            return Short(Out.UNREACHABLE, one.role.name, 0)
    return short_of_room(pool, nodes) or short_of_flavors(pool, nodes)


def _has_one_each(pool: TargetPool, nodes: Mapping[int, Nodes], promised: int = 0) -> bool:
    """Whether all pods of the gang, and others that so many devices are promised to, can have a node each: then there
    is room for them whatever they ask for, since every node holds one."""
    return min(map(int.bit_count, nodes.values())) >= pool.gang + promised


def short_of_flavors(pool: TargetPool, nodes: Mapping[int, Nodes]) -> Short | None:
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
