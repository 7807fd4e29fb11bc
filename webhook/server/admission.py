"""POST /admit/ID: an AdmissionReview in, an AdmissionReview out, through kopf's handlers.

Anything that is no decision is an HTTP status, on which the API server applies the failurePolicy that the platform
team chose; an admission answer that carried it would be a denial even under `Ignore`.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias
from uuid import uuid4

import kopf
import orjson
from aiohttp import web

from webhook.answer.response import admission_response
from webhook.cluster.handlers import STAGES, Call, Decide
from webhook.cluster.tasks import waited
from webhook.cluster.world import Worlds
from webhook.intake.admission import API_VERSION, NotAReview, read_request
from webhook.model.request import Request
from webhook.model.verdict import Review
from webhook.model.world import World
from webhook.server.metrics import Metrics

Surround: TypeAlias = Callable[[Request, World], Awaitable[World]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one admission request; times in seconds.

    `body_bytes`: an UPDATE carries two objects of up to 3 MiB each (etcd refuses larger ones at 1.5 MiB by default).
    `deadline_s` must stay below the shortest timeoutSeconds of our webhooks, which is 2.
    """

    body_bytes: int = 7 << 20
    read_s: float = 1.0
    deadline_s: float = 1.8
    concurrent: int = 64


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Admission:
    """The admission endpoint. `plug` is for kopf's `settings.admission.server`."""

    def __init__(self, worlds: Worlds, metrics: Metrics, limits: Limits = Limits()) -> None:
        self.decide: Decide | None = None
        self.surround: Surround | None = None
        """Gets what a request refers to and is not in view; without it, that stays so."""
        self.heard: Callable[[Review], None] = lambda _: None
        """Hears each review that was answered; it must be quick, and not raise."""
        self.limits = limits
        self._worlds = worlds
        self._metrics = metrics
        self._slots = asyncio.Semaphore(limits.concurrent)
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def plug(self, decide: Decide) -> AsyncIterator[kopf.WebhookClientConfig]:
        """Takes what kopf selects and keeps it, also when kopf ends: it needs nothing that would end with kopf."""
        self.decide = decide
        yield {}  # for configurations that kopf would manage; ours are in manifests/base
        await asyncio.Event().wait()

    async def answer(self, handler: str, http: web.BaseRequest) -> web.Response:
        """The response to one POST for the handler of this id."""
        started = time.perf_counter()
        self._in_flight += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(self.limits.deadline_s):
                payload = await self._admit(handler, http, started)
        except _Refused as refused:
            response = web.Response(status=refused.status, text=f"{refused}\n")
        except TimeoutError:
            text = f"not answered within {self.limits.deadline_s:g} s\n"
            response = web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=text)
        else:
            response = web.Response(body=payload, content_type="application/json")
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
        self._metrics.http_responses(response.status).inc()
        return response

    async def idle(self) -> None:
        """Returns when nothing is in flight, or would no longer be answered in time."""
        await waited(self._idle, self.limits.deadline_s)

    async def _admit(self, handler: str, http: web.BaseRequest, started: float) -> bytes:
        async with self._slots:
            body = await self._read(http)
            try:
                request = read_request(orjson.loads(body), stage=STAGES[handler], now=time.time())
            except orjson.JSONDecodeError as error:
                raise _Refused(HTTPStatus.BAD_REQUEST, f"not JSON: {error}") from None
            except NotAReview as error:
                raise _Refused(HTTPStatus.BAD_REQUEST, f"not an AdmissionReview: {error}") from None
            if not self._concerns_us(request):
                return _enveloped({"uid": request.uid, "allowed": True})
            review, response = await self._decide(handler, request)
        self._worlds.promise(review)
        # Once the answer is on its way: the loop comes to this when the task that sends it has nothing left to do.
        asyncio.get_running_loop().call_soon(self._record, review, time.perf_counter() - started)
        return _enveloped(response)

    def _record(self, review: Review, duration_s: float) -> None:
        self._metrics.count(review, duration_s)
        self.heard(review)
        _log.info(_told(review), extra={"facts": _facts(review, duration_s)})

    async def _read(self, http: web.BaseRequest) -> bytes:
        too_large = _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {self.limits.body_bytes} bytes")
        if (http.content_length or 0) > self.limits.body_bytes:
            raise too_large
        try:
            if http.content.is_eof():  # as most are: it came with its head
                return await http.read()
            async with asyncio.timeout(self.limits.read_s):
                return await http.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large from None
        except web.RequestPayloadError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "body broken off or wrongly encoded") from error
        except TimeoutError:
            text = f"body not received within {self.limits.read_s:g} s"
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, text) from None

    def _concerns_us(self, request: Request) -> bool:
        # kopf does not look at the operation, which only the webhook configuration would narrow.
        resource = request.raw["resource"]
        return (
            request.operation in ("CREATE", "UPDATE")
            and not request.subresource
            and self._worlds.reviews(resource.get("group") or "", resource["resource"])
        )

    async def _decide(self, handler: str, request: Request) -> tuple[Review, dict[str, Any]]:
        world = self._worlds.current
        if self.decide is None or world is None:
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "not in sync with the cluster yet")
        if self.surround is not None:
            world = await self.surround(request, world)
        call = Call(request, world)
        try:
            await self.decide(handler, call)
            if call.outcome is None:  # to kopf that is an `allowed: true` (kopf#863)
                raise LookupError("kopf ran no handler")
            self._metrics.handler_runs(handler).inc()
            if isinstance(call.outcome, Exception):
                raise call.outcome
            return call.outcome, admission_response(call.outcome)
        except Exception as error:
            reference = uuid4().hex[:12]
            facts = _identity(request) | {"reference": reference}
            _log.exception("review failed", extra={"facts": facts})
            text = f"internal error, reference {reference} in the log of samestep"
            raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR, text) from error


def _enveloped(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def _told(review: Review) -> str:
    return f"{review.verdict.value} {review.request.kind}"


def _facts(review: Review, duration_s: float) -> dict[str, Any]:
    return _identity(review.request) | {
        "verdict": review.verdict.value,
        "codes": [finding.code for finding in review.decision.findings],
        "milliseconds": round(1000 * duration_s, 2),
    }


def _identity(request: Request) -> dict[str, Any]:
    metadata = request.object.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    return {
        "uid": request.uid,
        "stage": request.stage.value,
        "operation": request.operation,
        "kind": str(request.kind),
        "namespace": request.namespace,
        "object": named.get("name") or named.get("generateName") or "",
        "dry_run": request.dry_run,
    }
