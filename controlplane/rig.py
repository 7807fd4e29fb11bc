"""Runs etcd, the API server, the scheduler, the controller manager and kwok as plain processes of this machine."""

import base64
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import urllib3
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from controlplane.api import Api
from controlplane.build import ControlPlaneError, artifact
from controlplane.crds import CrdSet, install
from controlplane.processes import Processes

# The users of the token file and the groups of each.
_USERS = {
    "admin": "system:masters",
    "kwok": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "nobody": "",
}
# Outside the ranges from which Linux and macOS take the ports of outgoing connections, one of which could otherwise
# sit on the API server's port while that restarts.
_PORTS = range(20_000, 30_000)


class KubectlError(ControlPlaneError):
    """kubectl exited with an error; the message is what it printed."""


class ControlPlane:
    """A control plane that lives as long as its `with` block, and never longer than this process.

    data_dir: where state, kubeconfigs and the logs go, and stay; without it a temporary folder, removed at the end.
    apiserver_flags: more of them, until the API server is restarted.
    Entering raises GoUnavailableError, BuildError or ProcessError.
    """

    url: str
    directory: Path
    """Where state, kubeconfigs and the logs are."""
    ca_file: Path
    """The certificate that the API server has made itself for 127.0.0.1, and its authority; the key lies beside it."""
    kubeconfig: Path
    """Of a cluster administrator."""
    api: Api
    """As the same administrator."""
    processes: Processes
    """The components, and whatever else is to end with them."""

    def __init__(self, data_dir: Path | None = None, apiserver_flags: Iterable[str] = ()) -> None:
        self._given_dir = data_dir
        self._apiserver_flags = tuple(apiserver_flags)
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.directory = self._given_dir or Path(
                undo.enter_context(tempfile.TemporaryDirectory(prefix="controlplane-"))
            )
            self._start(undo)
            self._exit = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def _start(self, undo: ExitStack) -> None:
        self._programs = {
            name: artifact(name)
            for name in (
                "etcd",
                "kube-apiserver",
                "kube-scheduler",
                "kube-controller-manager",
                "kwok",
                "kubectl",
            )
        }
        etcd, etcd_peer, self._port, self._scheduler_port, self._manager_port, kwok = free_ports(6)
        self._etcd_url = f"http://127.0.0.1:{etcd}"
        self.url = f"https://127.0.0.1:{self._port}"
        self.ca_file = self.directory / "apiserver" / "apiserver.crt"
        self._kubectl_cache = self.directory / "kubectl"
        self._write_credentials()
        self.kubeconfig = self.kubeconfig_for("admin")
        self.api = self.api_for("admin")
        self.processes = Processes(self.directory)
        undo.callback(self.processes.close)

        self._start_etcd(etcd_peer)
        self.start_apiserver(*self._apiserver_flags)
        self._start_kwok(kwok)
        self.processes.wait("kwok", lambda: is_ok(f"http://127.0.0.1:{kwok}/readyz"))

    def _start_etcd(self, peer_port: int) -> None:
        peer = f"http://127.0.0.1:{peer_port}"
        self.processes.start(
            "etcd",
            [
                self._programs["etcd"],
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={self._etcd_url}",
                f"--advertise-client-urls={self._etcd_url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
            ],
        )
        self.processes.wait("etcd", lambda: is_ok(f"{self._etcd_url}/health"))

    def start_apiserver(self, *extra_flags: str) -> None:
        """Starts it on its port and data, with the scheduler and the controllers, and waits until they are ready.

        Raises ProcessError.
        These begin anew each time: an API server that has just started forbids them all until it has read its roles,
        after which they would ask again in up to a minute.
        """
        self.processes.start(
            "kube-apiserver",
            [
                self._programs["kube-apiserver"],
                f"--etcd-servers={self._etcd_url}",
                f"--cert-dir={self.ca_file.parent}",
                f"--secure-port={self._port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self._service_account_key}",
                f"--service-account-signing-key-file={self._service_account_key}",
                "--authorization-mode=RBAC",
                f"--token-auth-file={self._token_file}",
                "--delete-collection-workers=16",
                *extra_flags,
            ],
        )
        self.processes.wait("kube-apiserver", lambda: is_ok(f"{self.url}/readyz"))
        self._start_scheduler()
        self._start_controller_manager()
        scheduler, manager = (f"https://127.0.0.1:{port}" for port in (self._scheduler_port, self._manager_port))
        self.processes.wait("kube-scheduler", lambda: is_ok(f"{scheduler}/readyz"))
        self.processes.wait("kube-controller-manager", lambda: is_ok(f"{manager}/healthz"))

    def stop_apiserver(self) -> None:
        for name in ("kube-scheduler", "kube-controller-manager"):
            self.processes.stop(name, grace_s=1)
        # It stops listening at once, but would wait a minute for the components to close their connections.
        self.processes.stop("kube-apiserver", grace_s=1)

    def restart_apiserver(self, *extra_flags: str) -> None:
        """The same port, the same data; other flags until the next start."""
        self.stop_apiserver()
        self.start_apiserver(*extra_flags)

    def _start_scheduler(self) -> None:
        self.processes.start(
            "kube-scheduler",
            [
                self._programs["kube-scheduler"],
                f"--kubeconfig={self.kubeconfig_for('system:kube-scheduler')}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._scheduler_port}",
                "--leader-elect=false",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
            ],
        )

    def _start_controller_manager(self) -> None:
        self.processes.start(
            "kube-controller-manager",
            [
                self._programs["kube-controller-manager"],
                f"--kubeconfig={self.kubeconfig_for('system:kube-controller-manager')}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._manager_port}",
                "--leader-elect=false",
                f"--service-account-private-key-file={self._service_account_key}",
                f"--root-ca-file={self.ca_file}",
                "--use-service-account-credentials=true",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
                # The nodes send no heartbeats, so that none costs anything or changes under a test.
                "--node-monitor-grace-period=24h",
            ],
        )

    def _start_kwok(self, port: int) -> None:
        # These stages only, and not kwok's usual ones, under which a Job's pod is complete as soon as it runs.
        stages = [artifact(f"{name}.yaml") for name in ("node-initialize", "pod-ready", "pod-delete")]
        self.processes.start(
            "kwok",
            [
                self._programs["kwok"],
                f"--kubeconfig={self.kubeconfig_for('kwok')}",
                f"--server-address=127.0.0.1:{port}",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                "--node-lease-duration-seconds=0",
                *(f"--config={stage}" for stage in stages),
            ],
        )

    def _write_credentials(self) -> None:
        self._service_account_key = self.directory / "service-account.key"
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._service_account_key.write_bytes(pem)
        self._token_file = self.directory / "tokens.csv"
        lines = [f'{self._token(user)},{user},{user},"{groups}"' for user, groups in _USERS.items()]
        self._token_file.write_text("\n".join(lines) + "\n")

    def kubeconfig_for(self, user: str) -> Path:
        """Of `admin`, of `nobody` (who has no rights), or of an existing `system:serviceaccount:NAMESPACE:NAME`."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rig",
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": user}}],
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._token(user)}}],
        }
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        path.write_text(json.dumps(content, indent=2))
        return path

    def api_for(self, user: str) -> Api:
        """The API as the same users see it."""
        return Api(self.url, self.ca_file, self._token(user))

    def _token(self, user: str) -> str:
        if user in _USERS:
            return f"{user}-token"
        _, _, namespace, name = user.split(":")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.api.request("POST", path, {})["status"]["token"])

    def kubectl(
        self, *arguments: str | Path, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """kubectl as the administrator. Raises KubectlError where it fails, unless `check` is off."""
        # A cache of its own: the port may have been another control plane's, with other kinds.
        settings = {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self._kubectl_cache),
            "KUBERC": "off",
        }
        done = subprocess.run(
            [self._programs["kubectl"], *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=os.environ | settings,
        )
        if check and done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done

    def apply(self, *objects: dict[str, Any]) -> None:
        """`kubectl apply` of objects of any kind. Raises KubectlError."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def install_crds(self, *names: CrdSet) -> None:
        """Registers the definitions of these sets, one after the other, as `controlplane.crds.install` does."""
        for name in names:
            if install(self.api, self.processes, name):
                shutil.rmtree(self._kubectl_cache, ignore_errors=True)  # it may know a version that is gone

    def add_nodes(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Creates them and waits until pods can be scheduled on every node there is. Raises ProcessError."""
        self.api.create("/api/v1/nodes", nodes)
        self.processes.wait("kwok", self._nodes_are_ready, timeout_s=300)

    def _nodes_are_ready(self) -> bool:
        # Not by the Ready condition: the API server taints every new node until the node controller has seen that.
        not_ready = "node.kubernetes.io/not-ready"
        after = ""
        while True:
            page = self.api.get(f"/api/v1/nodes?limit=500&continue={after}")
            if any(taint["key"] == not_ready for node in page["items"] for taint in node["spec"].get("taints", ())):
                return False
            after = page["metadata"].get("continue", "")
            if not after:
                return True

    def add_settled_nodes(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Creates nodes that are Ready from the start, `hard_fleet`, some 500 a second. Raises ProcessError.

        Restarts the API server twice: once to create them without the taint that it gives every new node, which the
        node controller would take minutes to remove from thousands.
        """
        self.restart_apiserver("--disable-admission-plugins=TaintNodesByCondition")
        self.api.create("/api/v1/nodes", nodes)
        self.restart_apiserver()

    def remove_nodes(self) -> None:
        """Deletes every node."""
        self.api.delete("/api/v1/nodes")

    def create_namespace(self, name: str) -> None:
        """Creates it and waits until pods can be created in it."""
        self.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        self.processes.wait("kube-controller-manager", lambda: bool(self.api.get(path)["items"]))

    def delete_namespace(self, name: str) -> None:
        """Starts its deletion and waits until its pods are gone, and with them their share of the nodes."""
        path = f"/api/v1/namespaces/{name}"
        self.api.delete(path)
        # The namespace controller would wait for half of each pod's grace period before it looks again.
        self.api.delete(f"{path}/pods", grace_period_seconds=0)
        self.processes.wait("kwok", lambda: not self.api.get(f"{path}/pods")["items"])

    def compact_etcd(self) -> None:
        """Drops every revision before the current one from etcd.

        A watch or a paged list from before is then answered 410, if the API server runs with `--watch-cache=false`;
        with its watch cache it is once the API server has restarted, compacted or not.
        """
        revision = self._etcd("range", {"key": base64.b64encode(b"\0").decode()})["header"]["revision"]
        self._etcd("compaction", {"revision": revision, "physical": True})

    def _etcd(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = urllib3.request("POST", f"{self._etcd_url}/v3/kv/{call}", json=body).json()
        return answer


def is_ok(url: str) -> bool:
    """Whether a process of this machine answers 200, whatever certificate it shows."""
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=2, context=unverified) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 on which nothing listens now. Raises ControlPlaneError where there are too few."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                free.append(port)
        if len(free) == count:
            return free
    raise ControlPlaneError(f"fewer than {count} ports of 127.0.0.1 are free in {_PORTS}")
