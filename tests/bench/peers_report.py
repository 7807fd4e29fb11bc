"""Tables, plots and the page of what `tests.bench.peers` has found. `python -m tests.bench.peers_report FILE`."""

import argparse
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.engines import GATEKEEPER, KYVERNO, KYVERNO_TYPED, NONE, NULL, NULL_LIKE, OURS
from tests.bench.record import BESIDES, CHANGES, CHECKS, Record, Turn, load, quantile

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_SMALL = "6 KiB"
_BAR = 40
_INTRODUCTION = f"""Written by `make bench-peers`, and not by hand. One real API server, every engine in front of a
namespace of its own, dry-run creates of a batch/v1 Job that asks for GPUs. Each engine names one GPU model for the job;
Samestep, with its default policy, also decides which. Every answer is looked at: a turn in which a job comes back other
than it should is void.

**Turns.** All engines run all the time and take turns, in an order that changes with each round. A turn begins once no
engine uses the processor, and ends after some hundred creates or a few seconds, whichever is first. So engines
that are not in their turn stand still, without being stopped: *at rest* below is what each uses of a core then. Kyverno
would not, where the API server has given up on it: its ClusterPolicies take about a second of processor time for a job
of 100 KiB, a few dozen of those at a time run into the webhook's time limit of 10 s, and it works on for a minute. The
next turn waits for that, and an engine that has failed at large jobs, so many at a time, is not asked for as many again
in that pass. Such turns are listed as void.

**Figures.** *Added* is what a create takes longer than without a webhook: of medians, the median over the rounds of the
difference in each round; p95 and p99 are of the creates of all rounds together, less those without a webhook, and are
left out where there are fewer than 100 creates. Goals are ratios of medians over the rounds; beside them stand the
smallest and the largest ratio in one round. {KYVERNO_TYPED} and
{KYVERNO} cannot be in force together: the former takes turns with Samestep and without a webhook in rounds
of its own.

**{NULL_LIKE}** is the null webhook, registered with Samestep's match
conditions, by which the API server sends it only what is for it. The API server evaluates them, and first has to
convert the object for that. What the two null webhooks differ by is the price of never being called for what is none of
its business."""
_RUNNING = """Resident memory is that after the first round's creates of 6 KiB, and that in the end, when all has been
asked of everyone; Kyverno's two ways of writing policies are one process. Time to ready is from the start of the
process, with CRDs and configuration in place, until its readiness probe says so. CPU seconds are those for 1,000
creates of 6 KiB: a review each where it changes, two where it checks as well. Those of the API server stand beside
them: what runs inside it, native policies and match conditions, is paid for there, and so is each call."""
_OTHERS = """ConfigMaps, and pods that ask for CPUs only, one at a time in the namespace of each engine, beside those
where no webhook is registered. For ConfigMaps Samestep is not registered either. For pods it is, and the API server
leaves out those without devices by the match conditions: what is left is what it takes to evaluate these, as for the
null webhook with the same. CPU seconds are the engine's for 1,000 creates: where there are none, it was not asked."""
_PICTURE = "![Added median latency, one create at a time](benchmarks.png)"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of medians over the rounds; `low` and `high` are the smallest and the largest of one round."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio that is to be at most (or at least) so much. `found` None: it was not measured."""

    what: str
    limit: float
    found: Ratio | None
    at_least: bool = False

    @property
    def met(self) -> bool:
        if self.found is None:
            return False
        return self.found.value >= self.limit if self.at_least else self.found.value <= self.limit


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.peers_report", description=__doc__)
    options.add_argument("file", type=Path)
    given = options.parse_args()
    record = load(given.file)
    PAGE.write_text(page(record), "utf-8")
    plot(record, PAGE.with_suffix(".png"))
    print(page(record))


def page(record: Record) -> str:
    """The whole of docs/benchmarks.md."""
    return "\n\n".join(("# Samestep beside other engines", _INTRODUCTION, _PICTURE, tables(record)))


def tables(record: Record) -> str:
    """What was measured, and on what."""
    facts = ", ".join(f"{name} {value}" for name, value in record.machine.items())
    rounds = len({one.round for one in _counted(record, NONE, CHANGES, _SMALL, 1)})
    parts = [
        f"Measured on: {facts}. Rounds without a webhook: {rounds}. Turns: {len(record.turns)}.",
        "## Goals",
        _table(("ratio", "goal", "found", "in one round", ""), map(_goal_row, goals(record))),
        "## What each runs in",
        _RUNNING,
        _table(
            (
                "engine",
                "resident memory, MiB",
                "in the end",
                "time to ready, s",
                "at rest, cores",
                *(f"CPU s, {calls}" for calls in (CHANGES, CHECKS)),
                *(f"API server's CPU s, {calls}" for calls in (CHANGES, CHECKS)),
            ),
            (_running_row(record, name) for name in record.engines),
        ),
        "## Added median latency, one create of 6 KiB at a time",
        "```\n" + "\n".join(bars(record)) + "\n```",
    ]
    for calls in (CHANGES, CHECKS):
        parts.append(f"## Where it {calls}")
        for size, workers in _cells(record, calls):
            parts += [f"### {size}, {workers} at a time", _latencies(record, calls, size, workers)]
    if any(one.calls == BESIDES for one in record.turns):
        parts += ["## What is none of its business", _OTHERS, _besides(record)]
    if any(one.void for one in record.turns):
        parts += ["## Void turns", _voids(record)]
    return "\n\n".join(parts) + "\n"


