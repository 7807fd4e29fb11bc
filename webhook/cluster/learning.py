"""From a job that is watched to what its run taught: the one path of the observer and of `samestep learn`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from webhook.cluster.measuring import Ask, measure
from webhook.cluster.observed import Job, Read, place_of, quoted, ranks_of, run_by
from webhook.cluster.prometheus import Outcome, PrometheusError
from webhook.evidence.measured import Place
from webhook.evidence.recipe import recipe_of
from webhook.evidence.runs import run_of
from webhook.model.request import Request
from webhook.model.run import Device, Ending, Measured, Rank, Run
from webhook.model.world import World
from webhook.policy.training_profile import training_of
from webhook.review import learnable

MEASURED = ("Measured", "the memory that the devices of the last run held was measured")
"""Reason and message of the condition Measured where it is True; whatever else is said there is why it is not."""
NO_PROMETHEUS = ("NoPrometheus", "no Prometheus was named: how runs end is observed, and what they hold is not")
NO_SAMPLES = ("NoSamples", "Prometheus has no memory in use of these pods or nodes, by any exporter that is known")


@dataclass(frozen=True, slots=True)
class Showing:
    """A run with what its ranks showed. `why` is the reason and the message of the condition Measured; None where
    nothing was to be measured. `failed`: Prometheus could not be asked, and may be later."""

    run: Run
    ranks: list[Rank]
    place: Place
    why: tuple[str, str] | None = None
    measured: Measured = field(default_factory=Measured)
    failed: bool = False

    @property
    def says_something(self) -> bool:
        """Whether it may teach anything: of a run that failed, only that a device ran out of memory."""
        return bool(self.run.shown) and (
            self.run.ending is not Ending.BADLY or any(one.out_of_memory_at for one in self.run.shown)
        )


def read_as_job(request: Request, world: World) -> Read | None:
    """What is to be known of a job so that its runs can be learned from; None where they are not."""
    found = learnable(request, world)
    if found is None:
        return None
    job, policies = found
    evidence = policies[0].evidence
    return Read(
        recipe_of(job, evidence),
        training_of(job),
        frozenset((role.device, role.devices) for role in job.device_roles),
        tuple(one.name for one in policies if one.name),
        evidence.query,
    )


def shown(job: Job, read: Read, device_on: Callable[[str, str], Device | None]) -> Showing:
    """What the job's own objects tell of its run by now."""
    place = place_of(job, device_on)
    ranks = quoted(job, [one.rank for one in ranks_of(job)], place)
    return Showing(run_of(run_by(job, read.recipe, time.time()), ranks, place), ranks, place)


async def with_memory(found: Showing, query: str, ask: Ask | None, since: float | None = None) -> Showing:
    """The same with what Prometheus measured, since this time where it is said. Never raises, whatever that answers."""
    run, ranks, place = found.run, found.ranks, found.place
    if run.ending is Ending.BADLY:
        return found
    if ask is None:
        return Showing(run, ranks, place, NO_PROMETHEUS)
    began = max(since or 0.0, min(one.began_at for one in ranks))
    try:
        measured = await measure(ask, ranks, began, run.at, place=place, query=query)
    except PrometheusError as error:
        why = (_word(error.outcome), f"Prometheus cannot be asked: {error}")
        return Showing(run, ranks, place, why, failed=True)
    why = MEASURED
    if not measured.peaks_mib:
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(measured.dropped.items()))
        why = ("NotBelieved", f"no value can be: {dropped}") if dropped else NO_SAMPLES
    return Showing(run_of(run, ranks, place, measured), ranks, place, why, measured)


def _word(outcome: Outcome) -> str:
    """As a reason of a condition is written."""
    return "".join(part.capitalize() for part in outcome.value.split("_"))
