"""Ways out of a denial: changes of the object that were decided again and admitted.

Nothing here is promised from a formula: each proposal is applied to the object, and the result goes through the whole
review. What would be denied is not suggested.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import jsonpatch

from webhook.model.demand import Demand, DemandSource
from webhook.model.fleet import Fleet
from webhook.model.job import Edit, Role, TrainingJob, writes
from webhook.model.patch import Operation, add, replace
from webhook.model.paths import within
from webhook.model.policy import Policy
from webhook.model.request import Object
from webhook.model.verdict import Candidate, Out, Review, Suggestion, Verdict
from webhook.sizing.demand import size
from webhook.sizing.largest import largest

_MOST = 3
_MOST_TRIES = 12
_MOST_DIVISORS = 1000
_PER_DEVICE = "samestep.dev/memory-per-device"

_Proposal = tuple[str, dict[str, str | int], tuple[Operation, ...]]


def suggest(denied: Review, fleet: Fleet, again: Callable[[Object], Review]) -> tuple[Suggestion, ...]:
    """At most three changes, the smallest first. `again` reviews a changed object without asking for suggestions."""
    found: dict[str, Suggestion] = {}
    for kind, facts, operations in islice(_proposals(denied, fleet), _MOST_TRIES):
        if kind in found:
            # One way of each kind, the first that holds: three times "a smaller batch" helps nobody.
            continue
        try:
            changed = jsonpatch.apply_patch(denied.request.object, operations)
        except RecursionError:  # nested deeper than jsonpatch can copy: denied all the same, without a way out
            break
        outcome = again(changed)
        if outcome.verdict is not Verdict.DENY and outcome.decision.models:
            found[kind] = Suggestion(kind, outcome.decision.models[0], facts, operations)
        if len(found) == _MOST:
            break
    return tuple(found.values())


def _proposals(denied: Review, fleet: Fleet) -> Iterator[_Proposal]:
    job = denied.job
    if job is None:
        return
    by_memory = sorted(denied.decision.pool.candidates, key=lambda one: (-one.usable_mib, one.model.name))

    @cache
    def need(batch: int) -> Demand:
        return size(job, denied.policy, batch).demand

    for one in by_memory:
        if one.out == (Out.MEMORY,):
            yield from _smaller_batch(job, one, denied, need)
    for one in by_memory:
        if one.out in ((Out.ROOM,), (Out.QUOTA,)):
            yield from _fewer_pods(job, one)
    yield from _another_model(job, fleet)
    for one in by_memory:
        if one.out == (Out.MEMORY,):
            yield from _measured(job, one, denied)


def _smaller_batch(
    job: TrainingJob, one: Candidate, denied: Review, need: Callable[[int], Demand]
) -> Iterator[_Proposal]:
    """The largest micro-batch that fits and divides the present one, so that accumulation keeps the global batch."""
    batch = denied.micro_batch
    if batch is None or not batch.certain or batch.edit is None or batch.edit.path is None:
        return
    times = _times(batch.value, need, one, denied.policy)
    if times is None:
        return
    edit, value = batch.edit, batch.value // times
    facts: dict[str, str | int] = {"change": _spelled(edit, value)}
    accumulation = job.batch.accumulation_edit
    if job.batch.total is not None:
        yield "batch_total", facts, _operations(((edit, value),))
    elif accumulation is not None and accumulation.path is not None:
        total = times * (job.batch.accumulation.value if job.batch.accumulation else 1)
        facts["accumulation"] = _spelled(accumulation, total)
        yield "batch", facts, _operations(((edit, value), (accumulation, total)))
    else:
        yield "batch_alone", facts, _operations(((edit, value),))


def _times(batch: int, need: Callable[[int], Demand], one: Candidate, policy: Policy) -> int | None:
    """The least divisor of the batch by which it fits this model: at the high end with headroom, else at the low."""
    most = one.usable_mib / (1 + policy.headroom_percent / 100)
    comfortable = largest(lambda smaller: _at_most(need(smaller).high_mib, most), batch - 1)
    # What fits at the high end fits at the low.
    fitting = comfortable or largest(lambda smaller: _at_most(need(smaller).low_mib, one.usable_mib), batch - 1)
    divisors = [k for k in range(2, min(batch, _MOST_DIVISORS) + 1) if batch % k == 0]
    return next((k for k in divisors if batch // k <= fitting), None)


def _at_most(mib: float | None, limit: float) -> bool:
    return mib is not None and mib <= limit


def _fewer_pods(job: TrainingJob, one: Candidate) -> Iterator[_Proposal]:
    """As many pods of the role that has most as there is room for."""
    roles = [role for role in job.device_roles if role.replicas and role.replicas.path is not None and role.gang]
    for role in sorted(roles, key=lambda role: -role.gang):
        alike = sum(other.gang for other in job.device_roles if other.requests == role.requests)
        value = role.pods - (alike - one.pods)
        if role.replicas is None or not 0 <= value < role.pods:
            continue
        devices = sum(other.pods * other.devices for other in job.device_roles)
        left = devices - (role.pods - value) * role.devices
        if not left:
            continue
        change = _spelled(role.replicas, value)
        if len(job.device_roles) > 1:
            change = f"{role.name} {change}"
        facts: dict[str, str | int] = {"change": change, "devices": left, "percent": round(100 * left / devices)}
        yield ("replicas_half" if 2 * left == devices else "replicas"), facts, _operations(((role.replicas, value),))
        return


def _another_model(job: TrainingJob, fleet: Fleet) -> Iterator[_Proposal]:
    """Where the job's own nodeSelector names a model: the others of the fleet, largest memory first."""
    named = [(role, key, value) for role in job.device_roles for key, value in _model_selectors(role, fleet)]
    if not named:
        return
    role, key, present = named[0]
    column = fleet.devices[role.device]
    models = sorted(column.models, key=lambda model: -(column.memory.least(column.models[model]) or 0))
    for model in models:
        for value, bits in fleet.labels[key].items():
            if value != present and bits & column.models[model]:
                operations = tuple(
                    replace((*other.spec, "nodeSelector", other_key), value)
                    for other, other_key, _ in named
                    if other_key == key
                )
                yield "model", {"key": key, "value": value}, operations
                break


