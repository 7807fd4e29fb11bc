"""`samestep explain`: what a finding code means, or what is read of a job, from where, and how it is decided."""

from pathlib import Path

import click

from webhook.answer.code_page import code_page
from webhook.answer.examples import examples
from webhook.catalog.codes import codes
from webhook.cli.documents import Unreadable, parse_all
from webhook.cli.explained import listing, show
from webhook.cli.options import (
    accelerators_from,
    files_option,
    language_option,
    policies_option,
    policy_from,
    rules_from,
)
from webhook.cli.output import dumped
from webhook.cli.reading import Explained, Reader
from webhook.cli.requests import request_of
from webhook.cli.surroundings import LOOKED_UP
from webhook.cli.worlds import fleet_option, tells_of_nodes, world_from
from webhook.intake.admission import NotAReview
from webhook.model.policy import Language


@click.command()
@click.argument("code", required=False)
@files_option(
    "Manifests or AdmissionReviews, YAML or JSON; - is standard input. Repeatable.",
)
@fleet_option("Nodes to decide on, as `samestep check` takes them. Repeatable.")
@policies_option()
@language_option("the policy's, else en")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.pass_context
def explain(
    ctx: click.Context,
    code: str | None,
    files: tuple[Path, ...],
    fleets: tuple[Path, ...],
    policies: Path | None,
    language: Language | None,
    output: str,
) -> None:
    """Say what a finding code (SST201) means and how to get out. Without CODE: list all of them.

    With -f: show what is read of each job in the files, from where, and what is not read and why. With --fleet as well:
    how the job is decided, step by step.

    Exit status: 0 whatever the verdicts, 2 something could not be read.
    """
    if files:
        if code is not None:
            raise click.UsageError("CODE or -f, one of them")
        if language is not None:
            raise click.UsageError("--lang goes with CODE: what is read of files is told in English")
        _explain_files(ctx, files, fleets, policies, output)
        return
    if fleets or output != "text":
        raise click.UsageError("--fleet and -o go with -f")
    language = language or policy_from(policies).language
    known = codes(language)
    if code is None:
        for one in known.values():
            click.echo(f"{one.code}  {one.action:4}  {one.title}")
        return
    found = known.get(code.upper())
    if found is None:
        raise click.UsageError(f'there is no code "{code}"; `samestep explain` lists them all')
    click.echo(code_page(found, examples(language).get(found.code, ""), language))


def _explain_files(
    ctx: click.Context, files: tuple[Path, ...], fleets: tuple[Path, ...], policies: Path | None, output: str
) -> None:
    documents, problems = parse_all(files)
    world, faults = world_from([*accelerators_from(policies), *documents], fleets, rules_from(policies))
    problems += faults
    reader = Reader(world, decided=tells_of_nodes(fleets, documents))
    found: list[tuple[str, Explained]] = []
    for one in documents:
        if one.object["kind"] not in LOOKED_UP:
            try:
                found.append((one.source, reader.explained(request_of(one))))
            except NotAReview as error:
                field, _, fault = str(error).partition(": ")
                problems.append(Unreadable(one.source, fault, field))
    if output == "text":
        show(found)
        for problem in problems:
            click.echo(f"unreadable: {problem}", err=True)
    else:
        click.echo(dumped(listing(found, problems), output))
    ctx.exit(2 if problems else 0)
