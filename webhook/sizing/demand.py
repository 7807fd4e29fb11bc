"""From what is known of a job to the demand of one rank.

Each source is asked in its order, best first, and the first that gives a figure counts, as DemandSource says.
Facts of earlier runs are no figures: they go before all of these, where candidates are weighed.
"""

from collections.abc import Callable
from dataclasses import replace
from math import floor

from webhook.catalog.accelerators import accelerators
from webhook.model.demand import UNKNOWN_DEMAND, Demand, DemandPart, DemandSource, bound
from webhook.model.finding import Phrase
from webhook.model.frozen import frozen
from webhook.model.job import Reading, TrainingJob
from webhook.model.policy import Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.sizing.from_job import Sizable, Unsizable, bound_of, training_of
from webhook.sizing.table import entry_for


@frozen
class Sized:
    """The demand, the micro-batch it was computed with (None where none was needed or known), and, where the demand is
    not known, what is `missing`: the annotation that would settle it."""

    demand: Demand
    micro_batch: Reading | None
    missing: str = ""


def size(job: TrainingJob, policy: Policy, micro_batch: int | None = None, lessons: Lessons = NO_LESSONS) -> Sized:
    """The memory that each rank of `job` needs, in MiB; with another micro-batch than the job's where one is given.
    `lessons` are of the job as it is: what earlier runs showed counts for no other micro-batch.

    A micro-batch read from a flag that some programs take for the whole job (`--batch-size`) gives an interval: at
    least its share of one rank, at most all of it.
    """
    batch = _micro_batch(job, policy)
    if batch is not None and micro_batch is not None:
        batch = replace(batch, value=micro_batch)
    missing = ""
    seen = lessons.demand if micro_batch is None else None
    for source in _SOURCES:
        found = source(job, policy, batch, seen)
        if isinstance(found, Demand):
            capped = _capped(found, job, policy)
            return Sized(capped, batch, missing if capped.known else missing or "samestep.dev/memory-per-device")
        missing = missing or found
    return Sized(_capped(UNKNOWN_DEMAND, job, policy), batch, missing or "samestep.dev/memory-per-device")


def sized_for_mib(said: str | float) -> float | None:
    """The memory, in MiB as a device reports it, that `samestep.dev/sized-for` stands for; None for a model of which
    the catalog has none."""
    if not isinstance(said, str):
        return said
    known = accelerators().product(said)
    return known.memory_mib if known else None


def _capped(demand: Demand, job: TrainingJob, policy: Policy) -> Demand:
    """The demand of a batch that was tuned on a device is no more than that device takes without a risk.

    Smaller devices are a risk then and never out, whatever else was read: a figure above the cap was wrong, and must
    not do better than one just below it.
    """
    said = job.wishes.sized_for if policy.model else None
    memory = None if said is None else sized_for_mib(said)
    if memory is None:
        return demand
    most = float(max(floor((memory - policy.reserve_mib) / (1 + policy.headroom_percent / 100)), 0))
    low, likely, high = (
        None if mib is None else min(mib, most) for mib in (demand.low_mib, demand.likely_mib, demand.high_mib)
    )
    # What is capped altogether says no more than the cap.
    source = demand.source if demand.known and (low or 0) < most else DemandSource.SIZED_FOR
    of = f"{said} ({memory / 1024:.1f} GiB)" if isinstance(said, str) else f"{memory / 1024:.1f} GiB"
    assumptions = (*demand.assumptions, Phrase("sized_for", {"of": of}))
    return Demand(low, likely, most if high is None else high, source, may_deny=False, assumptions=assumptions)


