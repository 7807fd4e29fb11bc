"""Options that several commands take, and what they mean."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from webhook.model.policy import Language, Policy
from webhook.model.rules import Rules
from webhook.policy.load import PolicyError, load_policy, load_rules

Command = TypeVar("Command", bound=Callable[..., Any])


def files_option(told: str, *, required: bool = False) -> Callable[[Command], Command]:
    """`-f FILE`, as often as one likes; `told` says what the files hold."""
    file = click.Path(path_type=Path)
    return click.option("-f", "--filename", "files", type=file, multiple=True, required=required, help=told)


def policies_option(told: str = "Directory or file with a TrainingPolicy.") -> Callable[[Command], Command]:
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
    """The policy there, the built-in default where none is named. Raises UsageError for one that is no good."""
    try:
        return Policy() if policies is None else load_policy(policies)
    except PolicyError as error:
        raise click.UsageError(str(error)) from None


def rules_from(policies: Path | None) -> Rules | None:
    """All policies there; None where none is named. Raises UsageError for one that is no good."""
    try:
        return None if policies is None else load_rules(policies)
    except PolicyError as error:
        raise click.UsageError(str(error)) from None
