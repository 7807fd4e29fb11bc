"""`samestep audit`: the jobs that are there, and what policies would do to them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from webhook.answer.document import API_VERSION, document
from webhook.answer.message import leading_finding
from webhook.answer.wording import one_line
from webhook.cli.audited import Audited, Auditor, Found, State, jobs_in
from webhook.cli.documents import Unreadable
from webhook.cli.options import files_option, policies_option
from webhook.cli.output import dumped
from webhook.cli.printing import put, table
from webhook.cli.seen import cluster_options, seen_in, seen_live
from webhook.cli.settings import SETTINGS
from webhook.cli.worlds import fleet_option
from webhook.decision.landed import Landed
from webhook.model.verdict import Verdict

_TOLD = {
    Found.MIXED: "mixed: runs on several models",
    Found.AT_RISK: "at risk: too little memory where it is, or may come to",
    Found.UNPINNED: "unpinned: several models are left to it",
    Found.WOULD_BE_DENIED: "would be denied if it were created now",
    Found.WOULD_BE_PINNED: "would be pinned if it were created now",
}
_IN_TABLE = {
    Found.MIXED: "mixed",
    Found.AT_RISK: "at risk",
    Found.UNPINNED: "unpinned",
    Found.WOULD_BE_DENIED: "would be denied",
    Found.WOULD_BE_PINNED: "would be pinned",
}
_AS_NOBODY = (
    "as if someone in no group had created it: pools that are for groups, or conditions on the user, might say "
    "otherwise, and who did is not known"
)
_FOUND = frozenset(Found) - {Found.WOULD_BE_PINNED}
"""What makes the exit status 1. What would be pinned runs well enough where it is not one of these as well."""


@click.command(context_settings=SETTINGS)
@files_option(
    "A dump instead of a cluster: `kubectl get nodes,pods,jobs,… -A -o yaml`, pods with their nodes. Repeatable.",
)
@fleet_option("More of a dump; `samestep fleet --snapshot` has the nodes. Repeatable.")
@cluster_options
@click.option("-n", "--namespace", help="Jobs of this namespace alone.")
@policies_option("Policies to try out. They go before those of the cluster, or the dump, of the same name.")
@click.option("--all", "shows_all", is_flag=True, help="Show jobs of which nothing was found as well.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def audit(
    ctx: click.Context,
    files: tuple[Path, ...],
    fleets: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    policies: Path | None,
    shows_all: bool,  # noqa: FBT001 - click passes it by name
    output: str,
) -> None:
    """Find the jobs, running or pending, that are mixed, at risk or unpinned, and those that policies would refuse.

    Each job is judged by the webhook's own review as if it were created again now, its own pods' room given back. Where
    its pods are is told as it is. Nothing is changed.

    Exit status: 0 nothing was found, 1 some job is mixed, at risk, unpinned or would be denied, 2 something could not
    be read.
    """
    if files or fleets:
        if kubeconfig or context:
            raise click.UsageError("-f and --fleet, or a cluster: one of them")
        seen = seen_in(files, fleets, policies)
    else:
        seen = seen_live(kubeconfig, context, policies)
    auditor = Auditor(seen)
    jobs = [one for one in jobs_in(seen) if namespace is None or one.namespace == namespace]
    if namespace is not None and not jobs and seen.lacks_namespace(namespace):
        raise click.UsageError(f"there is no namespace {namespace}")
    audited = [one for one in map(auditor.judge, jobs) if one is not None]
    if output == "table":
        _show(audited, shows_all=shows_all)
        for problem in seen.problems:
            click.echo(f"unreadable: {problem}", err=True)
    else:
        click.echo(dumped(_listing(audited, seen.problems), output))
    if seen.problems:
        ctx.exit(2)
    ctx.exit(1 if any(not _FOUND.isdisjoint(one.found) for one in audited) else 0)


def _show(audited: Sequence[Audited], *, shows_all: bool) -> None:
    if shown := [one for one in audited if one.found or shows_all]:
        put(_jobs(shown), 0)
        click.echo()
    put(_summary(audited), 0)
    if guessed := sum(one.review.as_nobody for one in audited):
        click.echo()
        put(f"{guessed} of them {'was' if guessed == 1 else 'were'} judged {_AS_NOBODY}.", 0)
    if denied := _denied(audited):
        click.echo()
        put(_by_code(denied), 0)
    if shown:
        click.echo()
        put("`samestep explain TYPE/NAME -n NAMESPACE` tells of one job why.", 0)


def _jobs(shown: Iterable[Audited]) -> Table:
    rows = table(("NAMESPACE", "JOB", "STATE", "LANDED ON", "FOUND", "CODES"))
    for one in shown:
        name = one_line(f"{one.owned.kind.kind.lower()}/{one.owned.name}")
        found = ", ".join(_IN_TABLE[found] for found in one.found)
        codes = " ".join(dict.fromkeys(finding.code for finding in one.review.decision.findings))
        rows.add_row(one_line(one.owned.namespace), name, one.state, told_landing(one.landed), found, codes)
    return rows


def told_landing(where: Landed) -> str:
    """Where the pods of a job are, in a line; empty where it has none."""
    unknown = f"{where.unknown} on nodes of unknown model" if where.unknown else ""
    waiting = f"{where.waiting} without a node" if where.waiting else ""
    return one_line(", ".join(filter(None, (where.told, unknown, waiting))))


def _summary(audited: Sequence[Audited]) -> Table:
    rows = table(("JOBS", "WHAT OF THEM"))
    states = Counter(one.state for one in audited)
    told = ", ".join(f"{states[state]} {state.lower()}" for state in State if states[state])
    rows.add_row(str(len(audited)), f"with accelerators{f': {told}' if told else ''}")
    counts = Counter(found for one in audited for found in one.found)
    for found in Found:
        rows.add_row(str(counts[found]), _TOLD[found])
    return rows


def _by_code(denied: Counter[tuple[str, str]]) -> Table:
    rows = table(("JOBS", "DENIED BY", "NAMESPACE"))
    for (code, namespace), count in sorted(denied.items()):
        rows.add_row(str(count), code, one_line(namespace))
    return rows


def _denied(audited: Iterable[Audited]) -> Counter[tuple[str, str]]:
    """By the code that a denial would lead with, and by namespace."""
    denials = (one for one in audited if one.review.verdict is Verdict.DENY)
    return Counter((leading_finding(one.review).code, one.owned.namespace) for one in denials)


def _listing(audited: Sequence[Audited], problems: Iterable[Unreadable]) -> dict[str, Any]:
    """The whole document. Every key is always there; keys are only ever added."""
    counts = Counter(found for one in audited for found in one.found)
    states = Counter(one.state for one in audited)
    return {
        "apiVersion": API_VERSION,
        "kind": "AuditReport",
        "summary": {
            "jobs": len(audited),
            "states": {state.value: states[state] for state in State},
            "found": {found.value: counts[found] for found in Found},
            "denied": [
                {"code": code, "namespace": namespace, "jobs": count}
                for (code, namespace), count in sorted(_denied(audited).items())
            ],
        },
        "items": [_item(one) for one in audited],
        "errors": [{"source": one.source, "field": one.field, "message": one.message} for one in problems],
    }


def _item(one: Audited) -> dict[str, Any]:
    return {
        **document(one.review, one.owned.document.source),
        "state": one.state,
        "found": list(one.found),
        "landed": landing_document(one.landed),
        "asNobody": one.review.as_nobody,
    }


def landing_document(where: Landed) -> dict[str, Any]:
    """Where the pods of a job are, for programs."""
    return {
        "models": [{"model": model.product, "pods": count} for model, count in where.pods.items()],
        "unknownModel": where.unknown,
        "withoutNode": where.waiting,
    }
