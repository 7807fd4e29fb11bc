"""The admission handlers: what kopf selects, `review()` decides.

The server parses a review once, and what kopf runs finds it in a context variable; kopf sees a stub of it, since it
deep-copies and compares all that it is given, at four fifths of the cost of a request.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import kopf

from webhook.intake.admission import API_VERSION
from webhook.model.request import Object, Request, Stage
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


Decide: TypeAlias = Callable[[str, Call], Awaitable[None]]
"""Runs the handler of this id for this call. It raises only what kept the handler from being run."""

_CALL: ContextVar[Call] = ContextVar("call")


def admission_handlers(judge: Judge = review) -> dict[str, Handler]:
    """For kopf, one handler for each id of `STAGES`. They differ in nothing but the stage that the request names."""

    async def decide(**_: object) -> None:
        _judged(_CALL.get(), judge)

    return dict.fromkeys(STAGES, decide)


def without_kopf(judge: Judge = review) -> Decide:
    """The handlers by themselves, for where there is no cluster and no kopf to select one."""

    async def decide(_: str, call: Call) -> None:
        _judged(call, judge)

    return decide


def by_kopf(fn: kopf.WebhookFn) -> Decide:
    """The handler that kopf selects, asked each time."""

    async def decide(handler: str, call: Call) -> None:
        token = _CALL.set(call)
        try:
            await fn(_stub(call.request), webhook=handler, headers={}, sslpeer={})
        finally:
            _CALL.reset(token)

    return decide


def selected_by_kopf(fn: kopf.WebhookFn, judge: Judge = review) -> Decide:
    """Asks kopf for the first request of each resource, and runs the handler that it selected for all others.

    Ours have no filters, so that kopf, which would take a tenth of the time of a request each time, always selects by
    the resource and the id, and finds the same. `fn` is kopf's of one start of it: what it has selected is forgotten
    with it. Where it fails before the handler has run, the handler is run all the same, and kopf is asked again the
    next time: it looks for a new kind when its CRD changes, and where the API server does not serve the kind yet at
    that moment (seen on 1.36), it would refuse its reviews until something else changes. And it never learns of a kind
    that a policy teaches while it runs.
    """

    ask, selected, told = by_kopf(fn), set[tuple[str, str, str, str]](), set[str]()

    async def decide(handler: str, call: Call) -> None:
        resource = call.request.raw["resource"]
        asked = handler, resource.get("group") or "", resource["version"], resource["resource"]
        if asked in selected:
            _judged(call, judge)
            return
        try:
            await ask(handler, call)
        except Exception as error:
            if call.outcome is not None:
                raise
            if (problem := str(error)) not in told and len(told) < _MOST_TOLD:
                told.add(problem)
                _log.warning("kopf selects no handler, so it is run without kopf: %s", problem)
            _judged(call, judge)
        else:
            if call.outcome is not None:
                selected.add(asked)

    return decide


def _judged(call: Call, judge: Judge) -> None:
    try:
        call.outcome = judge(call.request, call.world)
    except Exception as error:  # noqa: BLE001 (kopf would turn it into a denial that quotes it)
        call.outcome = error


def _stub(request: Request) -> Any:  # noqa: ANN401 (a TypedDict that kopf does not export)
    """The review as kopf sees it: what it selects a handler by and names an object with in its log, and no more: it
    copies and compares all that it is given."""
    resource = request.raw["resource"]
    return {
        "apiVersion": API_VERSION,
        "kind": "AdmissionReview",
        "request": {
            "uid": request.uid,
            "resource": {
                "group": resource.get("group") or "",
                "version": resource["version"],
                "resource": resource["resource"],
            },
            "operation": request.operation,
            "userInfo": {"username": request.user.name, "groups": list(request.user.groups)},
            "dryRun": request.dry_run,
            "object": _cut(request, request.object),
            "oldObject": None if request.old_object is None else _cut(request, request.old_object),
        },
    }


def _cut(request: Request, whole: Object) -> dict[str, Any]:
    metadata = whole.get("metadata")
    kept: dict[str, Any] = {}
    if isinstance(metadata, Mapping):
        for field in ("name", "namespace"):
            if isinstance(metadata.get(field), str):
                kept[field] = metadata[field]
    return {"apiVersion": request.kind.api_version, "kind": request.kind.kind, "metadata": kept}
