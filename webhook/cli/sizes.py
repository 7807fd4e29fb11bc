"""A size as `samestep size` shows it, whatever it is known by: a formula, a measurement, a declaration, or nothing."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.table import Table

from webhook.answer.wording import gib, phrase
from webhook.catalog.accelerators import accelerators
from webhook.catalog.models import Guess, OtherModel
from webhook.decision.findings import run_of, runs_of
from webhook.model.demand import Demand, DemandSource
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.profile import Lessons
from webhook.sizing.demand import size as sized
from webhook.sizing.estimate import Estimate, Part, explain, largest_micro_batch, parameter_bound_mib
from webhook.sizing.from_job import Sizable
from webhook.sizing.largest import largest
from webhook.sizing.measured import MeasuredRun
from webhook.sizing.terms import HIGH, LIKELY, Term


class Found(Protocol):
    """A size and what is behind it."""

    @property
    def source(self) -> str: ...

    @property
    def interval(self) -> tuple[float, float, float] | None: ...

    @property
    def parts(self) -> tuple[Part, ...]: ...

    @property
    def notes(self) -> Iterable[str]:
        """Sentences for a person."""

    @property
    def more(self) -> dict[str, object]:
        """Further keys of the document."""

    def explain(self) -> tuple[Term, ...]: ...

    def largest(self, usable: float, end: int) -> int | None:
        """The largest micro-batch that fits at this end; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """By formula."""

    run: Sizable

    @property
    def estimate(self) -> Estimate:
        return self.run.estimate()

    @property
    def source(self) -> str:
        return "guessed" if self.estimate.guessed else DemandSource.ESTIMATED.value

    @property
    def interval(self) -> tuple[float, float, float]:
        found = self.estimate
        return found.low_mib, found.likely_mib, found.high_mib

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.estimate.parts

    @property
    def notes(self) -> Iterator[str]:
        model, run = self.run.training.model, self.run
        if isinstance(model, Guess) and not run.open:
            yield f'the model "{model.name}" {model.because}'
        for name, said in run.read.items():
            yield f"read: {name} {said.value} ({said.name}, {said.field})"
        yield from map(phrase, run.assumptions)
        yield from (f"may not deny: {sentence}" for sentence in run.open)

    @property
    def more(self) -> dict[str, object]:
        run = self.run
        if not run.read:
            return {}
        read = {name: {"value": said.value, "by": said.name, "field": said.field} for name, said in run.read.items()}
        assumed: dict[str, object] = {"assumptions": [*map(phrase, run.assumptions)], "open": list(run.open)}
        return {"read": read, **assumed, "mayDeny": run.may_deny}

    def explain(self) -> tuple[Term, ...]:
        return explain(self.run.training)

    def largest(self, usable: float, end: int) -> int:
        return largest_micro_batch(self.run.training, usable, end)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Measured by others."""

    run: MeasuredRun

    @property
    def source(self) -> str:
        return DemandSource.ESTIMATED.value

    @property
    def interval(self) -> tuple[float, float, float]:
        found = self.run.estimate()
        return found.low_mib, found.likely_mib, found.high_mib

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    @property
    def notes(self) -> Iterator[str]:
        yield f"{self.run.model.name} is a {self.run.model.what} model: there is no formula for it"
        yield from map(phrase, self.run.assumptions)

    @property
    def more(self) -> dict[str, object]:
        return {"assumptions": [*map(phrase, self.run.assumptions)], "mayDeny": False}

    def explain(self) -> tuple[Term, ...]:
        return ()

    def largest(self, usable: float, end: int) -> int:
        return largest(lambda batch: self.run.at(batch).end(end) <= usable)


@dataclass(frozen=True, slots=True)
class Linear:
    """Declared on the job, or by the policy's table."""

    job: TrainingJob
    policy: Policy
    demand: Demand

    @property
    def source(self) -> str:
        return self.demand.source.value

    @property
    def interval(self) -> tuple[float, float, float] | None:
        return _ends(self.demand)

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    @property
    def notes(self) -> Iterable[str]:
        return (f"{self.demand.source}: {' '.join(map(phrase, self.demand.assumptions)) or 'annotations of the job'}",)

    @property
    def more(self) -> dict[str, object]:
        return {"assumptions": [*map(phrase, self.demand.assumptions)], "mayDeny": self.demand.may_deny}

    def explain(self) -> tuple[Term, ...]:
        return ()

    def largest(self, usable: float, end: int) -> int | None:
        if sized(self.job, self.policy, 1).demand == sized(self.job, self.policy, 2).demand:
            # Whatever the micro-batch.
            return None

        def fits(batch: int) -> bool:
            ends = _ends(sized(self.job, self.policy, batch).demand)
            return ends is not None and ends[end] <= usable

        return largest(fits)


