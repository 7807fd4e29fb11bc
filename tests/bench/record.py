"""What `tests.bench.peers` finds, and how much of it belongs together."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CHANGES, CHECKS, BESIDES = "changes", "changes and checks", "none of its business"
"""What is measured: the mutating call alone, the validating call with it, and objects that are for no engine."""


@dataclass(slots=True)
class Turn:
    """One engine's turn: what each create took and all together, in seconds; CPU seconds of the engine's processes and
    of the API server. Void: why it does not count."""

    engine: str
    calls: str
    size: str
    workers: int
    round: int
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0
    cpu_s: float = 0
    server_cpu_s: float = 0
    void: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.latencies)

    @property
    def rate(self) -> float:
        """Creates a second."""
        return len(self.latencies) / self.seconds


@dataclass(slots=True)
class Record:
    """Everything that a run has found, by the names of engines. Resident memory is what each has after the small jobs
    of the first round, and what it has in the end."""

    engines: list[str] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    resident_mib: dict[str, float] = field(default_factory=dict)
    last_resident_mib: dict[str, float] = field(default_factory=dict)
    resting_cores: dict[str, float] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)


def load(file: Path) -> Record:
    content = json.loads(file.read_text("utf-8"))
    turns = [Turn(**one) for one in content.pop("turns")]
    return Record(**content, turns=turns)


def quantile(turns: Iterable[Turn], percent: int) -> float | None:
    """Of the latencies of all turns together; None where there are fewer than a hundred, which say nothing of it."""
    pooled = [one for turn in turns for one in turn.latencies]
    if len(pooled) < 100:
        return None
    return statistics.quantiles(pooled, n=100, method="inclusive")[percent - 1]
