"""`samestep uninstall`: all of it out of a cluster, in the order in which nothing is ever blocked."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.cli.live import asked
from webhook.cli.settings import SETTINGS

if TYPE_CHECKING:
    from webhook.cluster.access import Client

_WITH = {
    "namespaces": ", with all that is in it",
    "customresourcedefinitions": ", with every object of this kind, whoever wrote it",
}


@click.command(context_settings=SETTINGS)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Which kubeconfig to use.")
@click.option("--context", help="Which context of it.")
@click.option("--only", type=click.Choice(["webhooks"]), help="Stop the API server from asking, and no more.")
@click.option(
    "--crds",
    is_flag=True,
    help="Also the kinds of ours, and with them every policy, pool, exception, accelerator and profile.",
)
@click.option("--yes", is_flag=True, help="Do it. Without, what would be removed is listed.")
def uninstall(
    kubeconfig: Path | None,
    context: str | None,
    only: str | None,
    crds: bool,  # noqa: FBT001 - click passes it by name
    yes: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Remove Samestep from a cluster.

    The webhook configurations go first, so that no job is ever refused because nobody answers. What has the label
    app.kubernetes.io/part-of=samestep goes after them. Jobs that were pinned stay pinned.
    """
    if only and crds:
        raise click.UsageError("--crds goes with all of it, not with --only")
    asked(kubeconfig, context, lambda client: _removed(client, only, crds=crds, yes=yes))


async def _removed(client: "Client", only: str | None, *, crds: bool, yes: bool) -> None:
    # What it imports takes half a second; commands that read files do without.
    from webhook.cluster.removal import Part, parts, remove

    def told(part: Part) -> None:
        click.echo(f"{part} removed")

    found = await parts(client, only_webhooks=only == "webhooks", definitions=crds)
    if not found:
        click.echo("there is nothing of Samestep in this cluster")
    elif yes:
        await remove(client, found, told)
    else:
        for part in found:
            click.echo(f"{part}{_WITH.get(part.plural, '')}")
        click.echo("nothing has been removed: --yes removes these, in this order")
