"""Tables, plots and the page of what `tests.bench.peers` has found. `python -m tests.bench.peers_report FILE`."""

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.engines import NONE
from tests.bench.peers import Record, Turn

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_OURS, _NULL = "samestep", "null webhook"
_BAR = 40
_INTRODUCTION = """Written by `make bench-peers`, and not by hand. One real API server, every engine in front of a
namespace of its own, dry-run creates of a batch/v1 Job in rounds in which all take turns. Each engine names one GPU
model for the job; Samestep also decides which. *Added* is what a create takes longer than without a webhook, in the
same round. Ratios are medians of the rounds' ratios. All engines run all the time, so what one does between its turns
weighs on the others."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio that is to be at most (or at least) so much. `found` None: it was not measured."""

    what: str
    limit: float
    found: float | None
    at_least: bool = False

    @property
    def met(self) -> bool:
        if self.found is None:
            return False
        return self.found >= self.limit if self.at_least else self.found <= self.limit


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.peers_report", description=__doc__)
    options.add_argument("file", type=Path)
    given = options.parse_args()
    record = load(given.file)
    PAGE.write_text(page(record), "utf-8")
    plot(record, PAGE.with_suffix(".png"))
    print(page(record))


def load(file: Path) -> Record:
    content = json.loads(file.read_text("utf-8"))
    turns = [Turn(**one) for one in content.pop("turns")]
    return Record(**content, turns=turns)


def page(record: Record) -> str:
    """The whole of docs/benchmarks.md."""
    void = [one for one in record.turns if one.void]
    facts = ", ".join(f"{name} {value}" for name, value in record.machine.items())
    parts = [
        "# Samestep beside other engines",
        _INTRODUCTION,
        f"Measured on: {facts}. Turns: {len(record.turns)}, void: {len(void)}.",
        "![Added median latency, one create at a time](benchmarks.png)",
        "## Goals",
        _table(
            ("ratio", "goal", "found", ""),
            (
                (one.what, f"{'≥' if one.at_least else '≤'} {one.limit:g}", _number(one.found), _verdict(one))
                for one in goals(record)
            ),
        ),
        "## What each runs in",
        _table(
            ("engine", "resident memory, MiB", "time to ready, s", "CPU seconds per 1,000 creates"),
            (
                (
                    name,
                    _number(record.resident_mib.get(name)),
                    _number(record.ready_s.get(name)),
                    _number(_cpu_per_thousand(record, name)),
                )
                for name in _engines(record)
                if name != NONE
            ),
        ),
    ]
    for calls in dict.fromkeys(one.calls for one in record.turns):
        parts.append(f"## Where it {calls}" if calls.startswith("changes") else "## What is none of its business")
        for size in dict.fromkeys(one.size for one in record.turns if one.calls == calls):
            for workers in sorted({one.workers for one in record.turns if one.calls == calls and one.size == size}):
                parts.append(f"### {size}, {workers} at a time")
                parts.append(_latencies(record, calls, size, workers))
    parts.append("## Added median latency, one create of 6 KiB at a time")
    parts.append("```\n" + "\n".join(bars(record)) + "\n```")
    return "\n\n".join(parts) + "\n"


def goals(record: Record) -> list[Goal]:
    """Those of the project: one create of 6 KiB at a time where nothing else is said, where a job is only changed."""
    peers = ("Gatekeeper", "Kyverno ClusterPolicy", _NULL)
    gatekeeper, kyverno, null = (_added_ratio(record, peer, "median") for peer in peers)
    memory = [record.resident_mib[one] for one in peers[:2] if one in record.resident_mib]
    ours_mib, ours_s = record.resident_mib.get(_OURS), record.ready_s.get(_OURS)
    kyverno_s = record.ready_s.get(peers[1])
    return [
        Goal("added median latency ÷ Gatekeeper's", 0.4, gatekeeper),
        Goal("added median latency ÷ Kyverno's", 0.2, kyverno),
        Goal("added median latency ÷ null webhook's", 1.3, null),
        Goal("p99 ÷ null webhook's", 1.5, _ratio(record, _NULL, "p99", 1)),
        Goal("creates a second, 32 at a time ÷ Gatekeeper's", 1.5, _ratio(record, peers[0], "rate", 32), at_least=True),
        Goal("resident memory ÷ the smaller peer's", 1, ours_mib / min(memory) if ours_mib and memory else None),
        Goal("time to ready ÷ Kyverno's", 0.5, ours_s / kyverno_s if ours_s and kyverno_s else None),
    ]


