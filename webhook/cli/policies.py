"""`--policies`, as every command takes it."""

from pathlib import Path

import click

from webhook.model.policy import Policy
from webhook.policy.load import PolicyError, load_policy

policies_option = click.option(
    "--policies", type=click.Path(path_type=Path), help="Directory or file with a TrainingPolicy."
)


def policy_from(policies: Path | None) -> Policy:
    """The policy there, the built-in default where none is named. Raises UsageError for one that is no good."""
    try:
        return Policy() if policies is None else load_policy(policies)
    except PolicyError as error:
        raise click.UsageError(str(error)) from None
