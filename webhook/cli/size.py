"""`samestep size`: how much device memory a rank needs, with its parts, and the largest micro-batch that fits."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from webhook.answer.wording import gib
from webhook.catalog.accelerators import accelerators
from webhook.catalog.models import Guess, ModelSpec, OtherModel, models
from webhook.cli.documents import Document, parse_documents
from webhook.cli.surroundings import LOOKED_UP, fleet_from
from webhook.fleet.summary import summarize
from webhook.intake.read import Outside, read_job
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.request import Kind, User
from webhook.sizing.estimate import Estimate, explain, largest_micro_batch, parameter_bound_mib
from webhook.sizing.from_job import Sizable, Unsizable, training_of
from webhook.sizing.terms import HIGH, LIKELY
from webhook.sizing.training import Attention, Checkpointing, Method, Offload, Optimizer, Parallel, Precision, Training

_Choice = TypeVar("_Choice", bound=StrEnum)
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
    fleets: tuple[Path, ...],
    output: str,
    *,
    why: bool,
    **flags: Any,  # noqa: ANN401 (click passes them by name)
) -> None:
    """Estimate the device memory that each rank of a training job needs.

    What no flag says is not assumed: it widens the interval from the leanest to the heaviest that is usual.
    """
    job = None if file is None else _job(file)
    found = _read(job, flags) if job else None
    name = flags["name"]
    if not name and not isinstance(found, Sizable):
        because = f": {found.why}" if found else ""
        raise click.UsageError(f"which model? give --model (a hub name, say meta-llama/Llama-3.1-8B){because}")
    if name and (other := models().other(name)) is not None:
        _unknown(other, output)
        return
    model = models().find(name) or models().guess(name) if name else None
    if name and model is None:
        raise click.UsageError(
            f'no model "{name}" is known, and its name tells no size; see `models.yaml` of the catalog'
        )
    # Where a trainer says all else, a length that is not told only widens the interval.
    for flag in ("micro_batch",) if isinstance(found, Sizable) else ("micro_batch", "seq_len"):
        if flags[flag] is None:
            raise click.UsageError(
                f"--{flag.replace('_', '-')} is missing{' and the job does not say it' if file else ''}"
            )
    run = _changed(found, model, flags) if isinstance(found, Sizable) else _plain(model, flags)
    devices, problems = _devices(fleets)
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
    if output == "json":
        click.echo(json.dumps(_document(run, devices, why=why), indent=2))
    else:
        _print(run, devices, why=why)
    ctx.exit(2 if problems else 0)


def _read(job: TrainingJob, flags: dict[str, Any]) -> Sizable | Unsizable:
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
    because = "there is none in it"
    for found in parse_documents(file):
        if not isinstance(found, Document):
            raise click.UsageError(f"{found}")
        if found.object["kind"] in LOOKED_UP:
            continue
        group, _, version = found.object["apiVersion"].rpartition("/")
        kind = Kind(group, version, found.object["kind"])
        job = read_job(found.object, kind=kind, namespace="default", user=User())
        if isinstance(job, TrainingJob):
            return job
        if isinstance(job, Outside):
            because = "; ".join([job.because, *(str(finding.facts.get("problem", "")) for finding in job.findings)])
        else:
            because = f"{kind} holds others; give the job itself"
    raise click.UsageError(f"{file.name}: no training job was read: {because}")


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


def _devices(fleets: tuple[Path, ...]) -> tuple[dict[str, float], list[Any]]:
    """Usable MiB by product: of the fleet where one is given, else of the catalog."""
    reserve = Policy().reserve_mib
    if not fleets:
        known = ((one.product, one.memory_mib) for one in accelerators().products if not one.display)
        return {product: mib - reserve for product, mib in known if mib is not None}, []
    fleet, problems = fleet_from(fleets)
    rows = ((row.product, row.memory_mib) for row in summarize(fleet))
    return {product: mib - reserve for product, mib in rows if mib is not None}, problems


def _document(run: Sizable, devices: dict[str, float], *, why: bool) -> dict[str, object]:
    training, found = run.training, run.estimate()
    document: dict[str, object] = {
        **_interval(found.low_mib, found.likely_mib, found.high_mib),
        "parts": [
            {"part": part.name.value, **_interval(part.low_mib, part.likely_mib, part.high_mib)} for part in found.parts
        ],
        "source": "guessed" if found.guessed else "estimated",
        "largestMicroBatch": {name: largest_micro_batch(training, usable) for name, usable in devices.items()},
    }
    if run.read:
        document["read"] = {
            name: {"value": said.value, "by": said.name, "field": said.field} for name, said in run.read.items()
        }
        document["assumptions"] = list(run.assumptions)
        document["open"] = list(run.open)
        document["mayDeny"] = run.may_deny
    if why:
        document["explanation"] = [
            {"part": term.part.value, "mib": round(term.bytes / 2**20), "formula": term.formula, "source": term.source}
            for term in explain(training)
        ]
    return document


def _interval(low: float | None, likely: float | None, high: float | None) -> dict[str, int | None]:
    return {
        name: None if mib is None else round(mib)
        for name, mib in (("lowMib", low), ("likelyMib", likely), ("highMib", high))
    }


def _print(run: Sizable, devices: dict[str, float], *, why: bool) -> None:
    training, found = run.training, run.estimate()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if isinstance(training.model, Guess):
        console.print(f'no model "{training.model.name}" is known: guessed from the size in its name')
    for name, said in run.read.items():
        console.print(f"read: {name} {said.value} ({said.name}, {said.field})", soft_wrap=True, markup=False)
    for sentence in run.assumptions:
        console.print(sentence, soft_wrap=True, markup=False)
    for sentence in run.open:
        console.print(f"may not deny: {sentence}", soft_wrap=True, markup=False)
    console.print(_parts(found))
    if why:
        console.print()
        for term in explain(training):
            console.print(
                f"{term.part.value}: {gib(term.bytes / 2**20)} = {term.formula}\n  {term.source}", soft_wrap=True
            )
    console.print()
    console.print(_largest(training, sorted(devices.items(), key=lambda one: (one[1], one[0]))))


def _parts(found: Estimate) -> Table:
    table = _table(("PART", "LOW", "LIKELY", "HIGH"))
    for part in found.parts:
        table.add_row(part.name.value, *(gib(mib) for mib in (part.low_mib, part.likely_mib, part.high_mib)))
    table.add_row("in all", *(gib(mib) for mib in (found.low_mib, found.likely_mib, found.high_mib)))
    return table


def _largest(training: Training, devices: Iterable[tuple[str, float]]) -> Table:
    """Two figures each: a micro-batch that fits at the high end, and one that probably does."""
    table = _table(("MODEL", "USABLE", "FITS", "LIKELY FITS"))
    for name, usable in devices:
        sure, likely = (largest_micro_batch(training, usable, end) for end in (HIGH, LIKELY))
        table.add_row(accelerators().short_name(name), gib(usable), str(sure or "-"), str(likely or "-"))
    return table


def _table(titles: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for index, title in enumerate(titles):
        table.add_column(title, justify="right" if index else "left", no_wrap=True)
    return table


def _unknown(other: OtherModel, output: str) -> None:
    """A model without layer counts: nothing but a bound is known."""
    bound = parameter_bound_mib(other.parameters, 1)
    if output == "json":
        nothing: dict[str, object] = {"parts": [], "source": "unknown", "largestMicroBatch": {}}
        click.echo(json.dumps({**_interval(None, None, None), **nothing}, indent=2))
        return
    click.echo(
        f"{other.name} is a {other.what} model: no memory per sample was published for it, so the need is unknown.\n"
        f"Its {other.parameters:,} parameters alone take {gib(bound)} or more. Measure a run and declare it:\n"
        "samestep.dev/memory-per-device, or samestep.dev/memory-fixed with samestep.dev/memory-per-sample."
    )
