"""A certificate for where neither files nor a Secret hold one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from webhook.cluster.authority import Lives, issue

_LIVES = Lives(certificate=timedelta(days=365), backdated=timedelta(minutes=5))


def self_signed(hosts: Sequence[str]) -> tuple[bytes, bytes, bytes]:
    """PEM of a new authority's certificate, of a leaf that it signed for `hosts` (names or addresses) and of its key.

    The authority's key is thrown away: it signs nothing else.
    """
    issued = issue(hosts, datetime.now(UTC), _LIVES)
    return issued.authority.bundle, *issued.pair
