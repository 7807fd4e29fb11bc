"""The node reflector, in front of an API server of a few lines that does as it is told."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000, cpu_node, gpu_node
from webhook.cluster.access import Access
from webhook.cluster.reflector import Reflector
from webhook.cluster.world import Worlds
from webhook.model.fleet import Node
from webhook.model.policy import Policy


class ApiServer:
    """Lists nodes in pages of its own size and streams whatever it is given."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.page = 2
        self.lists = 0
        self.refuses: int | None = None
        self._watches: list[asyncio.Queue[dict[str, Any] | None]] = []
        self._history: list[dict[str, Any]] = []

    def put(self, node: dict[str, Any]) -> dict[str, Any]:
        name = node["metadata"]["name"]
        event = "MODIFIED" if name in self.nodes else "ADDED"
        node["metadata"].setdefault("uid", f"uid of {name}")
        self.nodes[name] = self._versioned(node)
        self._happened({"type": event, "object": deepcopy(node)})
        return node

    def remove(self, name: str) -> None:
        self._happened({"type": "DELETED", "object": self._versioned(self.nodes.pop(name))})

    def _happened(self, event: dict[str, Any]) -> None:
        self._history.append(event)
        self.send(event)

    def send(self, event: dict[str, Any]) -> None:
        for watch in self._watches:
            watch.put_nowait(event)

    def bookmark(self) -> None:
        self.send({"type": "BOOKMARK", "object": self._versioned({"metadata": {}})})

    def end_watches(self) -> None:
        for watch in self._watches:
            watch.put_nowait(None)

    def _versioned(self, item: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        return item

    async def answer(self, http: web.Request) -> web.StreamResponse:
        if self.refuses is not None:
            return web.json_response({"message": 'nodes is forbidden: User "x"'}, status=self.refuses)
        return await (self._watch(http) if "watch" in http.query else self._list(http))

    async def _list(self, http: web.Request) -> web.Response:
        self.lists += 1
        start = int(http.query.get("continue", "0"))
        items = list(self.nodes.values())
        more = str(start + self.page) if start + self.page < len(items) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"metadata": metadata, "items": items[start : start + self.page]})

    async def _watch(self, http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(http)
        events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._watches.append(events)
        for event in self._history:
            if int(event["object"]["metadata"]["resourceVersion"]) > int(http.query["resourceVersion"]):
                events.put_nowait(event)
        while (sent := await events.get()) is not None:
            await response.write(json.dumps(sent).encode() + b"\n")
        self._watches.remove(events)
        return response

    async def watched(self) -> None:
        while not self._watches:  # noqa: ASYNC110 (as simple as can be)
            await asyncio.sleep(0.01)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiServer]:
    api = ApiServer()
    app = web.Application()
    app.router.add_get("/api/v1/nodes", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(content))
    yield api
    api.end_watches()
    await runner.cleanup()


@pytest.fixture
def worlds() -> Worlds:
    return Worlds(Policy())


@pytest.fixture
async def reflector(api: ApiServer, worlds: Worlds, tmp_path: Path) -> AsyncIterator[Reflector]:
    reflector = Reflector(Access(tmp_path / "config").client, worlds)
    yield reflector
    await reflector.stop()


