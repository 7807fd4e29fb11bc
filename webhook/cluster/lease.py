"""One replica of several, by a Lease of Kubernetes: what must be done once is done by the one that holds it."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import orjson

from webhook.cluster.access import Client, StatusError, reason
from webhook.cluster.contact import Connect
from webhook.cluster.tasks import ended
from webhook.cluster.telling import Telling

LABELS = {"app.kubernetes.io/part-of": "samestep"}
"""By which everything of ours in a cluster can be found."""

_log = logging.getLogger(__name__)


class Lease:
    """Tries to hold the Lease of this name, and renews it. `gained` is called whenever it has become ours.

    As in client-go, clocks of other machines are not looked at: who has not renewed for as long as the Lease says,
    counted from when we saw the last renewal, has lost it. Two may think for a moment that it is theirs; what is done
    under it must bear that.
    """

    def __init__(
        self,
        connect: Connect,
        namespace: str,
        identity: str,
        gained: Callable[[], None] = lambda: None,
        *,
        name: str = "samestep",
        holds_s: int = 15,
        renew_s: float = 5.0,
    ) -> None:
        self.identity = identity
        self._connect = connect
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._gained = gained
        self._holds_s = holds_s
        self._renew_s = renew_s
        self._ours_until = 0.0
        self._seen: tuple[object, float] = (None, 0.0)
        self._tell = Telling(_log)
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        """Whether it is ours."""
        return time.monotonic() < self._ours_until

    def start(self) -> None:
        """Begins to try; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="lease")

    async def stop(self) -> None:
        """Gives it back, so that another has it at once."""
        await ended(self._task)
        if self.held:
            self._ours_until = 0.0
            with suppress(Exception):  # it runs out by itself
                async with asyncio.timeout(self._renew_s), self._connect() as client:
                    await self._hold(client, orjson.loads(await client.get(self._path)), holder="")

    async def _run(self) -> None:
        while True:
            try:
                async with self._connect() as client:
                    while True:
                        await self._try(client)
                        self._tell("")
                        await asyncio.sleep(self._renew_s)
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not end the process)
                self._tell(f"the lease cannot be had: {reason(error)}")
            await asyncio.sleep(self._renew_s)

    async def _try(self, client: Client) -> None:
        asked = time.monotonic()
        try:
            lease: dict[str, Any] | None = orjson.loads(await client.get(self._path))
        except StatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            lease = None
        if lease is not None and self._is_anothers(lease):
            self._ours_until = 0.0
            return
        was_held = self.held
        try:
            await self._hold(client, lease, holder=self.identity)
        except StatusError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            self._ours_until = 0.0  # another was quicker
            return
        self._ours_until = asked + self._holds_s
        if not was_held:
            _log.info("this replica leads", extra={"facts": {"identity": self.identity}})
            self._gained()

    def _is_anothers(self, lease: dict[str, Any]) -> bool:
        spec = lease.get("spec") or {}
        renewal = (spec.get("holderIdentity"), spec.get("renewTime"))
        if renewal != self._seen[0]:
            self._seen = (renewal, time.monotonic())
        lasts = spec.get("leaseDurationSeconds") or self._holds_s
        return renewal[0] not in ("", None, self.identity) and time.monotonic() < self._seen[1] + lasts

    async def _hold(self, client: Client, lease: dict[str, Any] | None, *, holder: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = (lease or {}).get("spec") or {}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": self._holds_s, "renewTime": now}
        spec["acquireTime"] = before.get("acquireTime") if before.get("holderIdentity") == holder else now
        changed = before.get("holderIdentity") not in (None, holder)
        spec["leaseTransitions"] = (before.get("leaseTransitions") or 0) + changed
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        if lease is None:
            metadata = {"name": self._name, "labels": LABELS}
            await client.send("POST", self._collection, {**kind, "metadata": metadata, "spec": spec})
        else:
            await client.send("PUT", self._path, {**kind, "metadata": lease["metadata"], "spec": spec})
