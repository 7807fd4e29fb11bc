"""From what is known of a job to the demand of one rank.

Each source is asked in its order, best first, and the first that gives a figure counts. What earlier runs teach has its
places in `_SOURCES` too, as DemandSource says.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from webhook.model.demand import UNKNOWN_DEMAND, Demand, DemandSource, bound
from webhook.model.finding import Phrase
from webhook.model.job import Reading, TrainingJob
from webhook.model.policy import Policy
from webhook.sizing.from_job import Unsizable, bound_of, training_of
from webhook.sizing.table import entry_for


@dataclass(frozen=True, slots=True)
class Sized:
    """The demand, the micro-batch it was computed with (None where none was needed or known), and, where the demand is
    not known, what is `missing`: the annotation that would settle it."""

    demand: Demand
    micro_batch: Reading | None
    missing: str = ""


def size(job: TrainingJob, policy: Policy, micro_batch: int | None = None) -> Sized:
    """The memory that each rank of `job` needs, in MiB; with another micro-batch than the job's where one is given.

    A micro-batch read from a flag that some programs take for the whole job (`--batch-size`) gives an interval: at
    least its share of one rank, at most all of it.
    """
    batch = _micro_batch(job, policy)
    if batch is not None and micro_batch is not None:
        batch = replace(batch, value=micro_batch)
    missing = ""
    for source in _SOURCES:
        found = source(job, policy, batch)
        if isinstance(found, Demand):
            return Sized(found, batch, missing if found.known else missing or "samestep.dev/memory-per-device")
        missing = missing or found
    return Sized(UNKNOWN_DEMAND, batch, missing or "samestep.dev/memory-per-device")


def _declared(job: TrainingJob, policy: Policy, batch: Reading | None) -> Demand | str:
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


def _tabled(job: TrainingJob, policy: Policy, batch: Reading | None) -> Demand | str:
    """What the policy's table says of jobs like this one."""
    place = entry_for(job, policy.tabled)
    if place is None:
        return ""
    entry = policy.tabled[place]
    found = _linear(job, DemandSource.TABLED, entry.fixed_mib, entry.per_sample_mib or 0, batch)
    if isinstance(found, str):
        return found
    return replace(found, assumptions=(Phrase("tabled", {"place": place}),))


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


def _estimated(job: TrainingJob, _: Policy, batch: Reading | None) -> Demand | str:
    """The estimate, where the job's trainer, model and micro-batch are known."""
    certain = batch is not None and batch.certain
    found = training_of(job, batch.value if batch is not None and certain else 1)
    if isinstance(found, Unsizable):
        return ""
    if not certain:
        return "samestep.dev/micro-batch"
    one = found.estimate()
    return Demand(one.low_mib, one.likely_mib, one.high_mib, DemandSource.ESTIMATED, found.may_deny, found.assumptions)


def _bound(job: TrainingJob, _: Policy, __: Reading | None) -> Demand | str:
    """What the parameters alone take, where no more can be said of a model that is known."""
    found = bound_of(job)
    return "" if found is None else bound(found)


def _micro_batch(job: TrainingJob, policy: Policy) -> Reading | None:
    """What a person declares outranks what is parsed."""
    if policy.declare and job.batch.declared is not None:
        return job.batch.declared
    return job.batch.micro


_SOURCES: tuple[Callable[[TrainingJob, Policy, Reading | None], Demand | str], ...] = (
    _declared,
    _tabled,
    _estimated,
    _bound,
)
"""Each gives a demand, or the annotation that it lacks, or an empty text where it has nothing to say."""
