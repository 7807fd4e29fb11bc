"""Denials, told where the people of a namespace look: once a minute one Event for each namespace and code."""

import asyncio
import logging
from dataclasses import dataclass
from typing import TypeAlias

from webhook.answer.events import denied
from webhook.answer.message import first_line, leading_finding
from webhook.cluster.events import Events, event_on
from webhook.cluster.tasks import ended
from webhook.model.policy import Language
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict

_log = logging.getLogger(__name__)
_EVERY_S = 60.0
MOST = 100
"""Events a minute. What is denied beyond that is told in sum, in the log."""

_Key: TypeAlias = tuple[str, str]
"""Namespace and code."""


@dataclass(slots=True)
class _Denied:
    """So many, and the first of them."""

    count: int
    job: str
    line: str
    language: Language


class Denials:
    """Counts what this replica denies, for `events`."""

    def __init__(self, events: Events, every_s: float = _EVERY_S) -> None:
        self._events = events
        self._every_s = every_s
        self._denied: dict[_Key, _Denied] = {}
        self._beyond = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to tell; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="denials")

    async def stop(self) -> None:
        """Hands on what is left of the minute."""
        await ended(self._task)
        self._flush()

    def hear(self, review: Review) -> None:
        """One review, answered. One that denies in earnest counts."""
        request = review.request
        if (
            review.verdict is not Verdict.DENY
            or request.stage is Stage.AUDIT
            or request.dry_run
            or not request.namespace
        ):
            return
        leading = leading_finding(review)
        key = request.namespace, leading.code
        if (known := self._denied.get(key)) is not None:
            known.count += 1
        elif len(self._denied) < MOST:
            named = (request.kind.kind, review.job.name if review.job else "")
            told = first_line(leading, review)
            self._denied[key] = _Denied(1, " ".join(filter(None, named)), told, review.language)
        else:
            self._beyond += 1

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self._flush()

    def _flush(self) -> None:
        for (namespace, code), one in self._denied.items():
            about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "namespace": namespace}}
            told = denied(code, one.count, one.job, one.line, one.language)
            self._events.write(event_on(about, told, self._events.identity, count=one.count))
        self._denied.clear()
        if self._beyond:
            _log.warning("denials without an Event, of more than %d namespaces and codes: %d", MOST, self._beyond)
            self._beyond = 0
