"""`samestep size`: how much device memory a rank needs, with its parts, and the largest micro-batch that fits."""

import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from webhook.answer.wording import own_sentence
from webhook.catalog.accelerators import accelerators
from webhook.catalog.models import Guess, ModelSpec, OtherModel, models
from webhook.cli.documents import Unreadable, parse_all
from webhook.cli.options import policies_option, policy_from
from webhook.cli.output import dumped
from webhook.cli.requests import creation_of
from webhook.cli.settings import SETTINGS
from webhook.cli.sizes import Elsewhere, Estimated, Found, Linear, Observed, Unknown, document, runs, show
from webhook.cli.surroundings import LOOKED_UP, offline, surroundings_from
from webhook.evidence.lessons import lessons_of
from webhook.evidence.recipe import recipe_of
from webhook.fleet.summary import summarize
from webhook.intake.read import Outside, read_job
from webhook.intake.wrapped import DEEPEST, Held
from webhook.model.demand import DemandSource
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
from webhook.model.profile import NO_LESSONS, NO_PROFILES, Lessons, Profiles
from webhook.model.request import User
from webhook.model.surroundings import Surroundings
from webhook.policy.kinds import kinds_of
from webhook.sizing.demand import size as sized
from webhook.sizing.from_job import Sizable, Unsizable, training_of
from webhook.sizing.measured import MeasuredRun, measured_run
from webhook.sizing.training import Attention, Checkpointing, Method, Offload, Optimizer, Parallel, Precision, Training

_Choice = TypeVar("_Choice", bound=StrEnum)
_Whole = click.IntRange(min=1, max=1 << 31)


def _one_of(kind: type[StrEnum]) -> click.Choice[str]:
    return click.Choice([one.value for one in kind])


@click.command(context_settings=SETTINGS)
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
@policies_option("Policies whose memory.declared may say what the job needs.")
@click.option(
    "--fleet",
    "fleets",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Nodes to find the largest micro-batch for, instead of the catalog; TrainingProfiles beside them tell of "
    "earlier runs. Repeatable.",
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
    policy = policy_from(policies)
    job = None if file is None else _job(file, policy)
    devices, profiles, problems = _around(fleets, policy)
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
    asked = any(flags.values())
    lessons = NO_LESSONS if job is None or asked else _lessons(job, policy, profiles)
    told = None if job is None or asked else sized(job, policy)
    if job is not None and told is not None and told.demand.source in (DemandSource.DECLARED, DemandSource.TABLED):
        found: Found = Linear(job, policy, told.demand)
    else:
        try:
            found = _run(file, job, flags)
        except click.UsageError:
            if not (lessons.fits or lessons.out or lessons.demand):
                raise
            found = Observed(lessons)
    beside = [] if isinstance(found, Observed) else [*runs(lessons)]
    if output == "json":
        click.echo(dumped(document(found, devices, why=why) | ({"runs": beside} if beside else {}), output))
    else:
        for line in beside:
            click.echo(line)
        show(found, devices, why=why)
    ctx.exit(2 if problems else 0)


def _lessons(job: TrainingJob, policy: Policy, profiles: Profiles) -> Lessons:
    """What earlier runs of the job taught, in the namespace that it names."""
    if not profiles:
        return NO_LESSONS
    return lessons_of(recipe_of(job, policy.evidence), profiles, job.namespace, time.time())


def _run(file: Path | None, job: TrainingJob | None, flags: dict[str, Any]) -> Found:
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
        return Elsewhere(replace(read, micro_batch=flags["micro_batch"]))
    return Estimated(_changed(read, model, flags) if isinstance(read, Sizable) else _plain(model, flags))


def _other(other: OtherModel, flags: dict[str, Any]) -> Found:
    """A model whose layers are not known."""
    if flags["micro_batch"] is None and other.measured:
        raise click.UsageError("--micro-batch is missing")
    run = measured_run(other, flags["micro_batch"] or 1, _chosen(Precision, flags["precision"]))
    # Nobody measured them with recompute.
    if run is None or flags["checkpointing"] not in (None, Checkpointing.NONE.value):
        return Unknown(other)
    return Elsewhere(run)


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


def _job(file: Path, policy: Policy) -> TrainingJob:
    documents, problems = parse_all([file])
    if problems:
        raise click.UsageError(f"{problems[0]}")
    # A runtime is in the file for the job that names it; alone, it is told as the shortest such job.
    documents.sort(key=lambda one: one.object["kind"].endswith("TrainingRuntime"))
    surroundings, because = surroundings_from(documents), "there is none in it"
    for one in documents:
        if one.object["kind"] not in LOOKED_UP:
            request = creation_of(one.object)
            held = Held(request.kind, request.object, ())
            job = _read_job(held, request.namespace, policy, surroundings)
            if isinstance(job, TrainingJob):
                return job
            because = job
    raise click.UsageError(f"{file.name}: no training job was read: {because}")


def _read_job(
    one: Held, namespace: str, policy: Policy, surroundings: Surroundings, depth: int = 0
) -> TrainingJob | str:
    """The job, or the first that is held inside; else why there is none."""
    job = read_job(
        one.object,
        kind=one.kind,
        namespace=namespace,
        user=User(),
        known=kinds_of(policy),
        surroundings=surroundings,
        config_maps=policy.config_maps,
    )
    if isinstance(job, Outside):
        return "; ".join([job.because, *map(own_sentence, job.findings)])
    if isinstance(job, TrainingJob):
        return job
    held = job.held if depth < DEEPEST else ()
    inside = (_read_job(inner, namespace, policy, inner.sees(surroundings, one.object), depth + 1) for inner in held)
    return next((found for found in inside if isinstance(found, TrainingJob)), f"{one.kind} holds none")


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


def _around(fleets: tuple[Path, ...], policy: Policy) -> tuple[dict[str, float], Profiles, list[Unreadable]]:
    """Usable MiB by product, of the fleet where one is given, else of the catalog; and profiles beside the fleet."""
    if not fleets:
        known = ((one.product, one.memory_mib) for one in accelerators().products if not one.display)
        return {product: mib - policy.reserve_mib for product, mib in known if mib is not None}, NO_PROFILES, []
    found = offline(fleets, model_labels=policy.model_labels)
    rows = ((row.product, row.memory_mib) for row in summarize(found.fleet, model_labels=policy.model_labels))
    usable = {product: mib - policy.reserve_mib for product, mib in rows if mib is not None}
    return usable, found.profiles, found.problems
