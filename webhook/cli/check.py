"""`samestep check`: the webhook's verdict without a cluster."""

import difflib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import jsonpatch
import yaml

from webhook.answer.document import document, reference, review_list
from webhook.answer.message import message
from webhook.answer.response import patch
from webhook.answer.warnings import warnings
from webhook.answer.wording import slowed
from webhook.cli.documents import Unreadable, parse_all
from webhook.cli.options import accelerators_from, files_option, language_option, policies_option, rules_from
from webhook.cli.output import dumped
from webhook.cli.requests import request_of
from webhook.cli.settings import SETTINGS
from webhook.cli.surroundings import LOOKED_UP
from webhook.cli.worlds import fleet_option, tells_of_nodes, world_from
from webhook.decision.scope import scope
from webhook.intake.admission import NotAReview
from webhook.model.job import Coupling, TrainingJob
from webhook.model.policy import Language, Policy
from webhook.model.verdict import Review, Verdict
from webhook.review import review


@dataclass(frozen=True, slots=True)
class Item:
    """One reviewed object and where it was read."""

    source: str
    review: Review


@click.command(context_settings=SETTINGS)
@files_option(
    "Manifests or AdmissionReviews, YAML or JSON; - is standard input. What a job refers to (the runtime of a "
    "TrainJob) is looked up among them. Repeatable.",
    required=True,
)
@fleet_option(
    "Nodes: `kubectl get nodes -o yaml` or `samestep fleet --snapshot`. Pods beside them count as what is in use, "
    "TrainingProfiles as what earlier runs took. "
    "Repeatable."
)
@policies_option("Directory or file with TrainingPolicies.")
@language_option("what the policy says")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[Path, ...],
    fleets: tuple[Path, ...],
    policies: Path | None,
    language: Language | None,
    output: str,
) -> None:
    """Say what the webhook would answer, and show what it would change.

    Exit status: 0 all admitted or pinned, 1 some denied, 2 something could not be read.
    """
    documents, problems = parse_all(files)
    if not tells_of_nodes(fleets, documents):
        raise click.UsageError("no nodes to decide on: give --fleet FILE (kubectl get nodes -o yaml)")
    world, faults = world_from([*accelerators_from(policies), *documents], fleets, rules_from(policies))
    problems += faults
    items: list[Item] = []
    for one in documents:
        if one.object["kind"] in LOOKED_UP:
            continue
        try:
            found = review(request_of(one), world)
            items.append(Item(one.source, replace(found, language=language or found.language)))
        except NotAReview as error:
            field, _, fault = str(error).partition(": ")
            problems.append(Unreadable(one.source, fault, field))
    _print(items, problems, output)
    if problems:
        ctx.exit(2)
    ctx.exit(1 if any(item.review.verdict is Verdict.DENY for item in items) else 0)


def _print(items: list[Item], problems: list[Unreadable], output: str) -> None:
    if output == "text":
        for item in items:
            click.echo(_text(item))
        for problem in problems:
            click.echo(f"unreadable: {problem}", err=True)
        return
    errors = [{"source": one.source, "field": one.field, "message": one.message} for one in problems]
    whole = review_list([document(item.review, item.source) for item in items], errors)
    click.echo(dumped(whole, output))


def _text(item: Item) -> str:
    one = item.review
    name = reference(one)["name"] or ""
    named = f"{one.request.namespace}/{name}".removeprefix("/")
    return "\n".join([f"{item.source}  {one.request.kind.kind} {named}: {verdict(one)}", *consequences(one)])


def verdict(one: Review) -> str:
    """The verdict and, in brackets, what it rests on."""
    because = one.because or (_coupled(one.job, one.policy) if one.job else "")
    return f"{one.verdict} ({because})" if because else str(one.verdict)


def consequences(one: Review) -> list[str]:
    """What a person gets to read, and what is changed: lines that are indented already."""
    lines: list[str] = []
    if one.verdict is Verdict.DENY:
        lines += [f"  {line}".rstrip() for line in message(one).splitlines()]
    lines += [f"  {line}" for line in warnings(one)]
    if one.decision.pin is not None and one.decision.straggler is not None:
        lines.append(f"  {slowed(one.decision.straggler)}")
    return [*lines, *(f"  {line}" for line in _diff(one))]


def _coupled(job: TrainingJob, policy: Policy) -> str:
    """How the ranks are coupled, and what says so."""
    found = scope(job, policy)
    if found.coupling is Coupling.SERVING:
        return f"Serving, out of scope: {job.coupling_because}"
    if found.certain and found.coupling is not job.coupling:
        return f"{found.coupling}: annotation samestep.dev/coupling"
    return f"{job.coupling}: {job.coupling_because}"


def _diff(one: Review) -> list[str]:
    """The patch as a unified diff of YAML, applied by the `jsonpatch` library as an API server would."""
    operations = patch(one)
    if not operations:
        return []
    before = _plain(one.request.object)
    after = jsonpatch.apply_patch(before, operations)
    return list(
        difflib.unified_diff(
            yaml.safe_dump(before, sort_keys=False).splitlines(),
            yaml.safe_dump(after, sort_keys=False).splitlines(),
            "submitted",
            "admitted",
            lineterm="",
            n=2,
        )
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    return json.loads(json.dumps(value))
