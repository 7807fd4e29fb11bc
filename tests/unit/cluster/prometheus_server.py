"""A Prometheus of a few lines, which answers as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Answer = Callable[[str], list[Json]]


class FakePrometheus:
    """`answer` gives the series for an expression; where `body` is set, that is sent instead, with `status`."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, str]] = []
        self.authorization: list[str | None] = []
        self.answer: Answer = lambda _: []
        self.body: bytes | None = None
        self.status = 200
        self.headers: dict[str, str] = {}
        self.delay_s = 0.0

    async def query(self, http: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await http.post()).items()}
        self.asked.append(form)
        self.authorization.append(http.headers.get("Authorization"))
        await asyncio.sleep(self.delay_s)
        if self.body is not None or self.status != 200:
            return web.Response(body=self.body or b"", status=self.status, headers=self.headers)
        series = [one | {"value": [float(form["time"]), one["value"]]} for one in self.answer(form["query"])]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": series}})


@asynccontextmanager
async def prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    app = web.Application()
    app.router.add_post("/api/v1/query", fake.query)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()
