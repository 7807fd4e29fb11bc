"""The `samestep` program."""

import click

from webhook.cli.check import check
from webhook.cli.explain import explain
from webhook.cli.fleet import fleet
from webhook.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="samestep", prog_name="samestep")
def main() -> None:
    """Keeps every GPU training job on one GPU model."""


for command in (check, explain, fleet, serve):
    main.add_command(command)
