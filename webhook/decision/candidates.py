"""The candidates of a target pool: what each model there offers, and what of it is for others."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from webhook.decision.gang import short_of, waits
from webhook.decision.likeness import Member, joined, may_join
from webhook.decision.memory import Facts, Held, facts_of, lacks, weigh
from webhook.decision.pool import TargetPool
from webhook.fleet.room import free_devices
from webhook.model.demand import Demand
from webhook.model.fleet import Fleet, Model
from webhook.model.frozen import frozen
from webhook.model.pods import Promise, Queued
from webhook.model.policy import Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.model.verdict import Candidate, Pool

NOTHING_QUEUED: Queued = MappingProxyType({})


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
    facts = facts_of(pool.offered, lessons)
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
    facts = facts_of(pool.offered, lessons)
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
    short = short_of(pool, models) if gang else None
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
