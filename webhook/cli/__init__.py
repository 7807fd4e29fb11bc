"""The `samestep` program."""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from webhook.cli.settings import SETTINGS

_NAMES = (
    "audit",
    "bundle",
    "catalog",
    "check",
    "completion",
    "explain",
    "fleet",
    "init",
    "learn",
    "lint",
    "render",
    "schema",
    "serve",
    "size",
    "test",
    "uninstall",
    "webhooks",
)
"""Of the commands; a command is in the module of its name, under its name."""


class _Commands(Mapping[str, click.Command]):
    """Commands by name, imported when they are asked for: what the others need takes `samestep serve` 6 MiB that it
    would keep, and each of them time to start."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in _NAMES:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


@click.group(context_settings=SETTINGS)
@click.version_option(package_name="samestep", prog_name="samestep")
def main() -> None:
    """Keeps every GPU training job on one GPU model."""


main.commands = _Commands()  # type: ignore[assignment] # it wants to add to them only in `add_command`


def plugin() -> None:
    """The same as a plugin of kubectl, which runs what is named kubectl-samestep."""
    main(prog_name="kubectl samestep")


def plugin_completion() -> None:
    """kubectl runs what is named kubectl_complete-samestep for what may come next."""
    from webhook.cli.completion import for_kubectl

    for line in for_kubectl(main, sys.argv[1:]):
        click.echo(line)
