"""The `samestep` program."""

import sys

import click

from webhook.cli.audit import audit
from webhook.cli.bundle import bundle_command
from webhook.cli.catalog import catalog
from webhook.cli.check import check
from webhook.cli.completion import completion, for_kubectl
from webhook.cli.explain import explain
from webhook.cli.fleet import fleet
from webhook.cli.init import init
from webhook.cli.learn import learn
from webhook.cli.lint import lint
from webhook.cli.render import render
from webhook.cli.schema import schema
from webhook.cli.serve import serve
from webhook.cli.size import size
from webhook.cli.test import test
from webhook.cli.uninstall import uninstall
from webhook.cli.webhooks import webhooks

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_SETTINGS)
@click.version_option(package_name="samestep", prog_name="samestep")
def main() -> None:
    """Keeps every GPU training job on one GPU model."""


_COMMANDS = (
    audit,
    bundle_command,
    catalog,
    check,
    completion,
    explain,
    fleet,
    init,
    learn,
    lint,
    render,
    schema,
    serve,
    size,
    test,
    uninstall,
    webhooks,
)

for command in _COMMANDS:
    # Its own too: click keeps the help option of a command's first call, with or without the group.
    command.context_settings.update(_SETTINGS)
    main.add_command(command)


def plugin() -> None:
    """The same as a plugin of kubectl, which runs what is named kubectl-samestep."""
    main(prog_name="kubectl samestep")


def plugin_completion() -> None:
    """kubectl runs what is named kubectl_complete-samestep for what may come next."""
    for line in for_kubectl(main, sys.argv[1:]):
        click.echo(line)