async def until(condition: Callable[[], object], within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def nodes(worlds: Worlds) -> dict[str, Node]:
    return {node.name: node for node in worlds.current.fleet.nodes} if worlds.current else {}


async def test_every_page_of_the_list_is_in_the_first_fleet(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    for index in range(5):
        api.put(gpu_node(f"gpu-{index}", RTX_5090))
    api.put(cpu_node("cpu"))
    assert not worlds.synced
    reflector.start()
    await until(lambda: worlds.synced)

    assert sorted(nodes(worlds)) == [f"gpu-{index}" for index in range(5)]
    assert api.lists == 3
    assert worlds.problem == ""
    assert worlds.age_s(time.time()) == pytest.approx(0, abs=2)


async def test_a_cluster_without_nodes_is_in_sync_too(api: ApiServer, reflector: Reflector, worlds: Worlds) -> None:
    reflector.start()
    await until(lambda: worlds.synced)

    assert nodes(worlds) == {}


async def test_nodes_come_change_and_go(api: ApiServer, reflector: Reflector, worlds: Worlds) -> None:
    api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await api.watched()
    api.put(gpu_node("b", RTX_PRO_6000))
    await until(lambda: "b" in nodes(worlds))
    node = gpu_node("a", RTX_5090)
    node["spec"]["unschedulable"] = True
    api.put(node)
    await until(lambda: nodes(worlds)["a"].unschedulable)
    api.remove("a")
    await until(lambda: "a" not in nodes(worlds))
    api.put(cpu_node("b"))
    await until(lambda: "b" not in nodes(worlds))

    assert api.lists == 1


async def test_a_heartbeat_changes_nothing_but_the_age(api: ApiServer, reflector: Reflector, worlds: Worlds) -> None:
    node = api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()
    assert worlds.current is not None
    before = worlds.current.fleet
    node["status"]["conditions"] = [{"type": "MemoryPressure", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    api.put(node)
    await until(lambda: worlds.current and worlds.current.fleet.taken_at != before.taken_at)
    await asyncio.sleep(0.3)

    assert worlds.current.fleet.nodes is before.nodes
    assert worlds.current.fleet.labels is before.labels


async def test_a_bookmark_confirms_a_quiet_fleet(api: ApiServer, reflector: Reflector, worlds: Worlds) -> None:
    api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()
    assert worlds.current is not None
    taken_at = worlds.current.fleet.taken_at
    assert taken_at is not None
    api.bookmark()

    await until(lambda: worlds.current and (worlds.current.fleet.taken_at or 0) > taken_at)


async def test_a_node_is_known_since_it_was_first_seen_with_its_present_model(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    started = time.time()
    node = api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()
    first = nodes(worlds)["a"].known_since
    assert started <= first <= time.time()

    node["metadata"]["labels"]["team"] = "vision"
    api.put(node)
    await until(lambda: "team" in nodes(worlds)["a"].labels)
    assert nodes(worlds)["a"].known_since == first

    api.put(gpu_node("a", A100_80GB))
    await until(lambda: "team" not in nodes(worlds)["a"].labels)
    second = nodes(worlds)["a"].known_since
    assert second > first

    replaced = gpu_node("a", A100_80GB)
    replaced["metadata"]["uid"] = "another machine"
    api.put(replaced)
    await until(lambda: nodes(worlds)["a"].uid == "another machine")
    assert nodes(worlds)["a"].known_since > second


async def test_an_expired_watch_is_begun_anew_and_forgets_nothing(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    api.put(gpu_node("gone", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()
    since = nodes(worlds)["a"].known_since
    api.nodes.pop("gone")
    api.send({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}})

    await until(lambda: "gone" not in nodes(worlds))
    assert api.lists == 2
    assert nodes(worlds)["a"].known_since == since
    await until(lambda: worlds.problem == "")


async def test_a_watch_that_ends_in_order_goes_on_from_where_it_was(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()
    api.end_watches()
    api.put(gpu_node("b", RTX_5090))
    await until(lambda: "b" in nodes(worlds))

    assert api.lists == 1


async def test_a_refusal_leaves_the_last_fleet_and_says_why_until_it_ends(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()
    api.refuses = 403
    api.end_watches()

    await until(lambda: worlds.problem)
    assert worlds.problem.startswith("nodes not followed since 20")
    assert worlds.problem.endswith(': 403 nodes is forbidden: User "x"')
    assert list(nodes(worlds)) == ["a"]
    api.refuses = None
    await until(lambda: worlds.problem == "")


async def test_events_that_make_no_sense_end_nothing(api: ApiServer, reflector: Reflector, worlds: Worlds) -> None:
    api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    for event in ({"type": "ADDED"}, {"type": "ERROR", "object": {}}, {}):
        await api.watched()
        api.send(event)
        await until(lambda: worlds.problem)
        await until(lambda: worlds.problem == "", within_s=10)

    api.put(gpu_node("b", RTX_5090))
    await until(lambda: "b" in nodes(worlds))


async def test_a_stopped_reflector_goes_on_when_it_is_started_again(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    reflector.start()
    await until(lambda: worlds.synced)
    await reflector.stop()
    api.end_watches()
    assert list(nodes(worlds)) == ["a"]
    api.put(gpu_node("b", RTX_5090))
    reflector.start()

    await until(lambda: "b" in nodes(worlds))
    assert api.lists == 1


async def test_a_reflector_that_is_started_twice_follows_once(
    api: ApiServer, reflector: Reflector, worlds: Worlds
) -> None:
    reflector.start()
    reflector.start()
    await until(lambda: worlds.synced)
    await api.watched()

    assert api.lists == 1
    assert len(api._watches) == 1
