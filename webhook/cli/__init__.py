"""The `samestep` program."""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "audit": "audit:audit",
        "bundle": "bundle:bundle_command",
        "catalog": "catalog:catalog",
        "check": "check:check",
        "completion": "completion:completion",
        "explain": "explain:explain",
        "fleet": "fleet:fleet",
        "init": "init:init",
        "learn": "learn:learn",
        "lint": "lint:lint",
        "render": "render:render",
        "schema": "schema:schema",
        "serve": "serve:serve",
        "size": "size:size",
        "test": "test:test",
        "uninstall": "uninstall:uninstall",
        "webhooks": "webhooks:webhooks",
    }
)
"""Each command's module here, and what it is called in it."""


class _Program(click.Group):
    """Commands are imported when they are asked for: what the others need takes `samestep serve` 6 MiB that it would
    keep, and each of them time to start. Until then their names stand for them."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 (click's own)
        super().__init__(**settings, commands={name: click.Command(name) for name in _COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's words)
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
        # Its own too: click keeps the help option of a command's first call, with or without the group.
        command.context_settings.update(_SETTINGS)
        return command


@click.group(cls=_Program, context_settings=_SETTINGS)
@click.version_option(package_name="samestep", prog_name="samestep")
def main() -> None:
    """Keeps every GPU training job on one GPU model."""


def plugin() -> None:
    """The same as a plugin of kubectl, which runs what is named kubectl-samestep."""
    main(prog_name="kubectl samestep")


def plugin_completion() -> None:
    """kubectl runs what is named kubectl_complete-samestep for what may come next."""
    from webhook.cli.completion import for_kubectl

    for line in for_kubectl(main, sys.argv[1:]):
        click.echo(line)