def goals(record: Record) -> list[Goal]:
    """Those of the project: one create of 6 KiB at a time where nothing else is said, where a job is only changed."""
    memory = [record.resident_mib[one] for one in (GATEKEEPER, KYVERNO) if one in record.resident_mib]
    return [
        Goal("added median latency ÷ Gatekeeper's", 0.4, _added_ratio(record, GATEKEEPER)),
        Goal("added median latency ÷ Kyverno's, ClusterPolicy", 0.2, _added_ratio(record, KYVERNO)),
        Goal("added median latency ÷ Kyverno's, MutatingPolicy", 0.2, _added_ratio(record, KYVERNO_TYPED)),
        Goal("added median latency ÷ null webhook's", 1.3, _added_ratio(record, NULL)),
        Goal("added median latency ÷ null webhook's with our conditions", 1.3, _added_ratio(record, NULL_LIKE)),
        Goal("p99 ÷ null webhook's", 1.5, _p99_ratio(record, NULL)),
        Goal("creates a second, 32 at a time ÷ Gatekeeper's", 1.5, _rate_ratio(record, GATEKEEPER), at_least=True),
        Goal(
            "resident memory ÷ the smaller peer's", 1, _once(record.resident_mib.get(OURS), min(memory, default=None))
        ),
        Goal("time to ready ÷ Kyverno's", 0.5, _once(record.ready_s.get(OURS), record.ready_s.get(KYVERNO))),
    ]


def bars(record: Record) -> list[str]:
    """One line for each engine, the longest first."""
    found = _added_by_engine(record)
    longest = max((added for _, added in found), default=1.0)
    width = max((len(name) for name, _ in found), default=0)
    return [
        f"{name:>{width}} {'█' * max(1, round(_BAR * added / longest))} {1000 * added:.2f} ms"
        for name, added in found
        if added > 0
    ]


def plot(record: Record, file: Path) -> None:
    """The same as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = _added_by_engine(record)
    figure, axes = plt.subplots(figsize=(8, 3.5))
    colours = ["#1f77b4" if name.startswith(OURS) else "#b0b0b0" for name, _ in found]
    axes.barh([name for name, _ in found], [1000 * added for _, added in found], color=colours)
    axes.set_xlabel("added median latency of a create, ms (6 KiB Job, one at a time)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _goal_row(goal: Goal) -> tuple[str, ...]:
    limit = f"{'≥' if goal.at_least else '≤'} {goal.limit:g}"
    if goal.found is None:
        return goal.what, limit, "–", "–", "not measured"
    return goal.what, limit, _number(goal.found.value), _range(goal.found), "met" if goal.met else "missed"


def _running_row(record: Record, name: str) -> tuple[str, ...]:
    return (
        name,
        _number(record.resident_mib.get(name)),
        _number(record.last_resident_mib.get(name)),
        _number(record.ready_s.get(name)),
        _number(record.resting_cores.get(name)),
        *(_number(_cpu(record, name, calls) if name in record.resting_cores else None) for calls in (CHANGES, CHECKS)),
        *(_number(_server_cpu(record, name, calls)) for calls in (CHANGES, CHECKS)),
    )


def _cpu(record: Record, engine: str, calls: str, size: str = _SMALL) -> float | None:
    return _per_thousand(record, engine, calls, size, lambda one: one.cpu_s)


def _server_cpu(record: Record, engine: str, calls: str) -> float | None:
    return _per_thousand(record, engine, calls, _SMALL, lambda one: one.server_cpu_s)


def _per_thousand(record: Record, engine: str, calls: str, size: str, used: Callable[[Turn], float]) -> float | None:
    turns = [one for one in record.turns if (one.engine, one.calls, one.size) == (engine, calls, size) and not one.void]
    count = sum(len(one.latencies) + 1 for one in turns)  # and the one that opens the connection
    return 1000 * sum(map(used, turns)) / count if count else None


def _added_by_engine(record: Record) -> list[tuple[str, float]]:
    """The longest first."""
    found = ((name, _added(record, name, CHANGES, _SMALL, 1)) for name in record.engines if name != NONE)
    return sorted(((name, added) for name, added in found if added is not None), key=lambda one: -one[1])


def _added(record: Record, engine: str, calls: str, size: str, workers: int) -> float | None:
    turns, bases = _together(record, (engine, NONE), calls, size, workers)
    return statistics.median(_less(turns, bases)) if turns else None


def _added_ratio(record: Record, peer: str) -> Ratio | None:
    ours, theirs, bases = _together(record, (OURS, peer, NONE), CHANGES, _SMALL, 1)
    return _ratio(_less(ours, bases), _less(theirs, bases))


def _rate_ratio(record: Record, peer: str) -> Ratio | None:
    ours, theirs = _together(record, (OURS, peer), CHANGES, _SMALL, 32)
    return _ratio([one.rate for one in ours], [one.rate for one in theirs])


def _p99_ratio(record: Record, peer: str) -> Ratio | None:
    """Of all rounds together: in one round alone it would be one create's bad luck."""
    ours, theirs = (quantile(one, 99) for one in _together(record, (OURS, peer), CHANGES, _SMALL, 1))
    return _once(ours, theirs)


