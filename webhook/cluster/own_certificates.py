"""Our own certificates, in a Secret that all replicas share and go by.

Every replica reads the Secret and serves what it holds. Whoever finds none, or one that cannot be read, writes one; to
renew is for the holder of the Lease, who also has the webhook configurations trust the authority. A new authority is
trusted there before anything that it signs is served.

The time that certificates are made and judged by is the API server's, out of its answers: it is the one who will check
them, and a clock of ours that is wrong then does no harm.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, Protocol

import orjson

from webhook.cluster.access import Client, StatusError, reason
from webhook.cluster.authority import BrokenError, Issued, Lives, read_issued, renew, repair
from webhook.cluster.contact import Connect
from webhook.cluster.keeper import Keeper
from webhook.cluster.lease import LABELS, Lease
from webhook.cluster.tasks import ended, waited
from webhook.cluster.telling import Telling

SECRET = "samestep-certificates"  # noqa: S105 (its name)

_log = logging.getLogger(__name__)
_EVERY_S = 5.0
_LIVES = Lives()


class Serve(Protocol):
    """Serves a certificate and its key (PEM) from now on."""

    def __call__(self, cert_pem: bytes, key_pem: bytes, authority_expires_at: float, /) -> None: ...


def hosts_of(namespace: str) -> tuple[str, ...]:
    """What the API server may call us: the Service of this namespace, and this machine for those who run us there."""
    service = f"samestep.{namespace}.svc"
    return (service, f"{service}.cluster.local", "localhost", "127.0.0.1", "::1")


class OwnCertificates:
    """Goes by the Secret of this namespace until it is stopped. `serve` is called whenever there is another pair,
    `trouble` told what is in the way of "certificates" and of "webhook configurations"; empty: nothing any more."""

    def __init__(
        self,
        connect: Connect,
        namespace: str,
        lease: Lease,
        keeper: Keeper,
        serve: Serve,
        trouble: Callable[[str, str], None],
        *,
        lives: Lives = _LIVES,
        every_s: float = _EVERY_S,
    ) -> None:
        self._connect = connect
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._path = f"{self._collection}/{SECRET}"
        self._lease = lease
        self._keeper = keeper
        self._serve = serve
        self._hosts = hosts_of(namespace)
        self._lives = lives
        self._every_s = every_s
        self._trouble = trouble
        self._served: Issued | None = None
        self._tell = Telling(_log, lambda problem: trouble("certificates", problem))
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look at the Secret; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="own certificates")

    def look(self) -> None:
        """The lease may be ours now."""
        self._wake.set()

    async def stop(self) -> None:
        """The Secret and the webhook configurations stay as they are: whoever comes next goes on with them."""
        await ended(self._task)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                async with self._connect() as client:
                    await self._go_by_it(client)
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not end the process)
                self._tell(f"Secret {SECRET}: {reason(error)}")
            else:
                self._tell("")
            self._trouble("webhook configurations", self._keeper.problem)
            await waited(self._wake, self._every_s)

    async def _go_by_it(self, client: Client) -> None:
        issued, secret, now = await self._read(client)
        self._take(issued)
        await self._keeper.look(client)
        if not self._lease.held:
            return
        signing = issued.authority.certificates[:1]
        trusted = self._keeper.is_seen and self._keeper.trusts(signing)
        renewed = renew(issued, self._hosts, now, self._lives, trusted=trusted)
        if renewed is not issued:
            await self._write(client, renewed, secret)
            _log.info(
                "certificates renewed",
                extra={
                    "facts": {
                        "certificate_until": _told(renewed.certificate.not_valid_after_utc),
                        "authority_until": _told(renewed.authority.signing.not_valid_after_utc),
                        "authorities": len(renewed.authority.certificates),
                    }
                },
            )
            self._take(renewed)
        await self._keeper.keep(client, renewed.authority.bundle)

    async def _read(self, client: Client) -> tuple[Issued, dict[str, Any], datetime]:
        """What the Secret holds, after it has been made or repaired where need be; the Secret; and the time."""
        secret = await self._get(client)
        parts, now = _parts(secret or {}), client.server_time
        try:
            if secret is not None:
                return read_issued(parts), secret, now
            fault = "there was none"
        except BrokenError as error:
            fault = str(error)
        # What is served is trusted, and goes on being served until its successor is.
        made = repair(parts, self._served, self._hosts, now, self._lives)
        try:
            stored = await self._write(client, made, secret)
        except StatusError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            # Another was quicker, and all are to have the same.
            stored = await self._get(client) or {}
            return read_issued(_parts(stored)), stored, now
        _log.log(logging.WARNING if secret else logging.INFO, "Secret %s was made: %s", SECRET, fault)
        return made, stored, now

    async def _get(self, client: Client) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads(await client.get(self._path))
        except StatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return found

    async def _write(self, client: Client, issued: Issued, secret: dict[str, Any] | None) -> dict[str, Any]:
        data = {name: base64.b64encode(part).decode() for name, part in issued.parts.items()}
        if secret is not None:
            return await client.send("PUT", self._path, {**secret, "data": (secret.get("data") or {}) | data})
        new = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data}
        return await client.send("POST", self._collection, {**new, "metadata": {"name": SECRET, "labels": LABELS}})

    def _take(self, issued: Issued) -> None:
        before, self._served = self._served, issued
        signing = issued.authority.signing
        if before is None or (before.pair, before.authority.signing) != (issued.pair, signing):
            self._serve(*issued.pair, signing.not_valid_after_utc.timestamp())


def _parts(secret: Mapping[str, Any]) -> dict[str, bytes]:
    parts = {}
    for name, value in (secret.get("data") or {}).items():
        with suppress(binascii.Error, ValueError, TypeError):
            parts[name] = base64.b64decode(value, validate=True)
    return parts


def _told(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