@dataclass(frozen=True, slots=True)
class Observed:
    """By earlier runs of the same training alone."""

    lessons: Lessons

    @property
    def source(self) -> str:
        return DemandSource.OBSERVED.value

    @property
    def interval(self) -> tuple[float, float, float] | None:
        return _ends(self.lessons.demand) if self.lessons.demand else None

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    @property
    def notes(self) -> Iterable[str]:
        return runs(self.lessons)

    @property
    def more(self) -> dict[str, object]:
        return {"runs": [*runs(self.lessons)]}

    def explain(self) -> tuple[Term, ...]:
        return ()

    def largest(self, _: float, __: int) -> None:
        return None


def runs(lessons: Lessons) -> Iterator[str]:
    """What earlier runs of a training taught of it, a sentence each."""
    name = accelerators().short_name
    for product, fits in lessons.fits.items():
        yield f"{name(product)}: {phrase(runs_of(fits))} ({fits.profile})"
    for product, out in lessons.out.items():
        yield f"{name(product)} ran out of memory: {phrase(run_of(out))} ({out.profile})"
    if lessons.demand is not None:
        yield f"observed: {' '.join(map(phrase, lessons.demand.assumptions))} ({', '.join(lessons.demand_from)})"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A model without layer counts and measurements: nothing but a bound is known."""

    model: OtherModel

    @property
    def source(self) -> str:
        return DemandSource.UNKNOWN.value

    @property
    def interval(self) -> None:
        return None

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    @property
    def notes(self) -> Iterator[str]:
        bound = gib(parameter_bound_mib(self.model.parameters, 1))
        yield (
            f"{self.model.name} is a {self.model.what} model: no memory per sample was published for this, so the need "
            "is unknown."
        )
        yield f"Its {self.model.parameters:,} parameters alone take {bound} or more. Measure a run and declare it:"
        yield "samestep.dev/memory-per-device, or samestep.dev/memory-fixed with samestep.dev/memory-per-sample."

    @property
    def more(self) -> dict[str, object]:
        return {}

    def explain(self) -> tuple[Term, ...]:
        return ()

    def largest(self, _: float, __: int) -> None:
        return None


def _ends(demand: Demand) -> tuple[float, float, float] | None:
    low, likely, high = demand.low_mib, demand.likely_mib, demand.high_mib
    return None if low is None or likely is None or high is None else (low, likely, high)


def document(found: Found, devices: dict[str, float], *, why: bool) -> dict[str, object]:
    told: dict[str, object] = {
        **_interval(found.interval),
        "parts": [
            {"part": part.name.value, **_interval((part.low_mib, part.likely_mib, part.high_mib))}
            for part in found.parts
        ],
        "source": found.source,
        "largestMicroBatch": {
            name: batch for name, usable in devices.items() if (batch := found.largest(usable, HIGH)) is not None
        },
        **found.more,
    }
    if why:
        told["explanation"] = [
            {"part": term.part.value, "mib": round(term.bytes / 2**20), "formula": term.formula, "source": term.source}
            for term in found.explain()
        ]
    return told


def _interval(ends: tuple[float, float, float] | None) -> dict[str, int | None]:
    return {
        name: None if ends is None else round(ends[end]) for end, name in enumerate(("lowMib", "likelyMib", "highMib"))
    }


def show(found: Found, devices: dict[str, float], *, why: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for sentence in found.notes:
        console.print(sentence, soft_wrap=True, markup=False)
    if found.interval is None:
        return
    console.print(_parts(found.parts, found.interval))
    if why:
        console.print()
        for term in found.explain():
            console.print(
                f"{term.part.value}: {gib(term.bytes / 2**20)} = {term.formula}\n  {term.source}", soft_wrap=True
            )
    rows = _largest(found, sorted(devices.items(), key=lambda one: (one[1], one[0])))
    if rows.row_count:
        console.print()
        console.print(rows)


def _parts(parts: tuple[Part, ...], ends: tuple[float, float, float]) -> Table:
    table = _table(("PART", "LOW", "LIKELY", "HIGH"))
    for part in parts:
        table.add_row(part.name.value, *(gib(mib) for mib in (part.low_mib, part.likely_mib, part.high_mib)))
    table.add_row("in all", *map(gib, ends))
    return table


def _largest(found: Found, devices: Iterable[tuple[str, float]]) -> Table:
    """Two figures each: a micro-batch that fits at the high end, and one that probably does."""
    table = _table(("MODEL", "USABLE", "FITS", "LIKELY FITS"))
    for name, usable in devices:
        sure, likely = (found.largest(usable, end) for end in (HIGH, LIKELY))
        if sure is not None:
            table.add_row(accelerators().short_name(name), gib(usable), str(sure or "-"), str(likely or "-"))
    return table


def _table(titles: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for index, title in enumerate(titles):
        table.add_column(title, justify="right" if index else "left", no_wrap=True)
    return table
