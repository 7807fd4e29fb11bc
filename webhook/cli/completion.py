"""`samestep completion`: what a shell needs to complete our commands and options."""

from collections.abc import Iterator, Sequence

import click
from click.shell_completion import ShellComplete, get_completion_class

from webhook.cli.settings import SETTINGS

_SHELLS = ("bash", "fish", "zsh")
_VARIABLE = "_SAMESTEP_COMPLETE"
# What kubectl takes from a plugin (cobra's ShellCompDirective): whether files are completed beside what is listed.
_WITH_FILES, _WITHOUT_FILES = ":0", ":4"


@click.command(context_settings=SETTINGS)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL: bash (4.4 or newer), fish or zsh.

    In ~/.bashrc: source <(samestep completion bash). In ~/.zshrc the same with zsh. For fish:
    samestep completion fish > ~/.config/fish/completions/samestep.fish

    kubectl completes `kubectl samestep` by itself.
    """
    made = get_completion_class(shell)
    assert made is not None, "click has all of these"
    click.echo(made(ctx.find_root().command, {}, "samestep", _VARIABLE).source())


def for_kubectl(command: click.Command, words: Sequence[str]) -> Iterator[str]:
    """The lines that kubectl expects of `kubectl_complete-samestep`: what may stand for the last word, and then
    whether files may."""
    *before, last = words or [""]
    found = ShellComplete(command, {}, "samestep", _VARIABLE).get_completions(list(before), last)
    listed = [one for one in found if one.type == "plain"]
    yield from (f"{one.value}\t{one.help}" if one.help else str(one.value) for one in listed)
    yield _WITHOUT_FILES if len(listed) == len(found) else _WITH_FILES
