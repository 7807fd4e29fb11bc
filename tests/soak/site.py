"""Two replicas behind one Service, as in a cluster: each is sent requests while it says that it is ready."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
import urllib3

from controlplane.build import ControlPlaneError
from controlplane.rig import ControlPlane, free_ports, is_ok
from demo.serving import ACCOUNT, Webhook, start_webhook
from tests.samples import Json
from tests.soak.judged import Sample
from webhook.cli.overlays import overlays, rendered

SERVER_FLAGS = ("--enable-aggregator-routing=true",)
"""By which the API server calls the endpoints of a Service itself, for want of a network that would."""
SYSTEM = "samestep-system"
OPEN, CLOSED, UNPINNED = "soak-open", "soak-closed", "soak-unpinned"
"""Namespaces: with the base's failurePolicy, with that of the fail-closed overlay, and with the latter but with nothing
sent to the mutating webhook, so that the validating one is the only one to see to it."""

_LAME_DUCK_S = 10
_NAME = "kubernetes.io/metadata.name"
_LEFT_OUT = ("Deployment", "PodDisruptionBudget", "NetworkPolicy")


class Replica:
    """`samestep serve` as the Deployment starts it, always on the same ports. Its account has to be there."""

    def __init__(self, cluster: ControlPlane, folder: Path, name: str) -> None:
        self.name = name
        self.port, self._probe_port, self._metrics_port = free_ports(3)
        self._cluster = cluster
        self._folder = folder
        self._kubeconfig = cluster.kubeconfig_for(ACCOUNT)

    def start(self) -> Webhook:
        """Returns once it is ready. Raises ProcessError."""
        return start_webhook(
            self._cluster.processes,
            self._folder,
            f"--kubeconfig={self._kubeconfig}",
            "--own-certificates",
            "--host=",  # all addresses: the API server does not come by the loopback one
            f"--lame-duck={_LAME_DUCK_S}",
            name=self.name,
            port=self.port,
            probe_port=self._probe_port,
            metrics_port=self._metrics_port,
        )

    def kill(self) -> None:
        self._cluster.processes.stop(self.name, grace_s=0)

    def terminate(self) -> None:
        """Returns once it has ended."""
        self._cluster.processes.stop(self.name, grace_s=30)

    @property
    def is_ready(self) -> bool:
        return is_ok(f"http://127.0.0.1:{self._probe_port}/readyz")

    @property
    def certificate_until(self) -> float:
        text = urllib3.request("GET", f"http://127.0.0.1:{self._metrics_port}/metrics").data.decode()
        [line] = [one for one in text.splitlines() if one.startswith("samestep_tls_certificate_expiry_timestamp")]
        return float(line.split()[-1])

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        with suppress(KeyError):
            return self._cluster.processes.pid(self.name)
        return None

    def log(self) -> str:
        return self._cluster.processes.log(self.name).read_text(errors="replace")

    def endpoints(self, *, ready: bool) -> Json:
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": SYSTEM,
                "labels": {"kubernetes.io/service-name": "samestep"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "protocol": "TCP", "port": self.port}],
            "endpoints": [{"addresses": [_own_address()], "conditions": {"ready": ready}}],
        }


class Endpoints:
    """Says of each replica whether it is ready, as kubelet and the endpoint controller would, while in its `with`."""

    def __init__(self, cluster: ControlPlane, replicas: list[Replica]) -> None:
        self._api = cluster.api
        self._replicas = replicas
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices"
        self._told: dict[str, bool] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(one,)) for one in replicas]

    def __enter__(self) -> Self:
        for one in self._replicas:
            self._api.request("POST", self._path, one.endpoints(ready=False))
            self._told[one.name] = False
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def told(self, replica: Replica) -> bool:
        """Whether the API server has been told that it is ready."""
        return self._told[replica.name]

    def _follow(self, replica: Replica) -> None:
        while not self._stop.wait(0.5):
            ready = replica.pid is not None and replica.is_ready
            if ready != self._told[replica.name]:
                # While the API server is away, until it is back.
                with suppress(ControlPlaneError, urllib3.exceptions.HTTPError):
                    self._api.request("PUT", f"{self._path}/{replica.name}", replica.endpoints(ready=ready))
                    self._told[replica.name] = ready


class Memory:
    """Looks every second at what each replica holds in memory, while in its `with`."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.samples: list[Sample] = []
        self._replicas = replicas
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(1):
            for one in self._replicas:
                pid = one.pid
                if pid is None:
                    continue
                with suppress(psutil.Error):
                    self.samples.append(Sample(one.name, time.time(), psutil.Process(pid).memory_info().rss / 2**20))


def start_replicas(cluster: ControlPlane, folder: Path) -> list[Replica]:
    """Installs the fail-closed overlay, and two replicas in place of its Deployment. They run when this returns, and
    nothing is sent to them yet. Raises ControlPlaneError."""
    for namespace in (OPEN, CLOSED, UNPINNED):
        cluster.create_namespace(namespace)
    install(cluster, [_split(one) for one in rendered(overlays()["fail-closed"])])
    replicas = [Replica(cluster, folder, f"samestep-{number}") for number in (1, 2)]
    for replica in replicas:
        replica.start()
    return replicas


def install(cluster: ControlPlane, objects: list[Json]) -> None:
    """These of an overlay but for what would run in pods: a Service without selector, for `Endpoints`. Raises
    KubectlError."""
    kept = [one for one in objects if one["kind"] not in _LEFT_OUT]
    for service in (one for one in kept if one["kind"] == "Service"):
        service["spec"].pop("selector", None)
        for port in service["spec"]["ports"]:
            port["targetPort"] = port["port"]
    kept.sort(key=lambda one: one["kind"].endswith("WebhookConfiguration"))
    cluster.apply(*kept)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")


def _split(one: Json) -> Json:
    """Of webhooks: with the base's failurePolicy in one namespace, and without pins in another."""
    if one["kind"] == "MutatingWebhookConfiguration":
        return one | {"webhooks": [_where(entry, "NotIn", UNPINNED) for entry in one["webhooks"]]}
    if one["kind"] == "ValidatingWebhookConfiguration":
        return one | {"webhooks": [part for entry in one["webhooks"] for part in _by_policy(entry)]}
    return one


def _by_policy(entry: Json) -> Iterator[Json]:
    if entry["failurePolicy"] != "Fail":
        yield entry
        return
    yield _where(entry, "NotIn", OPEN)
    name = entry["name"].replace(".check.", ".check-open.")
    yield _where(entry | {"name": name, "failurePolicy": "Ignore"}, "In", OPEN)


def _where(entry: Json, operator: str, namespace: str) -> Json:
    expressions = entry["namespaceSelector"]["matchExpressions"]
    more = {"key": _NAME, "operator": operator, "values": [namespace]}
    return entry | {"namespaceSelector": {"matchExpressions": [*expressions, more]}}


def _own_address() -> str:
    """Of this machine, and not the loopback one, which the API server refuses in endpoints."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("203.0.113.1", 9))  # sends nothing
        address: str = probe.getsockname()[0]
        return address
