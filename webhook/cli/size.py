"""`samestep size`: how much device memory a rank needs, with its parts, and the largest micro-batch that fits."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from rich.console import Console
from rich.table import Table

from webhook.answer.wording import gib
from webhook.catalog.accelerators import accelerators
from webhook.catalog.models import Guess, ModelSpec, OtherModel, models
from webhook.cli.documents import Document, parse_documents
from webhook.cli.surroundings import LOOKED_UP, fleet_from, surroundings_from
from webhook.fleet.summary import summarize
from webhook.intake.read import Outside, read_job
from webhook.model.demand import Demand, DemandSource
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.request import Kind, Object, User
from webhook.model.surroundings import Surroundings
from webhook.policy.load import PolicyError, load_policy
from webhook.sizing.demand import size as sized
from webhook.sizing.estimate import Estimate, Part, explain, largest_micro_batch, parameter_bound_mib
from webhook.sizing.from_job import Sizable, Unsizable, training_of
from webhook.sizing.largest import largest
from webhook.sizing.measured import MeasuredRun, measured_run
from webhook.sizing.terms import HIGH, LIKELY, Term
from webhook.sizing.training import Attention, Checkpointing, Method, Offload, Optimizer, Parallel, Precision, Training

_Choice = TypeVar("_Choice", bound=StrEnum)
_DEEPEST = 2
_Whole = click.IntRange(min=1, max=1 << 31)


def _one_of(kind: type[StrEnum]) -> click.Choice[str]:
    return click.Choice([one.value for one in kind])


@click.command()
@click.option(
    "-f", "--filename", "file", type=click.Path(path_type=Path), help="A job to read all of it from that no flag says."
)
@click.option("--model", "name", help="The model by its hub name.")
@click.option("--micro-batch", type=_Whole, help="Samples on one device in one pass.")
@click.option("--seq-len", type=_Whole, help="Tokens a sample.")
@click.option("--method", type=_one_of(Method), help="Default: full.")
@click.option(
    "--precision", type=_one_of(Precision), help="pure: all in 16 bits; mixed: 16-bit compute, 32-bit weights."
)
@click.option("--optimizer", type=_one_of(Optimizer))
@click.option("--parallel", type=_one_of(Parallel), help="How ranks share states. Default: single, or ddp for several.")
@click.option("--world-size", type=_Whole, help="Ranks in all.")
@click.option("--tensor-parallel", type=_Whole, help="Default: 1.")
@click.option("--pipeline-parallel", type=_Whole, help="Default: 1.")
@click.option("--context-parallel", type=_Whole, help="Default: 1.")
@click.option("--accumulation", type=_Whole, help="Passes before an optimizer step.")
@click.option("--checkpointing", type=_one_of(Checkpointing), help="What is computed again in the backward pass.")
@click.option("--attention", type=_one_of(Attention))
@click.option("--offload", type=_one_of(Offload), help="Default: none.")
@click.option(
    "--policies", type=click.Path(path_type=Path), help="Policies whose memory.declared may say what the job needs."
)
@click.option(
    "--fleet",
    "fleets",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Nodes to find the largest micro-batch for, instead of the catalog. Repeatable.",
)
@click.option("--explain", "why", is_flag=True, help="Show each formula with its numbers and its source.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def size(
    ctx: click.Context,
    /,
    file: Path | None,
    policies: Path | None,
    fleets: tuple[Path, ...],
    output: str,
    *,
    why: bool,
    **flags: Any,  # noqa: ANN401 (click passes them by name)
) -> None:
    """Estimate the device memory that each rank of a training job needs.

    What no flag says is not assumed: it widens the interval from the leanest to the heaviest that is usual.
    """
    policy = _policy(policies)
    job = None if file is None else _job(file)
    devices, problems = _devices(fleets, policy)
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
    told = None if job is None or any(flags.values()) else sized(job, policy)
    if job is not None and told is not None and told.demand.source in (DemandSource.DECLARED, DemandSource.TABLED):
        found: _Found = _Linear(job, policy, told.demand)
    else:
        found = _run(file, job, flags)
    if output == "json":
        click.echo(json.dumps(_document(found, devices, why=why), indent=2))
    else:
        _print(found, devices, why=why)
    ctx.exit(2 if problems else 0)


def _run(file: Path | None, job: TrainingJob | None, flags: dict[str, Any]) -> "_Found":
    """The run that the job and the flags tell of."""
    read = _read(job, flags) if job else None
    name = flags["name"]
    if not name and (read is None or isinstance(read, Unsizable)):
        because = f": {read.why}" if read else ""
        raise click.UsageError(f"which model? give --model (a hub name, say meta-llama/Llama-3.1-8B){because}")
    if name and (other := models().other(name)) is not None:
        return _other(other, flags)
    model = models().find(name) or models().guess(name) if name else None
    if name and model is None:
        raise click.UsageError(
            f'no model "{name}" is known, and its name tells no size; see `models.yaml` of the catalog'
        )
    known = isinstance(read, (Sizable, MeasuredRun))
    # Where a trainer says all else, a length that is not told only widens the interval.
    for flag in ("micro_batch",) if known else ("micro_batch", "seq_len"):
        if flags[flag] is None:
            raise click.UsageError(
                f"--{flag.replace('_', '-')} is missing{' and the job does not say it' if file else ''}"
            )
    if isinstance(read, MeasuredRun) and model is None:
        return _Elsewhere(replace(read, micro_batch=flags["micro_batch"]))
    return _Estimated(_changed(read, model, flags) if isinstance(read, Sizable) else _plain(model, flags))


def _other(other: OtherModel, flags: dict[str, Any]) -> "_Found":
    """A model whose layers are not known."""
    if flags["micro_batch"] is None and other.measured:
        raise click.UsageError("--micro-batch is missing")
    run = measured_run(other, flags["micro_batch"] or 1, _chosen(Precision, flags["precision"]))
    # Nobody measured them with recompute.
    if run is None or flags["checkpointing"] not in (None, Checkpointing.NONE.value):
        return _Unknown(other)
    return _Elsewhere(run)


def _policy(path: Path | None) -> Policy:
    try:
        return Policy() if path is None else load_policy(path)
    except PolicyError as error:
        raise click.UsageError(str(error)) from None


def _read(job: TrainingJob, flags: dict[str, Any]) -> Sizable | MeasuredRun | Unsizable:
    """What the job's trainer is told. Micro-batch, accumulation and ranks are taken from it where no flag says them."""
    batch, accumulation = job.batch.declared or job.batch.micro, job.batch.accumulation
    found = training_of(job, flags["micro_batch"] or (batch.value if batch else 1))
    ranks = sum(role.pods * role.devices for role in job.device_roles)
    for flag, read in (
        ("micro_batch", batch and batch.value),
        ("accumulation", accumulation and accumulation.value),
        ("world_size", ranks or None),
    ):
        if flags[flag] is None:
            flags[flag] = read
    return found


