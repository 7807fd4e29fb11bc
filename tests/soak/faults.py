"""What goes wrong. Each returns once it is over, or once it is up to us again."""

import base64
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

from cryptography import x509

from controlplane.api import CONCURRENCY, ApiError
from controlplane.build import ControlPlaneError
from controlplane.rig import ControlPlane
from tests.samples import Json
from tests.soak.judged import Window
from tests.soak.load import DATACENTER_FIRST, SMALL_FIRST, broken_policy, policy
from tests.soak.site import SERVER_FLAGS, SYSTEM, Endpoints, Replica

FLAPPING = 500
_FLAPS_S = 10
_PAUSE_S = 5
_TRIES = 3
_POLICY = "/apis/samestep.dev/v1alpha1/trainingpolicies/soak"
_SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/samestep-certificates"
_CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/samestep" for kind in ("mutating", "validating")
)


@dataclass(slots=True)
class Site:
    """All that faults befall, and what they have left behind: `windows` and policies (`edits`)."""

    cluster: ControlPlane
    replicas: list[Replica]
    endpoints: Endpoints
    nodes: list[Json]
    windows: list[Window] = field(default_factory=list)
    edits: list[tuple[float, str]] = field(default_factory=list)

    def edit(self, name: str) -> None:
        """Puts this policy in force."""
        self.edits.append((time.time(), name))
        self.write(policy(name))

    def write(self, wanted: Json) -> None:
        """Into the cluster, in place of what is there."""
        while True:
            there = self.cluster.api.get(_POLICY)
            try:
                self.cluster.api.request("PUT", _POLICY, there | {"spec": wanted["spec"]})
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:  # else the leader has just written its status
                    raise
            else:
                return

    def unfinished(self, fault: str) -> None:
        """It has not come to its end, and does not count as one that took place."""
        last = self.windows.pop()
        self.windows.append(replace(last, fault=f"{fault}, without end"))

    @contextmanager
    def window(self, fault: str, *, of_the_server: bool = False) -> Iterator[None]:
        start = time.time()
        try:
            yield
        finally:
            self.windows.append(Window(fault, start, time.time(), of_the_server))

    def until(self, condition: Callable[[], bool]) -> None:
        """Raises ProcessError if it does not come in a minute."""
        self.cluster.processes.wait("kube-apiserver", condition)


def killed(site: Site, name: str) -> None:
    """A replica is gone at once, and starts again."""
    one = site.replicas[0]
    with site.window(name):
        one.kill()
        site.until(lambda: not site.endpoints.told(one))
    one.start()
    site.until(lambda: site.endpoints.told(one))


def stopped(site: Site, name: str) -> None:
    """A replica is told to end, as in every update, and starts again."""
    one = site.replicas[1]
    with site.window(name):
        one.terminate()
        site.until(lambda: not site.endpoints.told(one))
    one.start()
    site.until(lambda: site.endpoints.told(one))


def hung(site: Site, name: str) -> None:
    """A replica does nothing for a while, and is found out by nobody but who waits for it."""
    pid = site.replicas[0].pid
    assert pid is not None
    with site.window(name), _paused(pid):
        time.sleep(_PAUSE_S)


def server_restarted(site: Site, name: str) -> None:
    """The API server itself, which is away for seconds."""
    with site.window(name, of_the_server=True):
        site.cluster.restart_apiserver(*SERVER_FLAGS)


def watch_cut(site: Site, name: str) -> None:
    """Nobody can go on watching where they were: 410, and all is listed anew. Who comes before the API server knows the
    roles is told 403 and begins anew for that, so it may take another try."""
    expired, again = (_Counted(site.replicas, text) for text in (": 410 ", "the nodes are followed again"))
    with site.window(name, of_the_server=True):
        for _ in range(_TRIES):
            seen = again.now()
            site.cluster.compact_etcd()
            site.cluster.restart_apiserver(*SERVER_FLAGS)
            site.until(lambda seen=seen: again.grew(seen))  # type: ignore[misc]
            if expired.grew(expired.before):
                return
        raise ControlPlaneError("no watch has been told 410")


class _Counted:
    """How often a text stands in the log of each replica; `before` is from when this was made."""

    def __init__(self, replicas: list[Replica], text: str) -> None:
        self._replicas, self._text = replicas, text
        self.before = self.now()

    def now(self) -> list[int]:
        return [one.log().count(self._text) for one in self._replicas]

    def grew(self, since: list[int]) -> bool:
        """For each of them."""
        return all(now > before for now, before in zip(self.now(), since, strict=True))


def etcd_paused(site: Site, name: str) -> None:
    """What the API server stores into and reads from."""
    with site.window(name, of_the_server=True), _paused(site.cluster.processes.pid("etcd")):
        time.sleep(_PAUSE_S)


def certificate_rotated(site: Site, name: str) -> None:
    """The Secret is deleted: another authority and another certificate, trusted and served by all."""
    api = site.cluster.api
    before = _part(api.get(_SECRET), "tls.crt")
    with site.window(name):
        api.delete(_SECRET)
        site.until(lambda: _is_rotated(site, before))


def _is_rotated(site: Site, before: bytes) -> bool:
    try:
        secret = site.cluster.api.get(_SECRET)
    except ApiError:
        return False
    certificate, authorities = _part(secret, "tls.crt"), _part(secret, "ca.crt")
    until = x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
    return (
        certificate != before
        and all(one.certificate_until == until for one in site.replicas)
        and all(
            base64.b64decode(entry["clientConfig"]["caBundle"]) == authorities
            for path in _CONFIGURATIONS
            for entry in site.cluster.api.get(path)["webhooks"]
        )
    )


def _part(secret: Json, name: str) -> bytes:
    return base64.b64decode(secret["data"][name])


def policies_edited(site: Site, name: str) -> None:
    """To and fro, once to what cannot be taken, and then to another than before."""
    with site.window(name):
        for one in (DATACENTER_FIRST, SMALL_FIRST, DATACENTER_FIRST, SMALL_FIRST):
            site.edit(one)
            time.sleep(0.5)
        site.write(broken_policy())
        time.sleep(1)
        site.edit(DATACENTER_FIRST)


def nodes_flapping(site: Site, name: str) -> None:
    """Many nodes are lost and come back, again and again."""
    until = time.monotonic() + _FLAPS_S
    with site.window(name), ThreadPoolExecutor(CONCURRENCY) as pool:
        while time.monotonic() < until:
            for ready in ("False", "True"):
                list(pool.map(partial(_report, site, ready), site.nodes[:FLAPPING]))


def _report(site: Site, ready: str, node: Json) -> None:
    condition = {"type": "Ready", "status": ready, "reason": "Soak", "message": "as kubelet would"}
    path = f"/api/v1/nodes/{node['metadata']['name']}/status"
    site.cluster.api.request("PUT", path, node | {"status": node["status"] | {"conditions": [condition]}})


FAULTS: Mapping[str, Callable[[Site, str], None]] = {
    "one replica killed": killed,
    "one replica stopped": stopped,
    "one replica hangs for 5 s": hung,
    "API server restarted": server_restarted,
    "certificate rotated": certificate_rotated,
    "policies edited": policies_edited,
    "500 nodes flapping": nodes_flapping,
    "watch cut": watch_cut,
    "etcd paused for 5 s": etcd_paused,
}
OF_THE_REPLICAS = ("one replica killed", "one replica stopped", "one replica hangs for 5 s")
"""Those that take a process away, and send all that it had to the other."""


@contextmanager
def _paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
