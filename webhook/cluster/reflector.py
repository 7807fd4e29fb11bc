"""Keeps the fleet as the cluster reports it: lists the nodes in pages, then watches them.

Why neither kopf's index nor its watch: the index takes 118 s for 5,000 nodes, and a forbidden or failing watch ends the
operator and the webhook with it. Here errors make the fleet old, and nothing else.
"""

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import aiohttp
import orjson

from webhook.catalog.accelerators import accelerators
from webhook.cluster.access import Client, StatusError, reason
from webhook.cluster.world import Worlds
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import NodeError, read_node
from webhook.model.fleet import Node

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]

_log = logging.getLogger(__name__)
_NODES = "/api/v1/nodes"
_PAGE = 250
_SETTLE_S = 0.2
_BACKOFF_S = (0.5, 30.0)
# The API server ends a watch after this long; without a limit of ours it takes 30 to 60 minutes.
_WATCH_S = 300
# Bookmarks come once a minute. What is silent for longer is asked for again, which costs one request.
_SILENCE_S = 90
_PAUSE_S = 0.5


class Reflector:
    """Follows the nodes into `worlds`. `connect` gives a client with fresh credentials."""

    def __init__(self, connect: Connect, worlds: Worlds) -> None:
        self._connect = connect
        self._worlds = worlds
        self._nodes: dict[str, Node] = {}
        self._version = ""
        self._confirmed_at = 0.0
        self._troubled_since: float | None = None
        self._changed = asyncio.Event()
        self._behind = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to follow, from where it stopped where that is still possible.

        Does nothing where it follows already: kopf forgets its clean-up when it ends over a failed login.
        """
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="node reflector")

    async def stop(self) -> None:
        """Leaves the world as it is."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        delay = _BACKOFF_S[0]
        while True:
            contact = self._confirmed_at
            try:
                async with self._connect() as client, asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._follow(client))
                    tasks.create_task(self._publish())
            except* Exception as errors:  # noqa: BLE001 (whatever it is, it must not end the process)
                self._trouble(errors.exceptions[0])
            delay = _BACKOFF_S[0] if self._confirmed_at > contact else min(2 * delay, _BACKOFF_S[1])
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 (not for secrets)

    async def _follow(self, client: Client) -> None:
        if not self._version:
            await self._list(client)
        while True:
            await self._watch(client)
            await asyncio.sleep(_PAUSE_S)

    async def _list(self, client: Client) -> None:
        listed: dict[str, Node] = {}
        query = {"limit": str(_PAGE)}
        while True:
            page = orjson.loads(await client.get(_NODES, query))
            for item in page["items"]:
                self._take(listed, item)
            meta = page["metadata"]
            if not meta.get("continue"):
                break
            query["continue"] = meta["continue"]
        self._nodes = listed
        self._version = meta["resourceVersion"]
        self._change()
        self._confirm()

    async def _watch(self, client: Client) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_S),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_SILENCE_S)
        async with client.open(_NODES, query, timeout) as answer:
            self._confirm()
            with suppress(aiohttp.SocketTimeoutError):
                async for line in answer.content:
                    self._apply(orjson.loads(line))
                    self._confirm()

    def _apply(self, event: dict[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "ERROR":
            raise StatusError(item.get("code", 0), item.get("message", ""))
        self._version = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        name = item["metadata"]["name"]
        before = self._nodes.get(name)
        if event["type"] == "DELETED" or not self._take(self._nodes, item):
            self._nodes.pop(name, None)
        if self._nodes.get(name) is not before:
            self._change()

    def _take(self, nodes: dict[str, Node], item: dict[str, Any]) -> bool:
        """Puts the node in, the very same object where nothing of it has changed; False where it is not for us."""
        before = self._nodes.get(item["metadata"]["name"])
        try:
            node = read_node(item, known_since=before.known_since if before else time.time())
        except NodeError as error:
            _log.warning("node left out: %s", error)
            return False
        if node is None:
            return False
        if before is not None and _identity(before) != _identity(node):
            node = replace(node, known_since=time.time())
        nodes[node.name] = before if before == node else node
        return True

    async def _publish(self) -> None:
        """A new fleet at most every `_SETTLE_S`, built aside: 10,000 nodes take longer than a request may wait."""
        if self._behind:
            self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            fleet = await asyncio.to_thread(build_fleet, list(self._nodes.values()))
            is_first = not self._worlds.synced
            self._worlds.swap(replace(fleet, taken_at=self._confirmed_at))
            if is_first:
                # Nodes stay as long as the process: walking 10,000 of them takes a full collection 60 ms each time.
                gc.collect()
                gc.freeze()
            self._behind = self._changed.is_set()
            await asyncio.sleep(_SETTLE_S)

    def _change(self) -> None:
        self._behind = True
        self._changed.set()

    def _confirm(self) -> None:
        self._confirmed_at = time.time()
        if not self._behind:
            self._worlds.confirm(self._confirmed_at)
        if self._troubled_since is not None:
            _log.info("the nodes are followed again")
        self._troubled_since = None
        self._worlds.problem = ""

    def _trouble(self, error: Exception) -> None:
        if isinstance(error, StatusError):
            # 410, or a resourceVersion that a restored API server has not reached, or anything else: begin anew.
            self._version = ""
        if self._troubled_since is None:
            self._troubled_since = time.time()
        since = datetime.fromtimestamp(self._troubled_since, UTC).isoformat(timespec="seconds")
        problem = f"nodes not followed since {since}: {reason(error)}"
        if problem != self._worlds.problem:
            _log.warning(problem)
        self._worlds.problem = problem


def _identity(node: Node) -> tuple[str, ...]:
    """What makes it another node, or a node of another model, to what was known of it."""
    return (node.uid, *(node.labels.get(key, "") for key in sorted(accelerators().product_keys)))