def _job(file: Path) -> TrainingJob:
    documents: list[Document] = []
    for found in parse_documents(file):
        if not isinstance(found, Document):
            raise click.UsageError(f"{found}")
        documents.append(found)
    # A runtime is in the file for the job that names it; alone, it is told as the shortest such job.
    documents.sort(key=lambda one: one.object["kind"].endswith("TrainingRuntime"))
    surroundings, because = surroundings_from(documents), "there is none in it"
    for one in documents:
        if one.object["kind"] in LOOKED_UP:
            continue
        group, _, version = one.object["apiVersion"].rpartition("/")
        job = _read_job(one.object, Kind(group, version, one.object["kind"]), surroundings)
        if isinstance(job, TrainingJob):
            return job
        because = job
    raise click.UsageError(f"{file.name}: no training job was read: {because}")


def _read_job(obj: Object, kind: Kind, surroundings: Surroundings, depth: int = 0) -> TrainingJob | str:
    """The job, or the first that is held inside; else why there is none."""
    metadata = obj.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, dict) else None
    namespace = named if isinstance(named, str) and named else "default"
    job = read_job(obj, kind=kind, namespace=namespace, user=User(), surroundings=surroundings)
    if isinstance(job, Outside):
        return "; ".join([job.because, *(str(finding.facts.get("problem", "")) for finding in job.findings)])
    if isinstance(job, TrainingJob):
        return job
    inside = (_read_job(held.object, held.kind, surroundings, depth + 1) for held in job.held if depth < _DEEPEST)
    return next((one for one in inside if isinstance(one, TrainingJob)), f"{kind} holds none")


def _changed(found: Sizable, model: ModelSpec | Guess | None, flags: dict[str, Any]) -> Sizable:
    """The job's run with what flags say instead."""
    changes = {name: value for name, value in _said(flags).items() if value is not None}
    if model is not None:
        changes["model"] = model
    training = replace(found.training, **changes)
    _check(training)
    lean = None if found.lean is None or "parallel" in changes else replace(found.lean, **changes)
    return replace(found, training=training, lean=lean)


