"""`samestep init`: a policy set to start from."""

from pathlib import Path

import click

from webhook.cli.documents import Unreadable
from webhook.cli.fleet_reads import read_files, read_live
from webhook.cli.settings import SETTINGS
from webhook.cli.starting import starting_set
from webhook.cli.worlds import fleet_option


@click.command(context_settings=SETTINGS)
@fleet_option(
    "Nodes from files (`kubectl get nodes -o yaml`, or a snapshot) instead of a cluster. Repeatable.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Which kubeconfig to use for a live cluster.")
@click.option("--context", help="Which context of it.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="policies", show_default=True, help="Folder to write to."
)
@click.pass_context
def init(
    ctx: click.Context, fleets: tuple[Path, ...], kubeconfig: Path | None, context: str | None, output: Path
) -> None:
    """Write a policy to start from, with tests, for the nodes of a cluster or of files.

    What was seen there stands in it as comments; where accelerators of several vendors are there, each gets an
    AcceleratorPool. Nothing is written over.
    """
    read, problems = read_files(fleets) if fleets else (read_live(kubeconfig, context), [])
    problems += [Unreadable(place, fault) for place, fault in read.faults]
    for problem in problems:
        click.echo(f"unreadable: {problem}", err=True)
    if problems:
        ctx.exit(2)
    if not read.fleet.devices:
        raise click.UsageError("no node there has an accelerator: nothing to make a policy from")
    files = {output / name: text for name, text in starting_set(read).items()}
    if there := [str(path) for path in files if path.exists()]:
        raise click.UsageError(f"nothing is written over, and {', '.join(there)} is there: give another folder with -o")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            click.echo(f"wrote {path}")
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror or 'cannot be written'}") from None
