"""Asks a Prometheus, and believes nothing of it: a bounded time, a bounded answer, no other host."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from webhook.cluster.access import reason
from webhook.evidence.measured import Sample
from webhook.evidence.questions import Question

_TIMEOUT_S = 5.0
_MOST_BYTES = 2 << 20
_CHUNK = 1 << 16
_LONGEST = 200
_PATH = "/api/v1/query"


class Outcome(StrEnum):
    """What became of a question."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"


class PrometheusError(Exception):
    """No answer that can be used; the message is one line."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a Prometheus is, or what speaks its HTTP API. `token_file` holds a bearer token, read afresh for each
    question; `ca_file` the authorities of its certificate, the system's where None."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def problem(self) -> str:
        """Why this cannot be used; empty where it can."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return f"{self.url}: expected http:// or https:// and a host"
        if parts.query or parts.fragment:
            return f"{self.url}: expected no query and no fragment"
        for file in (self.token_file, self.ca_file):
            if file is not None and not file.is_file():
                return f"{file}: no such file"
        if self.ca_file is not None:
            try:
                ssl.create_default_context(cafile=self.ca_file)
            except (OSError, ssl.SSLError):
                return f"{self.ca_file}: no certificates in PEM"
        return ""


class Prometheus:
    """One at a time is asked; `close` gives the connection back."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = _TIMEOUT_S, most_bytes: int = _MOST_BYTES) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url.rstrip("/") + _PATH
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, question: Question) -> tuple[Sample, ...]:
        """The vector that a question comes to. Raises PrometheusError."""
        body = await self._body(question)
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise PrometheusError(Outcome.UNREADABLE, "the answer is not JSON") from error
        match answer:
            case {"status": "success", "data": {"resultType": "vector", "result": [*series]}}:
                return tuple(_samples(series))
            case {"status": "error", "error": str(told)}:
                raise PrometheusError(Outcome.REFUSED, " ".join(told.split())[:_LONGEST])
        raise PrometheusError(Outcome.UNREADABLE, "the answer is no vector of Prometheus")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _body(self, question: Question) -> bytes:
        form = {"query": question.expression, "time": f"{question.at:.3f}", "timeout": f"{self._timeout_s:.0f}s"}
        try:
            headers = {"Accept": "application/json", "Accept-Encoding": "identity", **self._authorization()}
            # A redirect would carry the token, and the pods' names, to another host.
            async with self._opened().post(self._url, data=form, headers=headers, allow_redirects=False) as answer:
                body = await self._read(answer)
                # A question that it does not like is answered 400 or 422, with its reason.
                known = (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
                if answer.status not in known:
                    raise PrometheusError(Outcome.REFUSED, f"answered {answer.status}")
                return body
        except TimeoutError as error:
            raise PrometheusError(Outcome.TIMEOUT, f"no answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PrometheusError(Outcome.UNREACHABLE, reason(error)) from error

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        left = self._most_bytes
        async for part in answer.content.iter_chunked(_CHUNK):
            left -= len(part)
            if left < 0:
                answer.close()
                raise PrometheusError(Outcome.TOO_LARGE, f"more than {self._most_bytes >> 20} MiB")
            parts.append(part)
        return b"".join(parts)

    def _authorization(self) -> dict[str, str]:
        file = self._endpoint.token_file
        return {"Authorization": f"Bearer {file.read_text('utf-8').strip()}"} if file else {}

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            authorities = self._endpoint.ca_file
            context = ssl.create_default_context(cafile=authorities) if authorities else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1, ssl=context),
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                # Packed, a small answer may be a large one.
                auto_decompress=False,
                headers={"User-Agent": "samestep"},
            )
        return self._session


def _samples(series: list[Any]) -> Iterator[Sample]:
    """What is no series is left out; a value that is no number is NaN, so that it is counted as one."""
    for one in series:
        match one:
            case {"metric": dict(labels), "value": [_, value]}:
                known = {key: text for key, text in labels.items() if isinstance(key, str) and isinstance(text, str)}
                number = float("nan")
                with suppress(ValueError, TypeError):
                    number = float(value)
                yield Sample(known, number)
