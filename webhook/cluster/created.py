"""What became of a job, told by an Event on it once it is there: that it was pinned, or what a policy that only audits
or warns would have done."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from webhook.answer.events import created
from webhook.cluster.events import Events, event_on
from webhook.cluster.jobs import JobEvent, Operation
from webhook.cluster.referred import trimmed
from webhook.cluster.registration import IGNORE_LABEL, LEFT_OUT
from webhook.cluster.tasks import ended
from webhook.cluster.world import Worlds
from webhook.intake.read import owner_of
from webhook.model.request import Object, Request, Stage
from webhook.model.world import World
from webhook.review import review

Surround: TypeAlias = Callable[[Request, World], Awaitable[World]]

_log = logging.getLogger(__name__)
_MOST_WAITING = 500
_AGAIN_S = 0.5


class CreatedJobs:
    """Reviews each new job that nobody decided made, as it stands, in the world of the moment. `surround` gets what it
    refers to and is not in view."""

    def __init__(self, worlds: Worlds, surround: Surround, events: Events) -> None:
        self._worlds = worlds
        self._surround = surround
        self._events = events
        self._waiting: deque[Request] = deque()
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to review; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="created jobs")

    async def stop(self) -> None:
        """What waits is not told: the next replica that leads sees it anew."""
        await ended(self._task)

    def see(self, event: JobEvent) -> None:
        """For a JobWatch: takes the jobs that have just been created, and of these as many as it can."""
        if event.operation is not Operation.ADDED or not self._is_ours(event):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._events.drop("more jobs come than can be reviewed once more")
            return
        self._waiting.append(request_of(event))
        self._some.set()

    def _is_ours(self, event: JobEvent) -> bool:
        """Admission is asked about it, and it is no child that follows, or serves with, its owner."""
        metadata = event.object["metadata"]
        left_out = metadata.get("deletionTimestamp") or metadata.get("namespace") in LEFT_OUT
        return not left_out and owner_of(metadata, self._worlds.kinds) is None

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            world = self._worlds.current
            if world is None:
                await asyncio.sleep(_AGAIN_S)
                continue
            request = self._waiting.popleft()
            if not self._waiting:
                self._some.clear()
            try:
                self._tell(request, await self._surround(request, world))
            except Exception:  # noqa: BLE001 (it must not end the watch of the others)
                _log.exception("a created object could not be reviewed", extra={"facts": {"uid": request.uid}})
            await asyncio.sleep(0)

    def _tell(self, request: Request, world: World) -> None:
        if IGNORE_LABEL in world.namespaces.get(request.namespace, {}):
            return
        for told in created(review(request, world)):
            self._events.write(event_on(request.object, told, self._events.identity, once=True))


def request_of(event: JobEvent) -> Request:
    """The request that would create it now. Who created it is not known any more."""
    metadata, kind = event.object["metadata"], event.kind
    namespace = metadata.get("namespace", "")
    resource = {"group": kind.group, "version": kind.version, "resource": event.workload.plural}
    named: Mapping[str, object] = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    raw: Object = {
        "uid": metadata["uid"],
        "kind": named,
        "resource": resource,
        "requestKind": named,
        "requestResource": resource,
        "name": metadata["name"],
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {},
        "dryRun": False,
    }
    return Request(
        kind=kind,
        operation="CREATE",
        object=trimmed(event.object),
        stage=Stage.AUDIT,
        namespace=namespace,
        uid=metadata["uid"],
        now=time.time(),
        raw=raw,
    )
