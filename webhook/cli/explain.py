"""`samestep explain`: what a finding code means, what is read of a job, from where, and how it is decided, or what of a
job that is there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from webhook.answer.code_page import code_page
from webhook.answer.examples import examples
from webhook.catalog.codes import codes
from webhook.cli.bundling import BundleError, opened
from webhook.cli.documents import Unreadable, parse_all
from webhook.cli.explained import listing, show
from webhook.cli.living import NotThereError, living, living_document, show_living
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
from webhook.cli.seen import Seen, cluster_options, seen_in, seen_live
from webhook.cli.settings import SETTINGS
from webhook.cli.surroundings import LOOKED_UP
from webhook.cli.worlds import fleet_option, tells_of_nodes, world_from
from webhook.intake.admission import NotAReview
from webhook.model.policy import Language


@click.command(context_settings=SETTINGS)
@click.argument("what", required=False, metavar="[CODE | TYPE/NAME]")
@files_option(
    "Manifests or AdmissionReviews, YAML or JSON; - is standard input. Repeatable.",
)
@fleet_option("Nodes to decide on, as `samestep check` takes them. Repeatable.")
@click.option("--bundle", "bundled", type=click.Path(path_type=Path), help="What `samestep bundle` wrote.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of TYPE/NAME.")
@cluster_options
@policies_option()
@language_option("the policy's, else en")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.pass_context
def explain(
    ctx: click.Context,
    what: str | None,
    files: tuple[Path, ...],
    fleets: tuple[Path, ...],
    bundled: Path | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    policies: Path | None,
    language: Language | None,
    output: str,
) -> None:
    """Say what a finding code (SST201) means and how to get out. Without CODE: list all of them.

    With TYPE/NAME, as kubectl takes it: tell of a job in a cluster what pins it, why it waits, where its pods are, how
    it can be moved, and how it would be decided now. With -f as well, of a job in a dump of a cluster.

    With --bundle: the same of the job in a debug bundle, decided again as it was.

    With -f: show what is read of each job in the files, from where, and what is not read and why. With --fleet as well:
    how the job is decided, step by step.

    Exit status: 0 whatever the verdicts, 2 something could not be read, or there is no such job.
    """
    if bundled is not None:
        if what is not None or files or fleets or kubeconfig or context or policies or language is not None:
            raise click.UsageError("--bundle holds all that there is: only -o goes with it")
        _explain_bundle(ctx, bundled, output)
        return
    if what is not None and "/" in what:
        if language is not None:
            raise click.UsageError("--lang goes with CODE: jobs are told in English")
        if (files or fleets) and (kubeconfig or context):
            raise click.UsageError("-f and --fleet, or a cluster: one of them")
        in_files = bool(files or fleets)
        seen = (
            seen_in(files, fleets, policies)
            if in_files
            else seen_live(kubeconfig, context, policies, told_of=namespace)
        )
        _explain_living(ctx, seen, what, namespace, output)
        return
    if kubeconfig or context:
        raise click.UsageError("--kubeconfig and --context go with TYPE/NAME")
    code = what
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


def _explain_bundle(ctx: click.Context, path: Path, output: str) -> None:
    try:
        found = opened(path)
    except BundleError as error:
        raise click.UsageError(str(error)) from None
    if found.manifest is None:
        _explain_living(ctx, found.seen, found.named, found.namespace, output, now=found.now)
        return
    request = replace(request_of(found.manifest), now=found.now)
    explained = Reader(found.seen.world, decided=True).explained(request)
    _put([(found.manifest.source, explained)], found.seen.problems, output)
    ctx.exit(2 if found.seen.problems else 0)


def _explain_living(
    ctx: click.Context, seen: Seen, named: str, namespace: str, output: str, *, now: float | None = None
) -> None:
    try:
        one = living(seen, named, namespace, now)
    except NotThereError:
        for problem in seen.problems:
            click.echo(f"unreadable: {problem}", err=True)
        raise
    source = one.owned.document.source
    if output == "text":
        show_living(one)
        show([(source, one.explained)])
        for problem in seen.problems:
            click.echo(f"unreadable: {problem}", err=True)
    else:
        whole = listing([(source, one.explained)], seen.problems)
        whole["items"][0]["live"] = living_document(one)
        click.echo(dumped(whole, output))
    ctx.exit(2 if seen.problems else 0)


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
    _put(found, problems, output)
    ctx.exit(2 if problems else 0)


def _put(found: Sequence[tuple[str, Explained]], problems: Sequence[Unreadable], output: str) -> None:
    if output != "text":
        click.echo(dumped(listing(found, problems), output))
        return
    show(found)
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
