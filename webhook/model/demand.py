"""Demand: the device memory one rank needs, all in, as `nvidia-smi` would show it."""

from enum import StrEnum

from webhook.model.finding import Phrase
from webhook.model.frozen import frozen


class DemandSource(StrEnum):
    """Where a figure is from, best first; the first that gives one counts (webhook/sizing/demand.py keeps this order).

    Facts of earlier runs (a device that ran out of memory, a run that ended well) are no figures: they are `Lessons`,
    and go before all of these.
    """

    DECLARED = "declared"
    """By annotation on the job."""
    TABLED = "tabled"
    """By the policy's own table, memory.declared."""
    OBSERVED = "observed"
    """From the peaks of earlier runs of the same recipe, or of neighbours that differ in the micro-batch."""
    ESTIMATED = "estimated"
    """From what the trainer is told; may deny only where that is firm."""
    BOUND = "bound"
    """From the number of parameters alone: a low end and nothing else. Never denies."""
    SIZED_FOR = "sized-for"
    """By annotation: what the batch was tuned on, a high end and perhaps a bound. Never denies."""
    UNKNOWN = "unknown"


@frozen
class Demand:
    """An interval in MiB per device. All three are None where the demand is unknown; a bound has only `low_mib`, and
    what a job is sized for alone has no `likely_mib`.

    A declared figure has low = likely = high, unless the micro-batch it is multiplied with is uncertain. `may_deny`:
    its low end is evidence enough to refuse a job; else it only ranks and warns. `assumptions` stand in the message.
    """

    low_mib: float | None
    likely_mib: float | None
    high_mib: float | None
    source: DemandSource
    may_deny: bool = True
    assumptions: tuple[Phrase, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is more than a bound."""
        return self.high_mib is not None


@frozen
class DemandPart:
    """One part of a demand, in MiB: weights, activations, what the samples take."""

    name: str
    low_mib: float
    likely_mib: float
    high_mib: float


UNKNOWN_DEMAND = Demand(None, None, None, DemandSource.UNKNOWN)


def bound(low_mib: float) -> Demand:
    """A demand of which only the low end is known."""
    return Demand(low_mib, None, None, DemandSource.BOUND, may_deny=False)
