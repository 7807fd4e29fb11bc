"""A real HTTPS server on free ports, with kopf's own function between it and the handlers."""

import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import kopf
import pytest
from kopf._cogs.structs.references import Insights
from kopf._core.engines.admission import serve_admission_request

from tests.samples import Json, demo_nodes, fleet, job
from webhook.catalog.workloads import workloads
from webhook.cluster.handlers import Judge, admission_handlers, by_kopf
from webhook.cluster.operator import NoMemories, admission_registry
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.model.request import Request
from webhook.model.verdict import Review
from webhook.model.world import World
from webhook.review import review
from webhook.server.admission import Admission, Limits
from webhook.server.certificates import self_signed
from webhook.server.listener import Server
from webhook.server.metrics import Metrics
from webhook.server.tls import ServingCertificate


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    root, kopf, aio = logging.getLogger(), logging.getLogger("kopf"), logging.getLogger("asyncio")
    before = root.handlers[:], root.level, kopf.level, aio.level
    told = {name: getattr(logging, name) for name in ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing")}
    yield
    for name, value in told.items():
        setattr(logging, name, value)
    root.handlers[:] = before[0]
    for logger, level in zip((root, kopf, aio), before[1:], strict=True):
        logger.setLevel(level)


@dataclass(slots=True)
class Serving:
    """A running server and a client that trusts it."""

    server: Server
    admission: Admission
    worlds: Worlds
    client: aiohttp.ClientSession

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.server.port}{path}"

    async def post(self, path: str, body: bytes | Json) -> tuple[int, Any]:
        """Status, and the decoded answer or, where it is none, the text."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(self.url(path), data=data) as answer:
            return answer.status, await (answer.json() if answer.content_type == "application/json" else answer.text())

    async def get(self, path: str, *, probe: bool = False) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.server.probe_port}{path}" if probe else self.url(path)
        async with self.client.get(url) as answer:
            return answer.status, await answer.text()

    async def scrape(self) -> str:
        async with self.client.get(f"http://127.0.0.1:{self.server.metrics_port}/metrics") as answer:
            assert answer.status == 200
            return await answer.text()

    async def metric(self, sample: str) -> float:
        """The value of one sample of /metrics, written as there; 0 where there is none."""
        values = [
            line.rpartition(" ")[2] for line in (await self.scrape()).splitlines() if line.rpartition(" ")[0] == sample
        ]
        return float(values[0]) if values else 0.0


Serve: TypeAlias = Callable[..., Coroutine[Any, Any, Serving]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers: `await serve(judge=..., limits=..., certificate=..., worlds=..., lame_duck_s=...)`."""
    async with AsyncExitStack() as exit_stack:

        async def start(**options: object) -> Serving:
            return await exit_stack.enter_async_context(running(**options))  # type: ignore[arg-type]

        yield start


@asynccontextmanager
async def running(
    *,
    judge: Judge = review,
    limits: Limits | None = None,
    certificate: ServingCertificate | None = None,
    trusted: bytes = b"",
    worlds: Worlds | None = None,
    plugged: bool = True,
    port: int = 0,
    lame_duck_s: float = 0,
    certificate_check_s: float = 10,
    client_names: frozenset[str] = frozenset(),
    shows: Path | None = None,
) -> AsyncIterator[Serving]:
    if certificate is None:
        trusted, cert, key = self_signed(["127.0.0.1"])
        certificate = ServingCertificate.of(cert, key)
    worlds = worlds or Worlds(Policy(), fleet(demo_nodes()))
    metrics = Metrics(worlds, certificate, "test")
    admission = Admission(worlds, metrics, limits or Limits())
    if plugged:
        admission.decide = by_kopf(kopf_fn(judge))
    server = Server(
        admission,
        worlds,
        metrics,
        certificate,
        host="127.0.0.1",
        port=port,
        probe_port=0,
        metrics_port=0,
        lame_duck_s=lame_duck_s,
        certificate_check_s=certificate_check_s,
        client_names=client_names,
    )
    context = ssl.create_default_context(cadata=trusted.decode())
    if shows is not None:
        context.load_cert_chain(shows)
    connector = aiohttp.TCPConnector(ssl=context)
    async with server, aiohttp.ClientSession(connector=connector) as client:
        yield Serving(server, admission, worlds, client)


def kopf_fn(judge: Judge) -> kopf.WebhookFn:
    """kopf's function as its operator hands it over, once it has found every kind of the catalog in the cluster."""
    registry = admission_registry(admission_handlers(judge))
    insights = Insights()
    for entry in workloads().reviewed:
        for version in entry.versions:
            insights.webhook_resources.add(kopf.Resource(entry.group, version, entry.plural, preferred=True))
    return partial(
        serve_admission_request,
        settings=kopf.OperatorSettings(),
        memories=NoMemories(),  # type: ignore[arg-type]
        memobase=None,  # type: ignore[arg-type]
        registry=registry,
        insights=insights,
        indices={},
    )


def admission_review(body: Json | None = None, **changes: object) -> Json:
    """An AdmissionReview as the API server sends it; `changes` go into its request."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0b4f8f4c-1",
            "kind": {"group": "batch", "version": "v1", "kind": "Job"},
            "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "requestKind": {"group": "batch", "version": "v1", "kind": "Job"},
            "requestResource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "name": "ddp",
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "ada", "groups": ["dev"]},
            "object": job() if body is None else body,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **changes,
        },
    }


class Asked:
    """A judge that keeps what it was asked, and answers as `review` does."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request, world: World) -> Review:
        self.requests.append(request)
        return review(request, world)
