"""Looks up by name what a job refers to and is not in view: it may have been created a moment ago, and ConfigMaps are
not watched at all. A bounded look: what is not there in time stays out of view, and the answer says so."""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import islice
from typing import TypeAlias

import aiohttp
import orjson

from webhook.catalog.queues import CLUSTER_QUEUE, KUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from webhook.cluster.access import Client, StatusError
from webhook.cluster.contact import Connect
from webhook.cluster.referred import trimmed
from webhook.fleet.queues import behind, with_queues
from webhook.model.policy import Policy
from webhook.model.queues import Queues
from webhook.model.request import Kind, Object, Request
from webhook.model.surroundings import Reference
from webhook.model.workload import Workloads
from webhook.model.world import World

References: TypeAlias = Callable[[Object, Kind, str, Policy, Workloads | None], Iterable[Reference]]
"""What an object of this kind in this namespace refers to, as far as this policy wants to know."""

_log = logging.getLogger(__name__)
_CONFIG_MAP = Kind("", "", "ConfigMap")
_QUEUE_KINDS = (LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}\Z")
_CHUNK = 1 << 16
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the look-ups for one request. `seconds` is for all of them together, `objects` for one step of them: what the
    request refers to, what its LocalQueue stands for, what that ClusterQueue gives. `bytes` is for what the API server
    sends of ConfigMaps, all together; other objects may have that much each. `fresh_s` is how long an answer is used
    again, `absent_s` how long a no is."""

    seconds: float = 0.2
    objects: int = 8
    config_maps: int = 3
    bytes: int = 256 << 10
    fresh_s: float = 10.0
    absent_s: float = 2.0


@dataclass(frozen=True, slots=True)
class _Answer:
    until: float
    object: Object | None


class Lookup:
    """`path_of` gives the path under which the cluster serves a kind that is followed, empty where it serves none.

    `connect` gives a client with fresh credentials; one is kept as long as it works.
    """

    def __init__(
        self,
        connect: Connect,
        path_of: Callable[[Kind], str],
        references: References = lambda *_: (),
        bounds: Bounds = Bounds(),
    ) -> None:
        self._connect = connect
        self._path_of = path_of
        self._references = references
        self._bounds = bounds
        self._answers: OrderedDict[Reference, _Answer] = OrderedDict()
        self._client: Client | None = None
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()

    async def world(self, request: Request, world: World) -> World:
        """The world with what this request refers to in view, as far as it could be got. Never raises."""
        missing = list(dict.fromkeys(self._missing(request, world)))
        if not missing:
            return world
        config_maps = [one for one in missing if one.kind == _CONFIG_MAP][: self._bounds.config_maps]
        others = [one for one in missing if one.kind != _CONFIG_MAP]
        found: dict[Reference, Object] = {}
        await self._get([*islice(others, self._bounds.objects), *config_maps], world.queues, found)
        if not found:
            return world
        of_queues = [found.pop(one) for one in [*found] if one.kind in _QUEUE_KINDS]
        queues = with_queues(world.queues, of_queues) if of_queues else world.queues
        return replace(world, surroundings={**world.surroundings, **found}, queues=queues)

    async def close(self) -> None:
        """Gives the connection back."""
        self._client = None
        await self._opened.aclose()

    def _missing(self, request: Request, world: World) -> Iterator[Reference]:
        for obj in (request.object, request.old_object):
            if obj is not None:
                for one in self._references(obj, request.kind, request.namespace, world.policy, world.kinds):
                    if not _in_view(one, world) and self._path(one):
                        yield one

    async def _get(self, wanted: Iterable[Reference], queues: Queues, found: dict[Reference, Object]) -> None:
        """Puts what there is into `found`, and what of the queues among it is behind them."""
        budget = _Budget(self._bounds.bytes)
        step, every = [*wanted], set(wanted)
        try:
            async with asyncio.timeout(self._bounds.seconds):
                while step:
                    await self._ask_all(step, budget, found)
                    got = (found[one] for one in step if one in found and one.kind in _QUEUE_KINDS)
                    further = (one for one in dict.fromkeys(behind(queues, got)) if one not in every)
                    step = [*islice((one for one in further if self._path(one)), self._bounds.objects)]
                    every.update(step)
        except TimeoutError:
            _log.info("not looked up in time: %s", ", ".join(str(one.kind) for one in step if one not in found))
        except Exception as error:  # noqa: BLE001 (a job is decided without it)
            _log.warning("look-up failed: %s", error)
            await self._disconnect()

    async def _ask_all(self, wanted: Iterable[Reference], budget: "_Budget", found: dict[Reference, Object]) -> None:
        now, asked = time.monotonic(), []
        for one in wanted:
            answer = self._answers.get(one)
            if answer is None or answer.until < now:
                asked.append(one)
            elif answer.object is not None:
                found[one] = answer.object
        if asked:
            client = await self._connected()
            await asyncio.gather(*(self._ask(client, one, budget, found) for one in asked))

    async def _ask(self, client: Client, one: Reference, budget: "_Budget", found: dict[Reference, Object]) -> None:
        obj: Object | None = None
        mine = budget if one.kind == _CONFIG_MAP else _Budget(self._bounds.bytes)
        try:
            # Any version will do that the API server has at hand: it need not ask etcd.
            async with client.open(self._path(one), {"resourceVersion": "0"}) as answer:
                body = await mine.read(answer.content)
            obj = None if body is None else trimmed(orjson.loads(body))
        except StatusError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                raise
        self._answers[one] = _Answer(
            time.monotonic() + (self._bounds.absent_s if obj is None else self._bounds.fresh_s), obj
        )
        self._answers.move_to_end(one)
        if len(self._answers) > _KEPT:
            self._answers.popitem(last=False)
        if obj is not None:
            found[one] = obj

    def _path(self, one: Reference) -> str:
        collection = "/api/v1/configmaps" if one.kind == _CONFIG_MAP else self._path_of(one.kind)
        prefix, _, plural = collection.rpartition("/")
        if not collection or not _is_name(one.name) or (one.namespace and not _is_name(one.namespace)):
            return ""
        within = f"namespaces/{one.namespace}/{plural}" if one.namespace else plural
        return f"{prefix}/{within}/{one.name}"

    async def _connected(self) -> Client:
        async with self._opening:
            if self._client is None:
                self._client = await self._opened.enter_async_context(self._connect())
            return self._client

    async def _disconnect(self) -> None:
        """The next look-up connects anew, with fresh credentials; requests under way end with the old connection."""
        self._client = None
        opened, self._opened = self._opened, AsyncExitStack()
        await opened.aclose()


def _in_view(one: Reference, world: World) -> bool:
    if one.kind == LOCAL_QUEUE:
        queue = world.queues.known.get((KUEUE, one.namespace, one.name))
        return queue is not None and not queue.missing
    return one in world.surroundings


class _Budget:
    """So many bytes, for all that read from it."""

    def __init__(self, left: int) -> None:
        self._left = left

    async def read(self, content: aiohttp.StreamReader) -> bytes | None:
        """The whole body; None where it is too much."""
        parts: list[bytes] = []
        async for part in content.iter_chunked(_CHUNK):
            self._left -= len(part)
            if self._left < 0:
                return None
            parts.append(part)
        return b"".join(parts)


def _is_name(text: str) -> bool:
    """Whether it is safe in a path: what a user wrote is to name an object and nothing else."""
    return _NAME.match(text) is not None and ".." not in text
