"""The Prometheus that a command is told of."""

from pathlib import Path

import click

from webhook.cluster.prometheus import Endpoint


def endpoint(url: str | None, token_file: Path | None, ca_file: Path | None) -> Endpoint | None:
    """Where it is; None where none is named. Raises UsageError where it cannot be used."""
    if url is None:
        if token_file or ca_file:
            raise click.UsageError("a token or authorities for Prometheus go with --prometheus")
        return None
    found = Endpoint(url, token_file, ca_file)
    if problem := found.problem():
        raise click.UsageError(f"--prometheus: {problem}")
    return found