def _model_selectors(role: Role, fleet: Fleet) -> Iterator[tuple[str, str]]:
    if not within(role.spec):
        return
    column = fleet.devices.get(role.device)
    keys = fleet.labels.keys() & column.product_keys if column else frozenset()
    yield from ((key, value) for key, value in role.placement.node_selector if key in keys)


def _spelled(edit: Edit, value: int) -> str:
    """The change as a person makes it, with every number that has to follow."""
    numbers = [(edit, value), *((other, (value + other.plus) * other.times) for other in edit.also)]
    return ", ".join(dict.fromkeys(f"{one.flag}{one.sign}{number}" for one, number in numbers))


def _measured(job: TrainingJob, one: Candidate, denied: Review) -> Iterator[_Proposal]:
    """An estimate gives way to a measurement."""
    gibibytes = int(one.usable_mib / (1 + denied.policy.headroom_percent / 100) / 1024)
    if denied.demand.source is not DemandSource.ESTIMATED or gibibytes < 1:
        return
    value = f"{gibibytes}Gi"
    path = ("metadata", "annotations")
    write = add((*path, _PER_DEVICE), value) if job.annotations_are_a_map else add(path, {_PER_DEVICE: value})
    yield "measured", {"key": _PER_DEVICE, "value": value}, (write,)


def _operations(changes: tuple[tuple[Edit, int], ...]) -> tuple[Operation, ...]:
    return tuple(
        add(write.path, write.value) if write.adds else replace(write.path, write.value) for write in writes(changes)
    )
