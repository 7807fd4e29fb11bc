"""The whole of `samestep serve`: from settings to a server that drains when it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from webhook.cluster.access import Access
from webhook.cluster.created import CreatedJobs
from webhook.cluster.denials import Denials
from webhook.cluster.events import Events
from webhook.cluster.following import Following
from webhook.cluster.handlers import admission_handlers, selected_by_kopf, without_kopf
from webhook.cluster.jobs import JobWatch
from webhook.cluster.keeper import Keeper
from webhook.cluster.lease import Lease
from webhook.cluster.lookup import Lookup
from webhook.cluster.observer import Observer
from webhook.cluster.operator import run_operator
from webhook.cluster.own_certificates import OwnCertificates
from webhook.cluster.policies import LivePolicies
from webhook.cluster.policy_files import PolicyFiles
from webhook.cluster.prometheus import Endpoint, Prometheus
from webhook.cluster.standings import Standings
from webhook.cluster.world import Worlds
from webhook.intake.references import references
from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.model.profile import NO_PROFILES, Profiles
from webhook.model.rules import Rules
from webhook.policy.load import Loaded
from webhook.policy.settle import NO_FILES
from webhook.server.admission import Admission
from webhook.server.certificates import self_signed
from webhook.server.listener import Server
from webhook.server.memory import trimmed
from webhook.server.metrics import Metrics
from webhook.server.tls import CertificateError, ServingCertificate, read_in_small_buffers

_log = logging.getLogger(__name__)
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_HOSTS = ("localhost", "127.0.0.1", "::1", "samestep.samestep-system.svc")


@dataclass(frozen=True, slots=True)
class Settings:
    """`host` empty: all interfaces. Without `cert` and `key` a pair is made, its authority written to `ca_out`; with
    `own_certificates` it is kept in a Secret, and the webhook configurations are kept right. With `client_ca` only who
    shows a certificate of it is served, and with `client_names` only who has one of these names in it.
    With a `fleet` there is no cluster, and `profiles` are what earlier runs taught; `read_fleet` makes it again, by the
    node labels that policies say name GPU models. `loaded` is what `policies`, which are followed, have come to at
    first. `observe`: runs are learned from; `prometheus` knows what their devices hold."""

    host: str
    port: int
    probe_port: int
    metrics_port: int
    lame_duck_s: float
    cert: Path | None = None
    key: Path | None = None
    ca_out: Path | None = None
    own_certificates: bool = False
    client_ca: Path | None = None
    client_names: frozenset[str] = frozenset()
    access: Access = field(default_factory=Access)
    fleet: Fleet | None = None
    profiles: Profiles = NO_PROFILES
    read_fleet: Callable[[tuple[str, ...]], Fleet] | None = None
    policies: Path | None = None
    loaded: Loaded = NO_FILES
    observe: bool = True
    prometheus: Endpoint | None = None


async def run(settings: Settings) -> None:
    """Serves until SIGINT or SIGTERM. Raises AccessError, CertificateError, ListenError."""
    read_in_small_buffers()
    certificate = _certificate(settings)
    if settings.fleet is None:
        await settings.access.check()
    worlds = Worlds(Policy(), settings.fleet)
    worlds.rule(settings.loaded.rules)
    worlds.learn(settings.profiles)
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
        metrics_port=settings.metrics_port,
        lame_duck_s=settings.lame_duck_s,
        client_names=settings.client_names,
    )
    signalled = asyncio.Event()
    _take_signals(signalled)
    async with server, trimmed():
        ports = {"port": server.port, "probe_port": server.probe_port, "metrics_port": server.metrics_port}
        _log.info("listening", extra={"facts": {**ports, "pid": os.getpid()}})
        if settings.fleet is None:
            await _serve_cluster(settings, worlds, metrics, certificate, admission, server, signalled)
        else:
            admission.decide = without_kopf()
            gc.freeze()  # as the reflector does with the nodes that it follows
            policies = LivePolicies(worlds, lambda rules: _rule(worlds, rules, settings), files=settings.loaded)
            policies.start()
            files = _followed(settings, policies)
            await signalled.wait()
            await server.drain()
            await files.stop()
            await policies.stop()


def _rule(worlds: Worlds, rules: Rules, settings: Settings) -> None:
    labels = worlds.labels_under(rules)
    if settings.read_fleet is not None and labels != worlds.policy.model_labels:
        # Reviews wait for it: without a cluster, nobody has to have them in two seconds.
        worlds.swap(settings.read_fleet(labels))
    worlds.rule(rules)


def _followed(settings: Settings, policies: LivePolicies) -> PolicyFiles:
    files = PolicyFiles(settings.policies, settings.loaded, policies.read)
    files.start()
    return files


async def _serve_cluster(
    settings: Settings,
    worlds: Worlds,
    metrics: Metrics,
    certificate: ServingCertificate,
    admission: Admission,
    server: Server,
    signalled: asyncio.Event,
) -> None:
    over = asyncio.Event()
    access = settings.access
    lease = Lease(access.client, _namespace(), f"{socket.gethostname()}_{uuid4().hex[:8]}", lambda: lead())
    own = _own_certificates(settings, worlds, metrics, certificate, lease)
    standings = Standings(access.client, lambda kind: following.path_of_own(kind), lease)
    following = Following(access.client, worlds, settings.loaded, standings.tell)
    files = _followed(settings, following.policies)

    def lead() -> None:
        standings.look()
        if own is not None:
            own.look()

    metrics.leader.set_function(lambda: lease.held)
    lookup = Lookup(access.client, following.path_of, references)
    admission.surround = lookup.world
    events = Events(
        access.client, lease.identity, worlds.trouble, lambda outcome: metrics.events.labels(outcome.value).inc()
    )
    denials = Denials(events)
    admission.heard = denials.hear
    created = CreatedJobs(worlds, lookup.world, events)
    observer = Observer(
        access.client,
        lambda: lease.held,
        worlds,
        lookup.world,
        Prometheus(settings.prometheus) if settings.prometheus else None,
        observe=settings.observe,
    )
    metrics.show(observer.tally)
    subscribers = (created.see, observer.take)
    jobs = JobWatch(access.client, lambda: lease.held, lambda: worlds.kinds, subscribers, worlds.trouble)
    for one in (lease, standings, *((own,) if own else ()), events, denials, created, observer, jobs):
        one.start()
    operator = asyncio.create_task(
        run_operator(
            access=access,
            handlers=admission_handlers(),
            following=following,
            server=lambda fn: admission.plug(selected_by_kopf(fn)),
            stop=over,
            take_signals=lambda: _take_signals(signalled),
            kinds=worlds.kinds,
        )
    )
    waiting = asyncio.create_task(signalled.wait())
    await asyncio.wait((operator, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if own is not None:
        # Who takes us away takes the Secret too, and it is not to be made again.
        await own.stop()
    # The nodes are followed and kopf goes on until the last request is answered.
    await server.drain()
    await server.close()
    over.set()
    await operator
    await asyncio.gather(files.stop(), standings.stop(), denials.stop(), jobs.stop(), created.stop())
    await observer.stop()
    await asyncio.gather(lookup.close(), events.stop())
    await lease.stop()


def _own_certificates(
    settings: Settings, worlds: Worlds, metrics: Metrics, certificate: ServingCertificate, lease: Lease
) -> OwnCertificates | None:
    """None where the certificates are somebody else's: then nothing is written."""
    if not settings.own_certificates:
        return None
    keeper = Keeper(_namespace(), lambda: None if worlds.awaited else worlds.kinds, lease.identity)
    metrics.keep(keeper)
    connect, serve, trouble = settings.access.client, certificate.replace, worlds.trouble
    return OwnCertificates(connect, _namespace(), lease, keeper, serve, trouble)


def _namespace() -> str:
    """Ours, where this runs in a pod."""
    try:
        return _NAMESPACE.read_text("utf-8").strip()
    except OSError:
        return "samestep-system"


def _take_signals(signalled: asyncio.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)


def _certificate(settings: Settings) -> ServingCertificate:
    if settings.cert is not None and settings.key is not None:
        return ServingCertificate(settings.cert, settings.key, clients=settings.client_ca)
    hosts = dict.fromkeys((*_HOSTS, settings.host) if settings.host not in ("", "::", "0.0.0.0") else _HOSTS)  # noqa: S104
    ca_pem, cert_pem, key_pem = self_signed(tuple(hosts))
    if settings.ca_out is not None:
        try:
            settings.ca_out.write_bytes(ca_pem)
        except OSError as error:
            raise CertificateError(f"{settings.ca_out}: {error.strerror}") from error
    return ServingCertificate.of(cert_pem, key_pem, clients=settings.client_ca, awaited=settings.own_certificates)


def _version() -> str:
    try:
        return version("samestep")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
