"""Contact with the API server for one thing that is followed: kept up whatever happens, told of where it is lost."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias

import aiohttp
import orjson

from webhook.cluster.access import Client, StatusError, reason

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]

_log = logging.getLogger(__name__)
_BACKOFF_S = (0.5, 30.0)
# The API server ends a watch after this long; without a limit of ours it takes 30 to 60 minutes.
_WATCH_S = 300
# Bookmarks come once a minute. What is silent for longer is asked for again, which costs one request.
_SILENCE_S = 90


class Contact:
    """When the API server last said how things stand, in seconds since the epoch; at first what `at` says.

    `trouble` is told, by what is followed, what keeps it from being followed, and since when; empty: nothing any more.
    """

    def __init__(self, followed: str, trouble: Callable[[str, str], None], at: float = 0.0) -> None:
        self.at = at
        self._followed = followed
        self._tell = trouble
        self._lost_at: float | None = None
        self._problem = ""

    async def keep(self, connect: Connect, follow: Callable[[Client], Awaitable[None]]) -> None:
        """Runs `follow` with fresh credentials, again and again, the later the longer there was no contact."""
        delay = _BACKOFF_S[0]
        while True:
            before = self.at
            try:
                async with connect() as client:
                    await follow(client)
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not end the process)
                self.lost(error)
            delay = _BACKOFF_S[0] if self.at > before else min(2 * delay, _BACKOFF_S[1])
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 (not for secrets)

    def made(self) -> None:
        """It has just said so."""
        self.at = time.time()
        if self._problem:
            _log.info("the %s are followed again", self._followed)
            self._problem = ""
            self._tell(self._followed, "")
        self._lost_at = None

    def lost(self, error: Exception) -> None:
        """It cannot be asked, or does not say."""
        if self._lost_at is None:
            self._lost_at = time.time()
        since = datetime.fromtimestamp(self._lost_at, UTC).isoformat(timespec="seconds")
        problem = f"{self._followed} not followed since {since}: {reason(error)}"
        if problem != self._problem:
            _log.warning(problem)
            self._problem = problem
            self._tell(self._followed, problem)

    def given_up(self) -> None:
        """It is no longer to be followed, which is no trouble."""
        if self._problem:
            self._problem = ""
            self._tell(self._followed, "")


async def version_served(client: Client, group: str, plural: str, known: Collection[str] = ()) -> str:
    """The version of a named group in which the cluster serves this resource: of those that are known (where any are
    said), the first from the preferred one on. Empty where there is none. Raises StatusError, aiohttp.ClientError,
    TimeoutError."""
    try:
        found = orjson.loads(await client.get(f"/apis/{group}"))
        versions = [found["preferredVersion"]["version"], *(one["version"] for one in found["versions"])]
        for version in dict.fromkeys(versions):
            if known and version not in known:
                continue
            served = orjson.loads(await client.get(f"/apis/{group}/{version}"))
            if any(one["name"] == plural for one in served["resources"]):
                return str(version)
    except StatusError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    return ""


def watching(
    client: Client, path: str, version: str, selected: Mapping[str, str] = MappingProxyType({})
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    """What happens in the collection of this path after this resourceVersion; `selected` narrows it."""
    query = {
        **selected,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(_WATCH_S),
    }
    return client.open(path, query, aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_SILENCE_S))


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, however long: aiohttp's own ends over one of 128 KiB, which the definition of a kind can exceed."""
    rest: list[bytes] = []
    async for chunk in content.iter_any():
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for part in others:
            if line := b"".join(rest).strip():
                yield line
            rest = [part]
        # A stream that is always ready would keep requests waiting.
        await asyncio.sleep(0)
