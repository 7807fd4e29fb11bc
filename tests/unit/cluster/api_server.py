"""An API server of a few lines, which does as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class Collection:
    """The objects of one kind: lists them in pages of its own size and streams whatever it is given."""

    def __init__(self, kind: str, api_version: str = "v1") -> None:
        self.kind = kind
        self.api_version = api_version
        self.objects: dict[str, Json] = {}
        self.version = 100
        self.page = 2
        self.lists = 0
        self.refuses: int | None = None
        self.refuses_to_write: int | None = None
        self.go_on = asyncio.Event()
        """Pages after the first are held back while it is not set."""
        self.go_on.set()
        self.queries: list[dict[str, str]] = []
        self.watches: list[asyncio.Queue[Json | None]] = []
        self._history: list[Json] = []

    def put(self, obj: Json) -> Json:
        key = self._key(obj)
        event = "MODIFIED" if key in self.objects else "ADDED"
        obj["metadata"].setdefault("uid", f"uid of {key}")
        self.objects[key] = self._versioned(obj)
        self._happened({"type": event, "object": {"apiVersion": self.api_version, "kind": self.kind, **deepcopy(obj)}})
        return obj

    def remove(self, name: str, namespace: str = "") -> None:
        self._happened({"type": "DELETED", "object": self._versioned(self.objects.pop(f"{namespace}/{name}"))})

    def send(self, event: Json) -> None:
        for watch in self.watches:
            watch.put_nowait(event)

    def bookmark(self) -> None:
        self.send({"type": "BOOKMARK", "object": self._versioned({"metadata": {}})})

    def expire(self) -> None:
        self.send({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}})

    def end_watches(self) -> None:
        for watch in self.watches:
            watch.put_nowait(None)

    async def watched(self) -> None:
        await until(lambda: self.watches)

    async def answer(self, http: web.Request) -> web.StreamResponse:
        self.queries.append(dict(http.query))
        if self.refuses is not None:
            return web.json_response({"message": f'{self.kind} is forbidden: User "x"'}, status=self.refuses)
        return await (self._watch(http) if "watch" in http.query else self._list(http))

    async def get(self, namespace: str, name: str) -> web.Response:
        found = self.objects.get(f"{namespace}/{name}")
        if self.refuses is not None or found is None:
            return web.json_response({"message": "no"}, status=self.refuses or 404)
        return web.json_response({"apiVersion": self.api_version, "kind": self.kind, **found})

    async def write(self, http: web.Request, namespace: str, name: str) -> web.Response:
        """POST without a name, PUT with one."""
        if self.refuses_to_write is not None:
            return web.json_response({"message": "no"}, status=self.refuses_to_write)
        obj = await http.json()
        obj["metadata"] |= {"namespace": namespace} if namespace else {}
        if "generateName" in obj["metadata"]:
            obj["metadata"]["name"] = f"{obj['metadata']['generateName']}{self.version}"
        before = self.objects.get(self._key(obj))
        if (before is None) == bool(name):
            return web.json_response({"message": "no such, or there already"}, status=404 if name else 409)
        if before is not None and before["metadata"]["resourceVersion"] != obj["metadata"].get("resourceVersion"):
            return web.json_response({"message": "the object has been modified"}, status=409)
        return web.json_response({"apiVersion": self.api_version, "kind": self.kind, **self.put(deepcopy(obj))})

    async def _list(self, http: web.Request) -> web.Response:
        self.lists += 1
        start = int(http.query.get("continue", "0"))
        if start:
            await self.go_on.wait()
        _, _, name = http.query.get("fieldSelector", "").partition("metadata.name=")
        items = [one for one in self.objects.values() if name in (one["metadata"]["name"], "") and _has(one, http)]
        more = str(start + self.page) if start + self.page < len(items) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        page = {"apiVersion": self.api_version, "kind": f"{self.kind}List", "metadata": metadata}
        return web.json_response(page | {"items": items[start : start + self.page]})

    async def _watch(self, http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(http)
        events: asyncio.Queue[Json | None] = asyncio.Queue()
        self.watches.append(events)
        for event in self._history:
            if int(event["object"]["metadata"]["resourceVersion"]) > int(http.query["resourceVersion"]):
                events.put_nowait(event)
        try:
            while (sent := await events.get()) is not None:
                await response.write(json.dumps(sent).encode() + b"\n")
        finally:
            self.watches.remove(events)
        return response

    def _happened(self, event: Json) -> None:
        self._history.append(event)
        self.send(event)

    def _versioned(self, item: Json) -> Json:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        return item

    def _key(self, obj: Json) -> str:
        return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"

    def apply(self, namespace: str, document: Json, part: str) -> Json:
        """Takes what one manager owns alone: with `part` empty all but the status, else that."""
        obj = {
            "metadata": {"namespace": namespace},
            **self.objects.get(f"{namespace}/{document['metadata']['name']}", {}),
        }
        if part:
            obj[part] = document[part]
        else:
            kept = {"status": obj["status"]} if "status" in obj else {}
            metadata = {"creationTimestamp": "2026-11-30T00:00:00Z", **document["metadata"], "namespace": namespace}
            obj = {**document, **kept, "metadata": metadata}
        return self.put(obj)


def _has(obj: Json, http: web.Request) -> bool:
    """Whether it has the label that is asked for, if any."""
    key, _, value = http.query.get("labelSelector", "").partition("=")
    return not key or obj["metadata"].get("labels", {}).get(key) == value


class ApiServer:
    """Collections by their paths, without a namespace."""

    clock: datetime | None
    """What is told as its time; the machine's where None."""

    def __init__(self) -> None:
        self.collections: dict[str, Collection] = {}
        self.asked: list[str] = []
        self.delay_s = 0.0
        self.events: list[Json] = []
        """All that have been created."""
        self.refuses_events: int | None = None
        self.refusal = "events is forbidden"
        self.clock = None

    def serve(self, path: str, kind: str) -> Collection:
        version = path.removeprefix("/api/").removeprefix("/apis/").rpartition("/")[0]
        self.collections[path] = Collection(kind, version)
        return self.collections[path]

    def end_watches(self) -> None:
        for one in self.collections.values():
            one.end_watches()

    async def answer(self, http: web.Request) -> web.StreamResponse:
        self.asked.append(http.path)
        await asyncio.sleep(self.delay_s)
        at = self._at(http.path)
        if at is None:
            return self._discovery(http.path)
        collection, namespace, name = at
        if http.method != "GET":
            return await collection.write(http, namespace, name)
        return await (collection.get(namespace, name) if name else collection.answer(http))

    def _at(self, path: str) -> tuple[Collection, str, str] | None:
        """The collection of a path, and the namespace and the name in it, which may be empty."""
        if path in self.collections:
            return self.collections[path], "", ""
        prefix, _, rest = path.partition("/namespaces/")
        match rest.split("/"):
            case [namespace, plural, *name] if f"{prefix}/{plural}" in self.collections:
                return self.collections[f"{prefix}/{plural}"], namespace, "".join(name)
        collection, _, last = path.rpartition("/")
        return (self.collections[collection], "", last) if collection in self.collections else None

    async def change(self, http: web.Request) -> web.Response:
        """Server-side apply, and deletion."""
        path, _, name = http.path.rpartition("/")
        namespace, part = "", [""]
        prefix, _, rest = http.path.partition("/namespaces/")
        if rest.count("/") > 1:
            namespace, plural, name, *part = rest.split("/")
            path = f"{prefix}/{plural}"
        collection = self.collections.get(path)
        body: Json = await http.json()
        there = collection.objects.get(f"{namespace}/{name}") if collection else None
        wanted = (body.get("preconditions") or body.get("metadata") or {}).get("resourceVersion")
        if collection is None or (there is None and (http.method == "DELETE" or "".join(part))):
            return web.json_response({"message": "not found"}, status=404)
        if wanted and there and wanted != there["metadata"]["resourceVersion"]:
            return web.json_response({"message": "changed"}, status=409)
        if http.method == "DELETE":
            collection.remove(name, namespace)
            return web.json_response({"status": "Success"})
        return web.json_response(collection.apply(namespace, body, "".join(part)))

    async def create_event(self, http: web.Request) -> web.StreamResponse:
        if "/api/v1/events" in self.collections:
            return await self.answer(http)
        self.asked.append(http.path)
        event: Json = await http.json()
        if self.refuses_events is not None:
            return web.json_response({"message": self.refusal}, status=self.refuses_events)
        name = event["metadata"].get("name")
        if name and any(name == one["metadata"].get("name") for one in self.events):
            return web.json_response({"message": f'events "{name}" already exists'}, status=409)
        self.events.append(event)
        return web.json_response(event, status=201)

    def _discovery(self, path: str) -> web.Response:
        match path.split("/"):
            case ["", "version"]:
                return web.json_response({"major": "1"})
            case ["", "api", "v1"]:
                core = [one for one in self.collections if one.startswith("/api/v1/")]
                return web.json_response({"resources": [{"name": one.rpartition("/")[2]} for one in core]})
            case ["", "apis", group]:
                versions = list(dict.fromkeys(one.split("/")[3] for one in self._of(f"/apis/{group}/")))
                if versions:
                    listed = [{"version": one} for one in versions]
                    return web.json_response({"versions": listed, "preferredVersion": listed[0]})
            case ["", "apis", group, version]:
                resources = [{"name": one.rpartition("/")[2]} for one in self._of(f"/apis/{group}/{version}/")]
                if resources:
                    return web.json_response({"resources": resources})
        return web.json_response({"message": "the server could not find the requested resource"}, status=404)

    async def tell_time(self, _: web.Request, response: web.StreamResponse) -> None:
        if self.clock is not None:
            response.headers["Date"] = format_datetime(self.clock, usegmt=True)

    def _of(self, prefix: str) -> list[str]:
        return [path for path in self.collections if path.startswith(prefix)]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    """The server and a kubeconfig for it."""
    api = ApiServer()
    app = web.Application()
    app.router.add_post("/api/v1/namespaces/{namespace}/events", api.create_event)
    app.router.add_patch("/{path:.*}", api.change)
    app.router.add_delete("/{path:.*}", api.change)
    app.router.add_route("*", "/{path:.*}", api.answer)
    app.on_response_prepare.append(api.tell_time)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
    kubeconfig = folder / "config"
    kubeconfig.write_text(json.dumps(content))
    yield api, kubeconfig
    api.end_watches()
    await runner.cleanup()


async def until(condition: Callable[[], object], within_s: float = 15) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 (as simple as can be)
            await asyncio.sleep(0.01)
