"""From what a job declares to the demand of one rank.

Sources so far, best first: declared on the job by annotation; estimated from what its trainer is told; unknown.
"""

from dataclasses import dataclass, replace

from webhook.model.demand import UNKNOWN_DEMAND, Demand, DemandSource
from webhook.model.job import Reading, TrainingJob
from webhook.model.policy import Policy
from webhook.sizing.from_job import Sizable, training_of


@dataclass(frozen=True, slots=True)
class Sized:
    """The demand, the micro-batch it was computed with (None where none was needed or known), and, where the demand is
    unknown, what is `missing`: the annotation that would settle it."""

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
    sized = _declared(job, batch) if policy.declare else None
    if sized is None or not sized.demand.known:
        return _estimated(job, batch) or sized or Sized(UNKNOWN_DEMAND, batch, "samestep.dev/memory-per-device")
    return sized


def _declared(job: TrainingJob, batch: Reading | None) -> Sized | None:
    """What the annotations say; None where they say nothing."""
    declared = job.declared
    if declared.per_device_mib is not None:
        return Sized(_exactly(declared.per_device_mib), batch)
    if declared.fixed_mib is None and declared.per_sample_mib is None:
        return None
    if declared.fixed_mib is None or declared.per_sample_mib is None:
        missing = "samestep.dev/memory-fixed" if declared.fixed_mib is None else "samestep.dev/memory-per-sample"
        return Sized(UNKNOWN_DEMAND, batch, missing)
    if batch is None:
        return Sized(UNKNOWN_DEMAND, batch, "samestep.dev/micro-batch")
    most = declared.fixed_mib + declared.per_sample_mib * batch.value
    if batch.certain:
        return Sized(_exactly(most), batch)
    share = -(-batch.value // max(1, sum(role.pods * role.devices for role in job.device_roles)))
    least = declared.fixed_mib + declared.per_sample_mib * share
    return Sized(Demand(least, most, most, DemandSource.DECLARED), batch)


def _estimated(job: TrainingJob, batch: Reading | None) -> Sized | None:
    """The estimate, where the job's trainer, model and micro-batch are known."""
    if batch is None or not batch.certain:
        return None
    found = training_of(job, batch.value)
    if not isinstance(found, Sizable):
        return None
    one = found.estimate()
    demand = Demand(
        one.low_mib, one.likely_mib, one.high_mib, DemandSource.ESTIMATED, found.may_deny, found.assumptions
    )
    return Sized(demand, batch)


def _micro_batch(job: TrainingJob, policy: Policy) -> Reading | None:
    """What a person declares outranks what is parsed."""
    if policy.declare and job.batch.declared is not None:
        return job.batch.declared
    return job.batch.micro


def _exactly(mib: float) -> Demand:
    return Demand(mib, mib, mib, DemandSource.DECLARED)
