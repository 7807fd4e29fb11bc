"""Options that several commands take, and what they mean."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from webhook.cli.documents import Document
from webhook.model.policy import Language, Policy
from webhook.model.rules import Rules
from webhook.policy.common import common
from webhook.policy.load import Loaded, PolicyError, load, load_policy, load_rules
from webhook.policy.settle import NO_FILES

_POLICIES = Path("policies")

Command = TypeVar("Command", bound=Callable[..., Any])
Found = TypeVar("Found", Policy, Rules)


def files_option(told: str, *, required: bool = False) -> Callable[[Command], Command]:
    """`-f FILE`, as often as one likes; `told` says what the files hold."""
    file = click.Path(path_type=Path)
    return click.option("-f", "--filename", "files", type=file, multiple=True, required=required, help=told)


def policy_paths(command: Command) -> Command:
    """Any number of files and folders. None: the folder `policies`, else the one we are in."""

    def given(_: click.Context, __: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return paths or (_POLICIES if _POLICIES.is_dir() else Path(),)

    path = click.Path(path_type=Path)
    return click.argument("paths", nargs=-1, metavar="[PATH]...", type=path, callback=given)(command)


def policies_option(told: str = "Directory or file with TrainingPolicies.") -> Callable[[Command], Command]:
    """`--policies`; `told` says what they are for."""
    return click.option("--policies", type=click.Path(path_type=Path), help=told)


def language_option(default: str) -> Callable[[Command], Command]:
    """`--lang`; `default` says what counts without it."""
    return click.option(
        "--lang",
        "language",
        type=click.Choice([one.value for one in Language]),
        callback=lambda _, __, value: Language(value) if value else None,
        help=f"Language of what people read. Default: {default}.",
    )


def policy_from(policies: Path | None) -> Policy:
    """The one policy there, the built-in default where none is named. Ends the command for any fault."""
    return Policy() if policies is None else _loaded(load_policy, policies)


def common_from(policies: Path | None) -> Policy:
    """What all policies there say of things that no single job decides. Ends the command for any fault."""
    rules = rules_from(policies)
    return Policy() if rules is None else common(rules, Policy())


def rules_from(policies: Path | None) -> Rules | None:
    """All policies there; None where none is named. Ends the command for any fault: each is told on a line."""
    return None if policies is None else _loaded(load_rules, policies)


def accelerators_from(policies: Path | None) -> list[Document]:
    """The Accelerators there that count."""
    found = () if policies is None else load(policies).accelerators
    return [Document(str(policies), dict(one)) for one in found]


def files_from(policies: Path | None) -> Loaded:
    """What there is for a server, which goes on with what is good and logs the rest. Ends the command where there is no
    such path."""
    if policies is None:
        return NO_FILES
    if not policies.exists():
        raise click.UsageError(f"{policies}: No such file or directory")
    return load(policies)


def _loaded(read: Callable[[Path], Found], path: Path) -> Found:
    try:
        return read(path)
    except PolicyError as error:
        click.echo(error, err=True)
        click.get_current_context().exit(2)