def parts_of(job: TrainingJob, policy: Policy, demand: Demand, batch: Reading | None) -> tuple[DemandPart, ...]:
    """What the `demand` that `size` found with this micro-batch is made of; nothing where it is one figure, or where a
    part of it was capped."""
    if job.wishes.sized_for is not None and policy.model:
        return ()
    if demand.source is DemandSource.ESTIMATED and batch is not None:
        found = training_of(job, batch.value)
        parts = found.estimate().parts if isinstance(found, Sizable) else ()
        return tuple(DemandPart(one.name.value, one.low_mib, one.likely_mib, one.high_mib) for one in parts)
    if demand.source is DemandSource.DECLARED and job.declared.per_device_mib is None:
        fixed, each = job.declared.fixed_mib or 0, job.declared.per_sample_mib or 0
    elif demand.source is DemandSource.TABLED and (place := entry_for(job, policy.tabled)) is not None:
        fixed, each = policy.tabled[place].fixed_mib, policy.tabled[place].per_sample_mib or 0
    else:
        return ()
    samples = _linear(job, demand.source, 0, each, batch)
    if not each or isinstance(samples, str) or samples.low_mib is None:
        return ()
    assert samples.likely_mib is not None
    assert samples.high_mib is not None
    return (
        DemandPart("fixed", fixed, fixed, fixed),
        DemandPart("samples", samples.low_mib, samples.likely_mib, samples.high_mib),
    )


def _declared(job: TrainingJob, policy: Policy, batch: Reading | None, _: Demand | None) -> Demand | str:
    """What the annotations say."""
    declared = job.declared
    if not policy.declare:
        return ""
    if declared.per_device_mib is not None:
        return _linear(job, DemandSource.DECLARED, declared.per_device_mib, 0, batch)
    if declared.fixed_mib is None and declared.per_sample_mib is None:
        return ""
    if declared.fixed_mib is None or declared.per_sample_mib is None:
        return "samestep.dev/memory-fixed" if declared.fixed_mib is None else "samestep.dev/memory-per-sample"
    return _linear(job, DemandSource.DECLARED, declared.fixed_mib, declared.per_sample_mib, batch)


def _tabled(job: TrainingJob, policy: Policy, batch: Reading | None, _: Demand | None) -> Demand | str:
    """What the policy's table says of jobs like this one."""
    place = entry_for(job, policy.tabled)
    if place is None:
        return ""
    entry = policy.tabled[place]
    found = _linear(job, DemandSource.TABLED, entry.fixed_mib, entry.per_sample_mib or 0, batch)
    if isinstance(found, str):
        return found
    return replace(found, assumptions=(Phrase("tabled", {"place": place}),))


def _observed(_: TrainingJob, __: Policy, ___: Reading | None, seen: Demand | None) -> Demand | str:
    """What earlier runs were seen to hold. It never denies: a peak is an upper bound, and a line through peaks no
    lower one."""
    return "" if seen is None else seen


def _linear(
    job: TrainingJob, source: DemandSource, fixed_mib: float, per_sample_mib: float, batch: Reading | None
) -> Demand | str:
    if not per_sample_mib:
        return Demand(fixed_mib, fixed_mib, fixed_mib, source)
    if batch is None:
        return "samestep.dev/micro-batch"
    most = fixed_mib + per_sample_mib * batch.value
    if batch.certain:
        return Demand(most, most, most, source)
    share = -(-batch.value // max(1, sum(role.pods * role.devices for role in job.device_roles)))
    return Demand(fixed_mib + per_sample_mib * share, most, most, source)


def _estimated(job: TrainingJob, _: Policy, batch: Reading | None, __: Demand | None) -> Demand | str:
    """The estimate, where the job's trainer, model and micro-batch are known."""
    certain = batch is not None and batch.certain
    found = training_of(job, batch.value if batch is not None and certain else 1)
    if isinstance(found, Unsizable):
        return ""
    if not certain:
        return "samestep.dev/micro-batch"
    one = found.estimate()
    return Demand(one.low_mib, one.likely_mib, one.high_mib, DemandSource.ESTIMATED, found.may_deny, found.assumptions)


def _bound(job: TrainingJob, _: Policy, __: Reading | None, ___: Demand | None) -> Demand | str:
    """What the parameters alone take, where no more can be said of a model that is known."""
    found = bound_of(job)
    return "" if found is None else bound(found)


def _micro_batch(job: TrainingJob, policy: Policy) -> Reading | None:
    """What a person declares outranks what is parsed."""
    if policy.declare and job.batch.declared is not None:
        return job.batch.declared
    return job.batch.micro


_SOURCES: tuple[Callable[[TrainingJob, Policy, Reading | None, Demand | None], Demand | str], ...] = (
    _declared,
    _tabled,
    _observed,
    _estimated,
    _bound,
)
"""Each gives a demand, or the annotation that it lacks, or an empty text where it has nothing to say."""
