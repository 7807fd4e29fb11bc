"""How our objects stand, written where people look: the condition Ready of their status, and an Event for a fault."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from webhook.answer.events import LONGEST, Told
from webhook.answer.width import cut_bytes
from webhook.cluster.access import Client, reason
from webhook.cluster.contact import Connect
from webhook.cluster.events import event_on, path_of
from webhook.cluster.lease import Lease
from webhook.cluster.tasks import ended, waited
from webhook.cluster.telling import Telling
from webhook.model.request import Object
from webhook.policy.settle import Standing

_log = logging.getLogger(__name__)
_AGAIN_S = 30.0
_OWNER = "samestep"


class Standings:
    """Writes what differs from what is there, while the lease is ours. `path_of` gives the collection of a kind, empty
    where the cluster serves none."""

    def __init__(self, connect: Connect, path_of: Callable[[str], str], lease: Lease) -> None:
        self._connect = connect
        self._path_of = path_of
        self._lease = lease
        self._standings: tuple[Standing, ...] = ()
        self._written: dict[str, Mapping[str, Any]] = {}
        self._changed = asyncio.Event()
        self._tell = Telling(_log)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="standings")

    async def stop(self) -> None:
        """What is written stays."""
        await ended(self._task)

    def tell(self, standings: tuple[Standing, ...]) -> None:
        """From now on our objects stand so."""
        self._standings = standings
        uids = {_uid(one.object) for one in standings}
        self._written = {uid: status for uid, status in self._written.items() if uid in uids}
        self._changed.set()

    def look(self) -> None:
        """The lease may be ours now."""
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await waited(self._changed, _AGAIN_S)
            self._changed.clear()
            if not self._lease.held:
                self._written.clear()
                continue
            due = [(one, wanted) for one in self._standings if (wanted := self._wanted(one))]
            if due:
                try:
                    async with self._connect() as client:
                        await self._write_all(client, due)
                except Exception as error:  # noqa: BLE001 (whatever it is, it must not end the process)
                    self._tell(f"no status can be written: {reason(error)}")

    async def _write_all(self, client: Client, due: Iterable[tuple[Standing, dict[str, Any]]]) -> None:
        for standing, status in due:
            if not self._lease.held:
                return
            try:
                await self._write(client, standing, status)
            except Exception as error:  # noqa: BLE001 (the others are written all the same)
                metadata = standing.object["metadata"]
                self._tell(f"status of {standing.object['kind']} {metadata['name']} not written: {reason(error)}")
            else:
                self._tell("")

    async def _write(self, client: Client, standing: Standing, status: dict[str, Any]) -> None:
        obj = standing.object
        path = self._path(obj)
        if not path:
            return
        head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": obj["metadata"]["name"]}}
        # Server-side apply leaves the conditions of others alone.
        query = {"fieldManager": _OWNER, "force": "true"}
        form = "application/apply-patch+yaml"
        await client.send("PATCH", f"{path}/status", {**head, "status": status}, query, form)
        self._written[_uid(obj)] = status
        if not standing.ready and _told(_ready_of(obj)) != _told(status["conditions"][0]):
            told = Told(standing.reason, warning=True, message=cut_bytes(standing.message, LONGEST))
            event = event_on(obj, told, self._lease.identity)
            await client.send("POST", path_of(event), event)

    def _wanted(self, standing: Standing) -> dict[str, Any] | None:
        """The status to write; None where it is there already, or on its way back to us."""
        obj = standing.object
        generation = obj["metadata"].get("generation", 0)
        there = _ready_of(obj)
        condition: dict[str, Any] = {
            "type": "Ready",
            "status": "True" if standing.ready else "False",
            "reason": standing.reason,
            "message": standing.message,
            "observedGeneration": generation,
        }
        if there is not None and condition.items() <= there.items():
            self._written.pop(_uid(obj), None)
            return None
        stays = there is not None and there.get("status") == condition["status"]
        since = there["lastTransitionTime"] if there and stays else _now()
        before = self._written.get(_uid(obj))
        if before is not None and condition.items() <= before["conditions"][0].items():
            return None
        return {
            "observedGeneration": generation,
            "conditions": [{**condition, "lastTransitionTime": since}],
        }

    def _path(self, obj: Object) -> str:
        metadata = obj["metadata"]
        prefix, _, plural = self._path_of(str(obj["kind"])).rpartition("/")
        if not plural:
            return ""
        within = f"namespaces/{metadata['namespace']}/{plural}" if metadata.get("namespace") else plural
        return f"{prefix}/{within}/{metadata['name']}"


def _ready_of(obj: Object) -> dict[str, Any] | None:
    match obj.get("status"):
        case {"conditions": [*conditions]}:
            return next((one for one in conditions if isinstance(one, dict) and one.get("type") == "Ready"), None)
    return None


def _told(condition: Mapping[str, Any] | None) -> tuple[object, ...]:
    return tuple((condition or {}).get(field) for field in ("status", "reason", "message"))


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
