"""`samestep fleet`: the fleet as decisions see it, and its snapshot."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from webhook.answer.wording import gib
from webhook.cli.surroundings import fleet_from
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import NodeError, read_node
from webhook.fleet.snapshot import to_objects
from webhook.fleet.summary import summarize
from webhook.model.fleet import Fleet

_PAGE = 250


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Nodes from files (`kubectl get nodes -o yaml`, or a snapshot) instead of a cluster. Repeatable.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Which kubeconfig to use for a live cluster.")
@click.option("--context", help="Which context of it.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def fleet(
    ctx: click.Context, files: tuple[Path, ...], kubeconfig: Path | None, context: str | None, output: str
) -> None:
    """Show the nodes with accelerators, by model. -o json|yaml prints a snapshot for --fleet FILE."""
    if files:
        known, problems = fleet_from(files)
        for problem in problems:
            click.echo(f"unreadable: {problem}", err=True)
    else:
        known, problems = _live(kubeconfig, context), []
    if output == "table":
        Console(width=None if sys.stdout.isatty() else 120).print(_table(known))
    else:
        snapshot = {"apiVersion": "v1", "kind": "List", "items": to_objects(known)}
        click.echo(
            json.dumps(snapshot, indent=2) if output == "json" else yaml.safe_dump(snapshot, sort_keys=False).rstrip()
        )
    ctx.exit(2 if problems else 0)


def _table(known: Fleet) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title, justify in (("MODEL", "left"), ("RESOURCE", "left"), ("MEMORY", "right"), ("NODES", "right")):
        table.add_column(title, justify="right" if justify == "right" else "left", no_wrap=True)
    table.add_column("THERE", justify="right")
    table.add_column("NOW", justify="right")
    table.add_column("NOTES")
    for row in summarize(known):
        memory = gib(row.memory_mib) if row.memory_mib is not None else "unknown"
        notes = ", ".join(row.notes)
        table.add_row(
            row.model, row.resource, memory, str(row.nodes), str(row.devices_there), str(row.devices_now), notes
        )
    return table


def _live(kubeconfig: Path | None, context: str | None) -> Fleet:
    nodes = []
    for obj in _pages(kubeconfig, context):
        try:
            node = read_node(obj)
        except NodeError:
            continue
        if node is not None:
            nodes.append(node)
    return build_fleet(nodes)


def _pages(kubeconfig: Path | None, context: str | None) -> Iterator[dict[str, Any]]:
    # The client takes half a second to import; commands that read files do without it.
    import urllib3
    from kubernetes import client, config

    try:
        config.load_kube_config(str(kubeconfig) if kubeconfig else None, context=context)  # type: ignore[no-untyped-call]
        core, token = client.CoreV1Api(), ""
        while True:
            # Undecoded, as the API server sent it: its types are not what the signature says.
            answer: Any = core.list_node(limit=_PAGE, _continue=token or None, _preload_content=False)
            page = json.loads(answer.data)
            yield from page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return
    except config.ConfigException as error:
        raise click.ClickException(f"no cluster to ask: {error}") from None
    except client.ApiException as error:
        raise click.ClickException(f"the API server refused to list nodes: {error.status} {error.reason}") from None
    except urllib3.exceptions.HTTPError as error:
        raise click.ClickException(f"the API server cannot be reached: {type(error).__name__}") from None