def _plain(model: ModelSpec | Guess | None, flags: dict[str, Any]) -> Sizable:
    """A run of which only flags tell."""
    assert model is not None
    said = {name: value for name, value in _said(flags).items() if value is not None}
    training = Training(**{"model": model, "seq_len": None, **said})
    least = training.tensor_parallel * training.pipeline_parallel * training.context_parallel
    training = replace(training, world_size=flags["world_size"] or least)
    _check(training)
    if flags["parallel"] is None and training.world_size > least:
        training = replace(training, parallel=Parallel.DDP)
    return Sizable(training, may_deny=False, assumptions=(), read={})


def _said(flags: dict[str, Any]) -> dict[str, Any]:
    numbers = ("micro_batch", "seq_len", "world_size", "accumulation")
    split = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    kinds: dict[str, type[StrEnum]] = {
        "method": Method,
        "precision": Precision,
        "optimizer": Optimizer,
        "parallel": Parallel,
        "checkpointing": Checkpointing,
        "attention": Attention,
        "offload": Offload,
    }
    return {
        **{name: flags[name] for name in (*numbers, *split)},
        **{name: _chosen(kind, flags[name]) for name, kind in kinds.items()},
    }


def _check(training: Training) -> None:
    least = training.tensor_parallel * training.pipeline_parallel * training.context_parallel
    if training.world_size % least:
        raise click.UsageError(
            f"--world-size {training.world_size} is no multiple of tensor × pipeline × context parallel ({least})"
        )


def _chosen(kind: type[_Choice], value: str | None) -> _Choice | None:
    return None if value is None else kind(value)


def _devices(fleets: tuple[Path, ...], policy: Policy) -> tuple[dict[str, float], list[Any]]:
    """Usable MiB by product: of the fleet where one is given, else of the catalog."""
    if not fleets:
        known = ((one.product, one.memory_mib) for one in accelerators().products if not one.display)
        return {product: mib - policy.reserve_mib for product, mib in known if mib is not None}, []
    fleet, problems = fleet_from(fleets)
    rows = ((row.product, row.memory_mib) for row in summarize(fleet))
    return {product: mib - policy.reserve_mib for product, mib in rows if mib is not None}, problems


class _Found(Protocol):
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
class _Estimated:
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
        yield from run.assumptions
        yield from (f"may not deny: {sentence}" for sentence in run.open)

    @property
    def more(self) -> dict[str, object]:
        run = self.run
        if not run.read:
            return {}
        read = {name: {"value": said.value, "by": said.name, "field": said.field} for name, said in run.read.items()}
        assumed: dict[str, object] = {"assumptions": list(run.assumptions), "open": list(run.open)}
        return {"read": read, **assumed, "mayDeny": run.may_deny}

    def explain(self) -> tuple[Term, ...]:
        return explain(self.run.training)

    def largest(self, usable: float, end: int) -> int:
        return largest_micro_batch(self.run.training, usable, end)


@dataclass(frozen=True, slots=True)
class _Elsewhere:
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
        yield from self.run.assumptions

    @property
    def more(self) -> dict[str, object]:
        return {"assumptions": list(self.run.assumptions), "mayDeny": False}

    def explain(self) -> tuple[Term, ...]:
        return ()

    def largest(self, usable: float, end: int) -> int:
        return largest(lambda batch: self.run.at(batch).end(end) <= usable)


@dataclass(frozen=True, slots=True)
class _Linear:
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
        return (f"{self.demand.source}: {' '.join(self.demand.assumptions) or 'annotations of the job'}",)

    @property
    def more(self) -> dict[str, object]:
        return {"assumptions": list(self.demand.assumptions), "mayDeny": self.demand.may_deny}

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
class _Unknown:
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


def _document(found: _Found, devices: dict[str, float], *, why: bool) -> dict[str, object]:
    document: dict[str, object] = {
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
        document["explanation"] = [
            {"part": term.part.value, "mib": round(term.bytes / 2**20), "formula": term.formula, "source": term.source}
            for term in found.explain()
        ]
    return document


def _interval(ends: tuple[float, float, float] | None) -> dict[str, int | None]:
    return {
        name: None if ends is None else round(ends[end]) for end, name in enumerate(("lowMib", "likelyMib", "highMib"))
    }


def _print(found: _Found, devices: dict[str, float], *, why: bool) -> None:
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


def _largest(found: _Found, devices: Iterable[tuple[str, float]]) -> Table:
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
