"""Events, written beside everything else: nobody waits for them, and few are kept where they cannot be written."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from webhook.answer.events import Told
from webhook.cluster.access import Client, StatusError, reason
from webhook.cluster.contact import Connect
from webhook.cluster.tasks import ended, waited
from webhook.cluster.telling import Telling
from webhook.model.request import Object

_log = logging.getLogger(__name__)
_COMPONENT = "samestep"
_MOST_WAITING = 1000
# A name has at most 253 characters, and 17 of these are the part that tells apart.
_LONGEST_NAME = 200
# Not of this Event, but of the moment.
_PASSING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED)
# What the API server says, with a 403, of a namespace that is going (NamespaceLifecycle).
_TERMINATING = "because it is being terminated"


class Outcome(StrEnum):
    """What became of an Event. THERE: it has been written before, by this replica or another."""

    WRITTEN = "Written"
    THERE = "There"
    DROPPED = "Dropped"


class Events:
    """Writes Events in the order given. `trouble` is told, under "events", what keeps them from being written; empty:
    nothing any more; it is tried again each `again_s` seconds. `count` hears what becomes of each.

    One that the API server refuses is dropped, as are the oldest where more than a thousand wait.
    """

    def __init__(
        self,
        connect: Connect,
        identity: str,
        trouble: Callable[[str, str], None],
        count: Callable[[Outcome], None] = lambda _: None,
        *,
        again_s: float = 5.0,
    ) -> None:
        self.identity = identity
        self._again_s = again_s
        self._count = count
        self._connect = connect
        self._waiting: deque[dict[str, Any]] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()
        self._tell = Telling(_log, lambda problem: trouble("events", problem))
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="events")

    async def stop(self, within_s: float = 2.0) -> None:
        """Writes what waits, for so long, and no more."""
        if self._task is not None:
            await waited(self._none, within_s)
            await ended(self._task)

    def write(self, event: dict[str, Any]) -> None:
        """Has it written, soon."""
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft()
            self.drop("more are to be written than can be")
        self._waiting.append(event)
        self._some.set()
        self._none.clear()

    def drop(self, because: str) -> None:
        """One is not written."""
        self._count(Outcome.DROPPED)
        self._tell(_not_written(because))

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            try:
                async with self._connect() as client:
                    # Kept as long as it works: to connect takes tens of milliseconds, in which nobody is answered.
                    while True:
                        await self._some.wait()
                        await self._write_next(client)
                        if not self._waiting:
                            self._some.clear()
                            self._none.set()
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not end the process)
                self._tell(_not_written(reason(error)))
                await asyncio.sleep(self._again_s)

    async def _write_next(self, client: Client) -> None:
        event = self._waiting.popleft()
        try:
            await client.send("POST", path_of(event), event)
        except StatusError as error:
            if error.status in _PASSING or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._waiting.appendleft(event)
                raise
            if error.status == HTTPStatus.CONFLICT:
                self._count(Outcome.THERE)
            elif error.status == HTTPStatus.NOT_FOUND or _TERMINATING in str(error):
                self._count(Outcome.DROPPED)  # nobody is left there to read it
            else:
                self.drop(reason(error))
                return
        except Exception:
            self._waiting.appendleft(event)
            raise
        else:
            self._count(Outcome.WRITTEN)
        self._tell("")


def event_on(about: Object, told: Told, identity: str, *, once: bool = False, count: int = 1) -> dict[str, Any]:
    """An Event on this object, written by the replica that is called so. `once`: whoever writes it, and whenever, one
    with this reason on this object has this name."""
    metadata, now = about["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Those of an object of the cluster belong into this namespace.
    namespace = metadata.get("namespace") or "default"
    fields = ("namespace", "name", "uid", "resourceVersion")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {**_name(metadata, told.reason, once=once), "namespace": namespace},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            **{field: metadata[field] for field in fields if metadata.get(field)},
        },
        "type": "Warning" if told.warning else "Normal",
        "reason": told.reason,
        "message": told.message,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": identity,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": count,
    }


def path_of(event: Object) -> str:
    """Where it is to be created."""
    return f"/api/v1/namespaces/{event['metadata']['namespace']}/events"


def _name(metadata: Object, told: str, *, once: bool) -> dict[str, str]:
    called = str(metadata["name"])[:_LONGEST_NAME].rstrip("-.")
    if not once:
        return {"generateName": f"{called}."}
    apart = sha256(f"{metadata['uid']} {told}".encode()).hexdigest()[:16]
    return {"name": f"{called}.{apart}"}


def _not_written(because: str) -> str:
    return f"events not written: {because}"
