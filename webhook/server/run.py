"""The whole of `samestep serve`: from settings to a server that drains when it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.handlers import admission_handlers, with_fallback, without_kopf
from webhook.cluster.lookup import Lookup
from webhook.cluster.operator import run_operator
from webhook.cluster.world import Worlds
from webhook.intake.references import references
from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.server.admission import Admission
from webhook.server.certificates import self_signed
from webhook.server.listener import Server
from webhook.server.metrics import Metrics
from webhook.server.tls import CertificateError, ServingCertificate

_log = logging.getLogger(__name__)
_HOSTS = ("localhost", "127.0.0.1", "::1", "samestep.samestep-system.svc")


@dataclass(frozen=True, slots=True)
class Settings:
    """`host` empty: all interfaces. Without `cert` and `key` a pair is made, and its authority written to `ca_out`.
    With a `fleet` there is no cluster."""

    host: str
    port: int
    probe_port: int
    lame_duck_s: float
    cert: Path | None = None
    key: Path | None = None
    ca_out: Path | None = None
    access: Access = field(default_factory=Access)
    fleet: Fleet | None = None
    policy: Policy = field(default_factory=Policy)


async def run(settings: Settings) -> None:
    """Serves until SIGINT or SIGTERM. Raises AccessError, CertificateError, ListenError."""
    certificate = _certificate(settings)
    if settings.fleet is None:
        await settings.access.check()
    worlds = Worlds(settings.policy, settings.fleet)
    metrics = Metrics(worlds, certificate, _version())
    admission = Admission(worlds, metrics)
    server = Server(
        admission,
        worlds,
        metrics,
        certificate,
        host=settings.host,
        port=settings.port,
        probe_port=settings.probe_port,
        lame_duck_s=settings.lame_duck_s,
    )
    signalled = asyncio.Event()
    _take_signals(signalled)
    async with server:
        _log.info(
            "listening", extra={"facts": {"port": server.port, "probe_port": server.probe_port, "pid": os.getpid()}}
        )
        if settings.fleet is None:
            await _serve_cluster(settings.access, worlds, admission, server, signalled)
        else:
            admission.fn = without_kopf(admission_handlers())
            gc.freeze()  # as the reflector does with the nodes that it follows
            await signalled.wait()
            await server.drain()


async def _serve_cluster(
    access: Access, worlds: Worlds, admission: Admission, server: Server, signalled: asyncio.Event
) -> None:
    over = asyncio.Event()
    handlers = admission_handlers()
    following = Following(access.client, worlds)
    lookup = Lookup(access.client, following.path_of, references)
    admission.surround = lookup.world
    operator = asyncio.create_task(
        run_operator(
            access=access,
            handlers=handlers,
            following=following,
            server=lambda fn: admission.plug(with_fallback(fn, handlers)),
            stop=over,
            take_signals=lambda: _take_signals(signalled),
            kinds=worlds.kinds,
        )
    )
    waiting = asyncio.create_task(signalled.wait())
    await asyncio.wait((operator, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    # The nodes are followed and kopf goes on until the last request is answered.
    await server.drain()
    await server.close()
    over.set()
    await operator
    await lookup.close()


def _take_signals(signalled: asyncio.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)


def _certificate(settings: Settings) -> ServingCertificate:
    if settings.cert is not None and settings.key is not None:
        return ServingCertificate(settings.cert, settings.key)
    hosts = dict.fromkeys((*_HOSTS, settings.host) if settings.host not in ("", "::", "0.0.0.0") else _HOSTS)  # noqa: S104
    ca_pem, cert_pem, key_pem = self_signed(tuple(hosts))
    if settings.ca_out is not None:
        try:
            settings.ca_out.write_bytes(ca_pem)
        except OSError as error:
            raise CertificateError(f"{settings.ca_out}: {error.strerror}") from error
    return ServingCertificate.of(cert_pem, key_pem)


def _version() -> str:
    try:
        return version("samestep")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
