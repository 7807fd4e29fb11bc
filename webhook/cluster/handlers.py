"""The admission handlers: what kopf selects, `review()` decides.

The server parses a review once and leaves it in `CALL`; kopf sees a stub of it, since it deep-copies and compares all
that it is given, at four fifths of the cost of a request. The handler takes the whole and leaves its Review there.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import kopf

from webhook.model.request import Request, Stage
from webhook.model.verdict import Review
from webhook.model.world import World
from webhook.review import review

Judge: TypeAlias = Callable[[Request, World], Review]
Handler: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

_log = logging.getLogger(__name__)
_MOST_TOLD = 100

STAGES: Mapping[str, Stage] = {"pin": Stage.MUTATE, "check": Stage.VALIDATE}
"""The ids of the handlers, which are also the last element of their paths."""


@dataclass(slots=True)
class Call:
    """One call of a handler: what it is asked, and what came of it. `outcome` is None until the handler has run."""

    request: Request
    world: World
    outcome: Review | Exception | None = None


CALL: ContextVar[Call] = ContextVar("CALL")


def admission_handlers(judge: Judge = review) -> dict[str, Handler]:
    """One handler for each id of `STAGES`. They differ in nothing but the stage that the request names."""

    async def decide(**_: object) -> None:
        call = CALL.get()
        try:
            call.outcome = judge(call.request, call.world)
        except Exception as error:  # noqa: BLE001 (kopf would turn it into a denial that quotes it)
            call.outcome = error

    return dict.fromkeys(STAGES, decide)


def without_kopf(handlers: Mapping[str, Handler]) -> kopf.WebhookFn:
    """What kopf would hand to the server, for where there is no cluster: the handler of the id, and no selection."""

    async def fn(request: Any, *, webhook: str | None = None, **_: Any) -> Any:  # noqa: ANN401, ARG001 (kopf's words)
        assert webhook is not None
        await handlers[webhook]()

    return fn


def selected_by_kopf(fn: kopf.WebhookFn, handlers: Mapping[str, Handler]) -> kopf.WebhookFn:
    """kopf's function for the first request of each resource, and the handler that it selected for all others.

    Ours have no filters, so that kopf, which would take a tenth of the time of a request each time, always selects by
    the resource and the id, and finds the same. `fn` is kopf's of one start of it: what it has selected is forgotten
    with it. Where it fails before the handler has run, the handler is run all the same, and kopf is asked again the
    next time: it looks for a new kind when its CRD changes, and where the API server does not serve the kind yet at
    that moment (seen on 1.36), it would refuse its reviews until something else changes. And it never learns of a kind
    that a policy teaches while it runs.
    """

    selected: set[tuple[str | None, str, str, str]] = set()
    told: set[str] = set()

    async def call(request: Any, *, webhook: str | None = None, **rest: Any) -> Any:  # noqa: ANN401 (kopf's words)
        resource = request["request"]["resource"]
        asked = webhook, resource["group"], resource["version"], resource["resource"]
        if asked in selected:
            return await without_kopf(handlers)(request, webhook=webhook)
        try:
            response = await fn(request, webhook=webhook, **rest)
        except Exception as error:
            if CALL.get().outcome is not None:
                raise
            if (problem := str(error)) not in told and len(told) < _MOST_TOLD:
                told.add(problem)
                _log.warning("kopf selects no handler, so it is run without kopf: %s", problem)
            return await without_kopf(handlers)(request, webhook=webhook)
        if CALL.get().outcome is not None:
            selected.add(asked)
        return response

    return call
