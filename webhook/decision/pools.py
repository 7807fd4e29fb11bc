"""A pool of the platform team's and one job: what the job lacks to be in it, and how it reads once it has that.

Nothing that a job says is overwritten. A job whose own selectors contradict the pool's cannot be in it.
"""

from dataclasses import replace
from enum import StrEnum

from webhook.catalog.queues import system_of
from webhook.decision.pin import also_requiring, by_selector, requires
from webhook.fleet.select import labelled
from webhook.model.fleet import Fleet, Nodes
from webhook.model.job import Role, TrainingJob
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.queues import QueueName
from webhook.model.rules import AcceleratorPool
from webhook.model.verdict import Addition, Given


class Obstacle(StrEnum):
    """Why a job cannot be put into a pool. SELECTORS: its own contradict the pool's. FIELDS: what the pool takes cannot
    be written into an object of its kind."""

    SELECTORS = "selectors"
    FIELDS = "fields"


def lacking(job: TrainingJob, pool: AcceleratorPool, *, created: bool) -> Given:
    """What the job has to get so that it is in the pool. A scheduler and a queue are for those that are `created`: no
    API server takes another scheduler later, and a queue holds what it was given."""
    added = ((index, _addition(role, pool, created=created)) for index, role in enumerate(job.roles) if role.decided)
    given = Given(pool.name, tuple((index, one) for index, one in added if any(one)))
    if not created or not pool.queue or (job.queue is not None and job.queue.name):
        return given
    scheduler = next((role.placement.scheduler for role in job.device_roles), "") or pool.scheduler
    queue = QueueName(system_of(scheduler, job.kind.group).system, pool.queue)
    return replace(given, queue=queue, slots=tuple(job.queue_slots(scheduler)))


def inside(job: TrainingJob, given: Given) -> TrainingJob:
    """The job as it reads with all of it."""
    roles = list(job.roles)
    for index, one in given.additions:
        roles[index] = _with(roles[index], one)
    return job if given.lacks_nothing else replace(job, roles=tuple(roles), queue=given.queue or job.queue)


def obstacle(job: TrainingJob, pool: AcceleratorPool, given: Given) -> Obstacle | None:
    """What keeps the job from being put into the pool; None where nothing does."""
    if not all(map(_well_formed, pool.nodes)):
        return Obstacle.SELECTORS
    # With what it gets as well: a pool may contradict itself.
    if any(_contradicts(role, one) for role in inside(job, given).device_roles for one in pool.nodes):
        return Obstacle.SELECTORS
    writable = all(_writable(job.roles[index], one) for index, one in given.additions)
    return None if writable and (given.slots or given.queue is None) else Obstacle.FIELDS


def nodes_of(pool: AcceleratorPool, fleet: Fleet) -> Nodes:
    """The nodes of the fleet that are in the pool."""
    nodes = fleet.every
    for one in pool.nodes:
        nodes &= labelled(fleet, one)
    return nodes


def may_grow(pool: AcceleratorPool, job: TrainingJob, fleet: Fleet) -> bool:
    """Whether the pool may have more of the job's devices one day than are there."""
    if pool.most is None:
        return False
    columns = [fleet.devices[name] for name in {role.device for role in job.device_roles} if name in fleet.devices]
    nodes = nodes_of(pool, fleet)
    return pool.most > sum(column.there.total(nodes) for column in columns)


def _addition(role: Role, pool: AcceleratorPool, *, created: bool) -> Addition:
    place = role.placement
    selector, expressions = [], []
    for one in pool.nodes:
        if not _requires(role, one):
            if one.operator is Operator.IN and by_selector(role, one.key, one.values):
                selector.append((one.key, one.values[0]))
            else:
                expressions.append(one)
    if place.terms is not None and all(term.empty for term in place.terms):
        expressions = []  # Such affinity matches no node, with an expression in it or without.
    tolerations = (one for one in pool.tolerations if not any(_covers(there, one) for there in place.tolerations))
    scheduler = pool.scheduler if created and not place.scheduler else ""
    return Addition(tuple(selector), tuple(expressions), tuple(dict.fromkeys(tolerations)), scheduler)


def _requires(role: Role, one: Requirement) -> bool:
    """Whether the role's own selectors already demand it."""
    if one.operator is Operator.IN:
        return requires(role, one.key, one.values)
    if one.operator is Operator.EXISTS and one.key in dict(role.placement.node_selector):
        return True
    terms = [term for term in role.placement.terms or () if not term.empty]
    return bool(terms) and all(one in term.expressions for term in terms)


def _with(role: Role, added: Addition) -> Role:
    for one in (*(Requirement(key, Operator.IN, (value,)) for key, value in added.selector), *added.expressions):
        role = also_requiring(role, one, in_selector=one not in added.expressions)
    place = role.placement
    return replace(
        role,
        placement=replace(
            place,
            tolerations=(*place.tolerations, *added.tolerations),
            scheduler=added.scheduler or place.scheduler,
        ),
    )


def _contradicts(role: Role, one: Requirement) -> bool:
    """Whether a nodeSelector of the role's own leaves none of the nodes that meet the requirement."""
    own = dict(role.placement.node_selector).get(one.key)
    match one.operator:
        case Operator.IN:
            return own is not None and own not in one.values
        case Operator.NOT_IN:
            return own in one.values
        case Operator.DOES_NOT_EXIST:
            return own is not None
        case _:
            return False


def _writable(role: Role, added: Addition) -> bool:
    """Whether all of it can be written where the pod template stands in another object."""
    over = role.overlay
    if over is None:
        return True
    takes = (over.takes_selector, over.takes_affinity, over.takes_tolerations, False)
    return all(can for can, what in zip(takes, added, strict=True) if what)


def _well_formed(one: Requirement) -> bool:
    """What no API server takes, no job is given."""
    if one.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return not one.values
    return one.operator in (Operator.IN, Operator.NOT_IN) and bool(one.values)


def _covers(there: Toleration, wanted: Toleration) -> bool:
    """Whether what `wanted` tolerates is tolerated already."""
    if there.effect not in ("", wanted.effect) or there.seconds is not None:
        return there == wanted
    if there.operator == "Exists":
        return there.key in ("", wanted.key)
    return (there.key, there.operator, there.value) == (wanted.key, wanted.operator, wanted.value)
