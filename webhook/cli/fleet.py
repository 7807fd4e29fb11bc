"""`samestep fleet`: the fleet as decisions see it, and its snapshot."""

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from pydantic.alias_generators import to_camel
from rich.console import Console
from rich.table import Table

from webhook.answer.wording import gib
from webhook.cli.documents import Unreadable
from webhook.cli.fleet_reads import read_files, read_live
from webhook.cli.options import accelerators_from, common_from, files_option, policies_option
from webhook.cli.output import dumped
from webhook.cli.settings import SETTINGS
from webhook.fleet.snapshot import to_objects
from webhook.fleet.summary import ModelSummary, OddNode, odd_nodes, summarize

_SHOWN = 4


@click.command(context_settings=SETTINGS)
@files_option(
    "Nodes from files (`kubectl get nodes -o yaml`, or a snapshot) instead of a cluster; Pods, "
    "ResourceSlices, ResourceClaims and Accelerators beside them count. Repeatable.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Which kubeconfig to use for a live cluster.")
@click.option("--context", help="Which context of it.")
@policies_option("A policy whose modelLabels count.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option("--snapshot", is_flag=True, help="Print the nodes as --fleet takes them, with what decisions need alone.")
@click.pass_context
def fleet(
    ctx: click.Context,
    files: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
    policies: Path | None,
    output: str,
    snapshot: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Show the nodes with accelerators: by model, and the odd ones with the reasons."""
    labels, ours = common_from(policies).model_labels, accelerators_from(policies)
    if files:
        read, problems = read_files(files, labels, ours)
    else:
        read, problems = read_live(kubeconfig, context, labels, ours), []
    for problem in (*problems, *(Unreadable(place, fault) for place, fault in read.faults)):
        click.echo(f"unreadable: {problem}", err=True)
    if snapshot:
        items = to_objects(read.fleet, read.accelerators)
        click.echo(dumped({"apiVersion": "v1", "kind": "List", "items": items}, output))
    else:
        models = summarize(read.fleet, model_labels=labels, catalog=read.catalog)
        odd = odd_nodes(read.fleet, model_labels=labels, catalog=read.catalog)
        if output == "table":
            _tables(models, odd)
        else:
            click.echo(dumped(_document(models, odd), output))
    ctx.exit(2 if problems or read.faults else 0)


def _tables(models: Iterable[ModelSummary], odd: Iterable[OddNode]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_by_model(list(models)))
    reasons: dict[str, list[str]] = defaultdict(list)
    for node in odd:
        for reason in node.reasons:
            reasons[reason].append(node.name)
    if reasons:
        console.print()
        console.print(_by_reason(reasons))


def _by_model(models: list[ModelSummary]) -> Table:
    free = any(row.devices_free is not None for row in models)
    table = _table(
        *("MODEL", "RESOURCE", "MEMORY", "NODES", "THERE", "NOW", *(["FREE"] if free else []), "NOTES"),
        right=("MEMORY", "NODES", "THERE", "NOW", "FREE"),
    )
    for row in models:
        memory = row.memory_mib or row.share_mib
        figures = [row.nodes, row.devices_there, row.devices_now, *([row.devices_free] if free else [])]
        table.add_row(
            row.model, row.resource, gib(memory) if memory else "unknown", *map(str, figures), ", ".join(row.notes)
        )
    return table


def _by_reason(reasons: dict[str, list[str]]) -> Table:
    table = _table("ODD NODES", "COUNT", "WHICH", right=("COUNT",))
    for reason, names in reasons.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        table.add_row(reason, str(len(names)), ", ".join(names[:_SHOWN]) + more)
    return table


def _table(*titles: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in titles:
        folds = title in ("NOTES", "WHICH", "ODD NODES")
        table.add_column(title, justify="right" if title in right else "left", no_wrap=not folds)
    return table


def _document(models: Iterable[ModelSummary], odd: Iterable[OddNode]) -> dict[str, Any]:
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "FleetSummary",
        "models": [{to_camel(key): value for key, value in asdict(row).items()} for row in models],
        "oddNodes": [asdict(node) for node in odd],
    }