def _once(ours: float | None, theirs: float | None) -> Ratio | None:
    return _ratio([ours], [theirs]) if ours and theirs else None


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    if not ours:
        return None
    single = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return Ratio(statistics.median(ours) / statistics.median(theirs), min(single), max(single))


def _less(turns: Iterable[Turn], bases: Iterable[Turn]) -> list[float]:
    return [one.median - base.median for one, base in zip(turns, bases, strict=True)]


def _together(record: Record, engines: Sequence[str], calls: str, size: str, workers: int) -> list[list[Turn]]:
    """The turns of each engine in the rounds in which all of these took a turn that counts, in the order of rounds."""
    found = [{one.round: one for one in _counted(record, name, calls, size, workers)} for name in engines]
    common = sorted(set.intersection(*(set(one) for one in found)))
    return [[one[number] for number in common] for one in found]


def _counted(record: Record, engine: str, calls: str, size: str, workers: int) -> list[Turn]:
    wanted = (engine, calls, size, workers)
    return [one for one in record.turns if (one.engine, one.calls, one.size, one.workers) == wanted and not one.void]


def _cells(record: Record, calls: str) -> list[tuple[str, int]]:
    return list(dict.fromkeys((one.size, one.workers) for one in record.turns if one.calls == calls))


def _latencies(record: Record, calls: str, size: str, workers: int) -> str:
    rows = []
    for name in record.engines:
        turns, bases = _together(record, (name, NONE), calls, size, workers)
        if not turns:
            continue
        row = [name, _ms(statistics.median(one.median for one in turns))]
        if name == NONE:
            row += ["–"] * 3
        else:
            row += [_ms(statistics.median(_less(turns, bases)))]
            for percent in (95, 99):
                theirs, base = quantile(turns, percent), quantile(bases, percent)
                row.append(_ms(None if theirs is None or base is None else theirs - base))
        creates = sum(len(one.latencies) for one in turns)
        rows.append((*row, f"{statistics.median(one.rate for one in turns):.0f}", f"{creates:,}"))
    head = ("engine", "median, ms", "added median", "added p95", "added p99", "creates a second", "creates measured")
    return _table(head, rows)


def _besides(record: Record) -> str:
    rows = []
    for what, workers in _cells(record, BESIDES):
        for name in record.engines:
            turns, bases = _together(record, (name, NONE), BESIDES, what, workers)
            if not turns:
                continue
            row = [what, name, _ms(statistics.median(one.median for one in turns))]
            ratio = _ratio([one.median for one in turns], [one.median for one in bases])
            if name == NONE or ratio is None:
                row += ["–"] * 3
            else:
                row += [_number(ratio.value), _range(ratio), _number(_cpu(record, name, BESIDES, what))]
            rows.append(row)
    return _table(("object", "engine", "median, ms", "÷ no webhook", "in one round", "CPU s"), rows)


def _voids(record: Record) -> str:
    found: dict[tuple[str, ...], list[str]] = {}
    for one in record.turns:
        if one.void:
            found.setdefault((one.engine, one.calls, f"{one.size}, {one.workers} at a time"), []).append(one.void)
    rows = ((*where, str(len(why)), _short(why[0])) for where, why in found.items())
    return _table(("engine", "where it", "what", "turns", "what came back"), rows)


def _short(text: str) -> str:
    return f"`{' '.join(text.replace('`', '').replace('|', '/').split())[:200]}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.2f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _range(ratio: Ratio) -> str:
    return "–" if ratio.low == ratio.high else f"{ratio.low:.2f} to {ratio.high:.2f}"


if __name__ == "__main__":
    main()
