"""`samestep completion`: what a shell needs to complete our commands and options."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL: bash (4.4 or newer), fish or zsh.

    For bash: source <(samestep completion bash), in ~/.bashrc. For zsh the same in ~/.zshrc. For fish:
    samestep completion fish > ~/.config/fish/completions/samestep.fish
    """
    made = get_completion_class(shell)
    assert made is not None, "click has all of these"
    program = ctx.find_root()
    # Of kubectl-samestep too: kubectl completes plugins by other means.
    click.echo(made(program.command, {}, "samestep", "_SAMESTEP_COMPLETE").source())
