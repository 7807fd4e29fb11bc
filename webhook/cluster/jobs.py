"""The objects of every kind of training job in the cluster, watched by the replica that leads and kept by nobody: each
is handed on as it is, and forgotten."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import orjson

from webhook.cluster.access import Client, StatusError
from webhook.cluster.contact import Connect, Contact, lines, version_served, watching
from webhook.cluster.tasks import ended
from webhook.model.request import Kind, Object
from webhook.model.workload import Workload, Workloads

_log = logging.getLogger(__name__)
# Who leads is looked up this often; it is known without asking.
_LOOK_S = 1.0
# A kind comes with its definition, which must be seen before what is created of it counts as old.
_AGAIN_S = 30.0
_PAUSE_S = 0.5
# To connect takes some 40 ms, in which nobody is answered: not for all kinds at once.
_APART_S = 0.1
# Pods are large objects: a page of more would hold up requests while it is decoded.
_PAGE = 100
# The lease of a leader that has died runs out after 15 s, and is tried for every 5. The rest is for clocks that differ.
_OVERLAP_S = 60.0

_Resource: TypeAlias = tuple[str, str]
"""Group and plural."""


class Operation(StrEnum):
    """What has happened to an object.

    LISTED: it was there when we began to look. ADDED: it has been created since, or a moment before. What has been told
    as ADDED may be told so once more, by this replica or the next.
    """

    LISTED = "Listed"
    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One object of a kind in the catalog, or taught, whole as the API server has it; DELETED: as it was last."""

    operation: Operation
    kind: Kind
    workload: Workload
    object: Object


OnChange: TypeAlias = Callable[[JobEvent], None]
"""Called in the event loop, for every object of every kind: it must be quick, and keep of the object what it needs."""


class JobWatch:
    """Watches the kinds that `kinds` gives at present, but for wrappers, of which nothing runs, while `leads` says so.

    A kind that the cluster does not serve yet is taken up when it does. `trouble` is told, by kind, what keeps it from
    being watched; that costs no other kind anything.
    """

    def __init__(
        self,
        connect: Connect,
        leads: Callable[[], bool],
        kinds: Callable[[], Workloads],
        subscribers: tuple[OnChange, ...],
        trouble: Callable[[str, str], None],
        *,
        look_s: float = _LOOK_S,
        again_s: float = _AGAIN_S,
    ) -> None:
        self._connect = connect
        self._leads = leads
        self._kinds = kinds
        self._subscribers = subscribers
        self._trouble = trouble
        self._look_s = look_s
        self._again_s = again_s
        self._watches: dict[_Resource, _Watch] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to watch as soon as this replica leads; does nothing where it has begun already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="watch of jobs")

    async def stop(self) -> None:
        """Nothing is told any more."""
        await ended(self._task)
        await self._only({})

    async def _run(self) -> None:
        while True:
            await self._only(watched(self._kinds()) if self._leads() else {})
            await asyncio.sleep(self._look_s)

    async def _only(self, wanted: Mapping[_Resource, tuple[Workload, ...]]) -> None:
        over = [key for key, watch in self._watches.items() if wanted.get(key) != watch.workloads]
        await asyncio.gather(*(self._watches.pop(key).stop() for key in over))
        for key, workloads in wanted.items():
            if key not in self._watches:
                watch = _Watch(workloads, self._told, self._trouble, self._again_s)
                watch.start(self._connect)
                self._watches[key] = watch
                await asyncio.sleep(_APART_S)

    def _told(self, event: JobEvent) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 (it must not end the watch)
                _log.exception("a %s could not be taken note of", event.kind)


def watched(kinds: Workloads) -> dict[_Resource, tuple[Workload, ...]]:
    """What is watched of these kinds: by resource its entries, which differ by version."""
    found: dict[_Resource, tuple[Workload, ...]] = defaultdict(tuple)
    for one in kinds.reviewed:
        if not one.wraps:
            found[one.group, one.plural] += (one,)
    return dict(found)


class _Watch:
    """One resource, in the version of it that we can read."""

    def __init__(
        self,
        workloads: tuple[Workload, ...],
        tell: OnChange,
        trouble: Callable[[str, str], None],
        again_s: float,
    ) -> None:
        self.workloads = workloads
        self._tell = tell
        self._again_s = again_s
        first = workloads[0]
        # The pods and the queues' kinds are followed for the fleet as well, and each has troubles of its own.
        self._contact = Contact(f"new {first.plural}{f'.{first.group}' if first.group else ''}", trouble, time.time())
        self._kind = Kind(first.group, first.versions[0], first.kind)
        self._workload = first
        self._path = ""
        self._version = ""
        self._task: asyncio.Task[None] | None = None

    def start(self, connect: Connect) -> None:
        keep = self._contact.keep(connect, self._follow)
        self._task = asyncio.create_task(keep, name=f"watch of {self.workloads[0].plural}")

    async def stop(self) -> None:
        await ended(self._task)
        self._contact.given_up()

    async def _follow(self, client: Client) -> None:
        try:
            while True:
                if not self._version:
                    await self._list(client)
                if not self._version:
                    await asyncio.sleep(self._again_s)
                    continue
                await self._watch(client)
                await asyncio.sleep(_PAUSE_S)
        except StatusError:
            # 410, or a kind that is gone, or anything else: begin anew.
            self._version = ""
            raise

    async def _list(self, client: Client) -> None:
        """What is there, in pages, of which none is kept. The version stays empty where the kind is not served."""
        if await self._is_served(client):
            since, version = self._contact.at - _OVERLAP_S, ""
            async for page in client.pages(self._path, {"limit": str(_PAGE)}):
                for item in page["items"] or ():
                    # The API server leaves these out of the items of its own lists.
                    whole = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **item}
                    self._say(Operation.ADDED if _created(item) >= since else Operation.LISTED, whole)
                version = page["metadata"]["resourceVersion"]
                await asyncio.sleep(0)
            self._version = version
        self._contact.made()

    async def _is_served(self, client: Client) -> bool:
        by_version = {version: one for one in self.workloads for version in one.versions}
        group, plural = self._kind.group, self._workload.plural
        version = await version_served(client, group, plural, by_version.keys()) if group else self._kind.version
        if not version:
            return False
        self._workload = by_version[version]
        self._kind = Kind(group, version, self._workload.kind)
        self._path = f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}"
        return True

    async def _watch(self, client: Client) -> None:
        async with watching(client, self._path, self._version) as answer:
            self._contact.made()
            async for line in lines(answer.content):
                self._apply(orjson.loads(line))
                self._contact.made()

    def _apply(self, event: dict[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "ERROR":
            raise StatusError(item.get("code", 0), item.get("message", ""))
        self._version = item["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._say(_OPERATIONS[event["type"]], item)

    def _say(self, operation: Operation, item: Object) -> None:
        self._tell(JobEvent(operation, self._kind, self._workload, item))


_OPERATIONS = {"ADDED": Operation.ADDED, "MODIFIED": Operation.MODIFIED, "DELETED": Operation.DELETED}


def _created(item: Object) -> float:
    """In seconds since the epoch."""
    return datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()
