"""The ports: HTTPS for the API server, plain HTTP for probes and, so that it may be let through alone, for metrics."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from typing import Self, TypeAlias

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from webhook.cluster.handlers import STAGES
from webhook.cluster.tasks import ended
from webhook.cluster.world import Worlds
from webhook.server.admission import Admission
from webhook.server.health import checks, readiness
from webhook.server.metrics import Metrics
from webhook.server.tls import ServingCertificate

# Longer than Go's HTTP client keeps an idle connection (90 s), so that it never writes to one that we are closing.
_KEEP_ALIVE_S = 120
_CERTIFICATE_CHECK_S = 10
_LINGER_S = 1

_Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_Routes: TypeAlias = Mapping[str, tuple[tuple[str, ...], _Handler]]
"""By path, the methods under which its handler is asked."""


class ListenError(Exception):
    """A port that cannot be listened on; the message names it."""


class Server:
    """Listens as long as its `async with` block, or until `close`.

    `host` is an address or name to bind, empty for all interfaces. With `client_names` only who has one of them in the
    certificate that it shows is answered by the handlers. Entering raises ListenError.
    """

    def __init__(
        self,
        admission: Admission,
        worlds: Worlds,
        metrics: Metrics,
        certificate: ServingCertificate,
        *,
        host: str,
        port: int,
        probe_port: int,
        metrics_port: int,
        lame_duck_s: float = 0,
        certificate_check_s: float = _CERTIFICATE_CHECK_S,
        client_names: frozenset[str] = frozenset(),
    ) -> None:
        self._admission = admission
        self._worlds = worlds
        self._metrics = metrics
        self._certificate = certificate
        self._host, self._port = host, port
        self._probe_port, self._metrics_port = probe_port, metrics_port
        self._lame_duck_s = lame_duck_s
        self._certificate_check_s = certificate_check_s
        self._client_names = client_names
        self._draining = False
        metrics.ready.set_function(lambda: self._readiness(verbose=False)[0])
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            gets = ("GET", "HEAD")
            probes: _Routes = {"/livez": (gets, _alive), "/readyz": (gets, self._readyz)}
            metrics: _Routes = {"/metrics": (gets, self._scrape)}
            admission: _Routes = {f"/admit/{one}": (("POST",), partial(self._answer, one)) for one in STAGES}
            self.probe_port = await self._listen(undo, probes, self._probe_port)
            self.metrics_port = await self._listen(undo, {**metrics, **probes}, self._metrics_port)
            self.port = await self._listen(undo, {**admission, **probes}, self._port, tls=self._certificate.context)
            undo.push_async_callback(ended, asyncio.create_task(self._follow_certificate()))
            self._exit = undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def drain(self) -> None:
        """Is unready but serves, for as long as it may take until no more is sent here."""
        self._draining = True
        await asyncio.sleep(self._lame_duck_s)

    async def close(self) -> None:
        """Lets what is in flight finish, then closes the ports."""
        self._draining = True
        # aiohttp reads no more of a body that is half here once it shuts down.
        await self._admission.idle()
        await self._exit.aclose()

    async def _listen(self, undo: AsyncExitStack, routes: _Routes, port: int, tls: ssl.SSLContext | None = None) -> int:
        limits = self._admission.limits
        # Not an Application: what it does for its routes, signals and middlewares is a tenth of the time of a request.
        server = web.Server(
            partial(_routed, routes),
            request_factory=partial(
                web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=limits.body_bytes
            ),
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE_S,
            lingering_time=_LINGER_S,
        )
        runner = web.ServerRunner(server, shutdown_timeout=limits.deadline_s + 1)
        await runner.setup()
        undo.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, self._host or None, port, ssl_context=tls).start()
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ListenError(f"cannot listen on {self._host or '*'}:{port}: {reason}") from error
        bound: int = runner.addresses[0][1]
        return bound

    async def _answer(self, handler: str, http: web.BaseRequest) -> web.StreamResponse:
        if self._client_names and not self._client_names & set(_names(http)):
            raise web.HTTPForbidden(text="the client certificate is of nobody who is served here\n")
        answer = await self._admission.answer(handler, http)
        if self._draining:
            # Who has a connection keeps to it, whatever becomes of endpoints, and the next request could meet its end.
            answer.force_close()
        return answer

    def _readiness(self, *, verbose: bool) -> tuple[bool, str]:
        found = checks(
            self._worlds,
            self._certificate,
            plugged=self._admission.decide is not None,
            draining=self._draining,
            now=time.time(),
        )
        return readiness(found, verbose=verbose)

    async def _readyz(self, http: web.BaseRequest) -> web.Response:
        ready, text = self._readiness(verbose="verbose" in http.query)
        return web.Response(text=text, status=HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _scrape(self, _: web.BaseRequest) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _follow_certificate(self) -> None:
        await self._certificate.follow(every_s=self._certificate_check_s)


async def _routed(routes: _Routes, http: web.BaseRequest) -> web.StreamResponse:
    methods, handler = routes.get(http.path, ((), None))
    if handler is None:
        raise web.HTTPNotFound
    if http.method not in methods:
        raise web.HTTPMethodNotAllowed(http.method, methods)
    if "Expect" in http.headers:
        await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        http.writer.output_size = 0
    return await handler(http)


def _names(http: web.BaseRequest) -> Iterator[str]:
    """What the certificate that the client has shown calls it: its common names and DNS names."""
    shown = http.get_extra_info("peercert") or {}
    yield from (value for part in shown.get("subject", ()) for name, value in part if name == "commonName")
    yield from (value for kind, value in shown.get("subjectAltName", ()) if kind == "DNS")


async def _alive(_: web.BaseRequest) -> web.Response:
    return web.Response(text="alive\n")
