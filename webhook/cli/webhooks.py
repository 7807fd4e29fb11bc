"""`samestep webhooks`: which requests the API server is to send here."""

from pathlib import Path

import click

from webhook.cli.options import common_from, policies_option
from webhook.cli.settings import SETTINGS
from webhook.policy.kinds import kinds_of


@click.command(context_settings=SETTINGS)
@policies_option()
def webhooks(policies: Path | None) -> None:
    """Print the webhook configurations for the kinds of job that can be read.

    They are those of manifests/base/webhooks.yaml and, with --policies, also for the kinds that the policy teaches.
    """
    policy = common_from(policies)
    # kopf takes half a second to import; the other commands do without it.
    from webhook.cluster.registration import manifest

    click.echo(manifest(kinds_of(policy)), nl=False)
