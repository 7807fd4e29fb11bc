"""Demand: the device memory one rank needs, all in, as `nvidia-smi` would show it."""

from dataclasses import dataclass
from enum import StrEnum


class DemandSource(StrEnum):
    DECLARED = "declared"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Demand:
    """An interval in MiB per device; all three are None where the demand is unknown.

    A declared figure has low = likely = high, unless the micro-batch it is multiplied with is uncertain. `may_deny`:
    its low end is evidence enough to refuse a job; else it only ranks and warns. `assumptions` stand in the message.
    """

    low_mib: float | None
    likely_mib: float | None
    high_mib: float | None
    source: DemandSource
    may_deny: bool = True
    assumptions: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return self.low_mib is not None


UNKNOWN_DEMAND = Demand(None, None, None, DemandSource.UNKNOWN)
