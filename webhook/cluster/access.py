"""Where the API server is and who we are to it, for kopf and for our own reflectors."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import orjson
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
_LONGEST = 300


class AccessError(Exception):
    """No usable configuration, or no API server there; the message is one line for the person who started us."""


class StatusError(Exception):
    """The API server answered with an HTTP error; the message is its own, with the code before it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Client:
    """Bodies as raw bytes, which the typed client would decode, object by object, into something much larger."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._server_time: datetime | None = None

    @property
    def server_time(self) -> datetime:
        """What the API server's clock said with its last answer, to the second; ours where it said nothing."""
        return self._server_time or datetime.now(UTC)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer. Raises StatusError, aiohttp.ClientError, TimeoutError."""
        async with self.open(path, query) as answer:
            return await answer.read()

    async def pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """The lists that a collection comes in, of at most `limit` objects each. Raises what `get` does."""
        token = ""
        while True:
            page: dict[str, Any] = orjson.loads(
                await self.get(path, {**query, **({"continue": token} if token else {})})
            )
            token = page["metadata"].get("continue") or ""
            yield page
            if not token:
                return

    @asynccontextmanager
    async def open(
        self, path: str, query: Mapping[str, str] | None = None, limits: aiohttp.ClientTimeout = _TIMEOUT
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose body is still to be read. Raises StatusError, aiohttp.ClientError, TimeoutError."""
        async with self._call("GET", path, query, limits) as answer:
            yield answer

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str] | None = None,
        form: str = "application/json",
    ) -> dict[str, Any]:
        """What the API server answers to this object, which is in the media type `form`.

        Raises StatusError, aiohttp.ClientError, TimeoutError.
        """
        async with self._call(method, path, query, _TIMEOUT, body, form) as answer:
            stored: dict[str, Any] = orjson.loads(await answer.read())
            return stored

    @asynccontextmanager
    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        limits: aiohttp.ClientTimeout,
        body: Mapping[str, Any] | None = None,
        form: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        method, url, headers, *_ = await self._api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Accept-Encoding": "identity"}
            | ({"Content-Type": form} if form else {}),
            auth_settings=["BearerToken"],
        )
        answer = (await self._api.call_api(method, url, headers, body, _request_timeout=limits)).response
        try:
            with suppress(KeyError, ValueError, TypeError):
                self._server_time = parsedate_to_datetime(answer.headers["Date"])
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise StatusError(answer.status, _message(await answer.read()))
            yield answer
        finally:
            answer.close()


@dataclass(frozen=True, slots=True)
class Access:
    """A kubeconfig file and a context in it; where neither is named, the pod's own account, else the usual file."""

    kubeconfig: Path | None = None
    context: str | None = None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """With credentials read afresh. Raises AccessError."""
        async with ApiClient(await self._configuration()) as api:
            api.user_agent = "samestep"
            yield Client(api)

    async def for_kopf(self) -> kopf.ConnectionInfo:
        """The same credentials in kopf's form. Raises AccessError."""
        found = await self._configuration()
        scheme, _, token = (await found.get_api_key_with_prefix("BearerToken") or "").partition(" ")
        return kopf.ConnectionInfo(
            server=found.host,
            ca_path=found.ssl_ca_cert,
            insecure=not found.verify_ssl,
            scheme=scheme or None,
            token=token.strip() or None,
            certificate_path=found.cert_file,
            private_key_path=found.key_file,
            proxy_url=found.proxy,
        )

    async def check(self) -> None:
        """Raises AccessError where no API server answers, or one that does not know us."""
        found = await self._configuration()
        try:
            async with ApiClient(found) as api:
                await Client(api).get("/version")
        except StatusError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise AccessError(f"the API server at {found.host} answered {error}") from error
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise AccessError(f"cannot reach the API server at {found.host}: {reason(error)}") from error

    async def _configuration(self) -> Configuration:
        found = Configuration()
        if self.kubeconfig is None and self.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            try:
                load_incluster_config(found)  # type: ignore[no-untyped-call]
            except (ConfigException, OSError) as error:
                raise AccessError(f"the pod's service account: {reason(error)}") from error
            return found
        named = self._kubeconfig()
        try:
            await load_kube_config(named, self.context, found, persist_config=False)  # type: ignore[no-untyped-call]
        except ConfigException as error:
            raise AccessError(f"{named}: {reason(error)}") from error
        except Exception as error:  # it checks little of what it reads, and falls over the rest in many ways
            raise AccessError(f"{named}: not a kubeconfig file") from error
        return found

    def _kubeconfig(self) -> str:
        named = str(self.kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        if not any(Path(path).is_file() for path in named.split(os.pathsep)):
            raise AccessError(f"{named}: no such kubeconfig file")
        return named


def reason(error: BaseException) -> str:
    """One line of what went wrong."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    failed = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    # A resolver and TLS have numbers of their own.
    if isinstance(failed, ConnectionError) and failed.errno:
        text = os.strerror(failed.errno)
    else:
        text = failed.strerror if isinstance(failed, OSError) and failed.strerror else str(failed)
    return " ".join(text.split())[:_LONGEST] or type(error).__name__


def _message(body: bytes) -> str:
    try:
        status = orjson.loads(body)
        return " ".join(str(status["message"]).split())[:_LONGEST]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return " ".join(body[:_LONGEST].decode(errors="replace").split())