def bars(record: Record) -> list[str]:
    """One line for each engine, the longest first."""
    found = _added_by_engine(record)
    longest = max(found.values(), default=1.0)
    return [
        f"{name:>24} {'█' * max(1, round(_BAR * added / longest))} {1000 * added:.2f} ms"
        for name, added in sorted(found.items(), key=lambda one: -one[1])
        if added > 0
    ]


def plot(record: Record, file: Path) -> None:
    """The same as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = sorted(_added_by_engine(record).items(), key=lambda one: -one[1])
    figure, axes = plt.subplots(figsize=(8, 3.5))
    colours = ["#1f77b4" if name.startswith(_OURS) else "#b0b0b0" for name, _ in found]
    axes.barh([name for name, _ in found], [1000 * added for _, added in found], color=colours)
    axes.set_xlabel("added median latency of a create, ms (6 KiB Job, one at a time)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _added_by_engine(record: Record) -> dict[str, float]:
    names = (name for name in _engines(record) if name != NONE)
    return {name: added for name in names if (added := _added(record, name)) is not None}


def _added(record: Record, engine: str) -> float | None:
    bases = _rounds(record, NONE, "changes", "6 KiB", 1)
    found = _rounds(record, engine, "changes", "6 KiB", 1)
    added = [found[number].median - bases[number].median for number in found.keys() & bases.keys()]
    return statistics.median(added) if added else None


def _added_ratio(record: Record, peer: str, field: str) -> float | None:
    bases, ours, theirs = (_rounds(record, name, "changes", "6 KiB", 1) for name in (NONE, _OURS, peer))
    ratios = [
        (getattr(ours[one], field) - getattr(bases[one], field))
        / (getattr(theirs[one], field) - getattr(bases[one], field))
        for one in bases.keys() & ours.keys() & theirs.keys()
    ]
    return statistics.median(ratios) if ratios else None


def _ratio(record: Record, peer: str, field: str, workers: int) -> float | None:
    ours, theirs = (_rounds(record, name, "changes", "6 KiB", workers) for name in (_OURS, peer))
    ratios = [getattr(ours[one], field) / getattr(theirs[one], field) for one in ours.keys() & theirs.keys()]
    return statistics.median(ratios) if ratios else None


def _rounds(record: Record, engine: str, calls: str, size: str, workers: int) -> dict[int, Turn]:
    return {
        one.round: one
        for one in record.turns
        if (one.engine, one.calls, one.size, one.workers) == (engine, calls, size, workers) and not one.void
    }


def _latencies(record: Record, calls: str, size: str, workers: int) -> str:
    bases = _rounds(record, NONE, calls, size, workers)
    rows = []
    for name in _engines(record):
        turns = _rounds(record, name, calls, size, workers)
        both = sorted(turns.keys() & bases.keys())
        if not both:
            continue
        added = [
            statistics.median(getattr(turns[one], field) - getattr(bases[one], field) for one in both)
            for field in ("median", "p95", "p99")
        ]
        whole = statistics.median(turns[one].median for one in both)
        rate = statistics.median(turns[one].rate for one in both)
        shown = ("–",) * 3 if name == NONE else tuple(f"{1000 * one:.2f}" for one in added)
        rows.append((name, f"{1000 * whole:.2f}", *shown, f"{rate:.0f}"))
    return _table(("engine", "median, ms", "added median", "added p95", "added p99", "creates a second"), rows)


def _cpu_per_thousand(record: Record, engine: str) -> float | None:
    turns = [one for one in record.turns if one.engine == engine and one.calls == "changes" and one.count]
    turns = [one for one in turns if one.size == "6 KiB"]
    count = sum(one.count for one in turns)
    used = sum(one.cpu_s for one in turns)
    return 1000 * used / count if count and used else None


def _engines(record: Record) -> list[str]:
    return list(dict.fromkeys(one.engine for one in record.turns))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _verdict(goal: Goal) -> str:
    return "not measured" if goal.found is None else "met" if goal.met else "missed"


if __name__ == "__main__":
    main()
