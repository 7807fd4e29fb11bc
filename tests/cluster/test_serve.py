"""`samestep serve` with the rights of manifests/base/rbac.yaml, and what it does when the cluster does not keep its
word."""

import json
import os
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3

from controlplane.nodes import A100_80GB, gpu_node
from controlplane.nodes import demo_fleet as demo_nodes
from controlplane.rig import ControlPlane
from demo.serving import MANIFESTS, Webhook, start_webhook
from tests.samples import Json, job, pod, pytorchjob
from tests.unit.server.conftest import admission_review

NAME = "samestep-alone"
PRODUCTS = {"RTX-5090": 2.0, "RTX-PRO-6000-Blackwell-Server": 2.0}


class Alone:
    """A webhook that is registered nowhere; the tests are its API server."""

    def __init__(self, webhook: Webhook, cluster: ControlPlane, log_from: int) -> None:
        self._webhook = webhook
        self._cluster = cluster
        self._log_from = log_from
        context = ssl.create_default_context(cadata=webhook.ca.decode())
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, timeout=5)

    def review(self, **changes: Json) -> tuple[int, Json]:
        """Status and response to the creation of a job that wants a pin."""
        url = f"https://127.0.0.1:{self._webhook.port}/admit/pin"
        answer = self._pool.request("POST", url, json=admission_review(job(), **changes))
        return answer.status, answer.json()["response"] if answer.status == 200 else {}

    def pins(self) -> bool:
        status, response = self.review()
        return status == 200 and "patch" in response

    def ready(self) -> tuple[int, str]:
        answer = self._pool.request("GET", f"http://127.0.0.1:{self._webhook.probe_port}/readyz?verbose")
        return answer.status, answer.data.decode()

    def follows(self) -> bool:
        return self.ready()[1].startswith("[+]fleet ok")

    def fleet(self) -> dict[str, float]:
        """Nodes by model."""
        prefix = "samestep_fleet_nodes{model="
        found = self._webhook.metrics().items()
        return {name.removeprefix(prefix).strip('"}'): count for name, count in found if count and prefix in name}

    def log(self) -> list[Json]:
        written = self._cluster.processes.log(NAME).read_bytes()[self._log_from :]
        return [json.loads(line) for line in written.splitlines()]

    def until(self, condition: Callable[[], object], within_s: float = 60) -> None:
        self._cluster.processes.wait(NAME, lambda: bool(condition()), timeout_s=within_s)


@pytest.fixture
def alone(control_plane: ControlPlane, account: Path, tmp_path: Path) -> Iterator[Alone]:
    """On the demo fleet, in sync."""
    with serving(control_plane, tmp_path, f"--kubeconfig={account}") as alone:
        yield alone


@contextmanager
def serving(control_plane: ControlPlane, directory: Path, *options: str) -> Iterator[Alone]:
    control_plane.api.create("/api/v1/nodes", demo_nodes())
    log = control_plane.processes.log(NAME)
    log_from = log.stat().st_size if log.exists() else 0
    webhook = start_webhook(control_plane.processes, directory, *options, name=NAME)
    alone = Alone(webhook, control_plane, log_from)
    alone.until(lambda: alone.fleet() == PRODUCTS)
    yield alone
    control_plane.processes.stop(NAME, grace_s=10)
    control_plane.processes.wait("kube-apiserver", lambda: _without_nodes(control_plane))


def _without_nodes(control_plane: ControlPlane) -> bool:
    control_plane.remove_nodes()
    return not control_plane.api.get("/api/v1/nodes")["items"]


@contextmanager
def without_role(control_plane: ControlPlane) -> Iterator[None]:
    """The account has no right to anything."""
    control_plane.kubectl("delete", "clusterrolebinding", "samestep")
    try:
        yield
    finally:
        control_plane.kubectl("apply", f"--filename={MANIFESTS / 'rbac.yaml'}")


def test_the_rights_of_the_manifests_are_all_that_it_takes(alone: Alone) -> None:
    status, text = alone.ready()

    assert status == 200
    assert text.startswith("[+]fleet ok: 4 nodes with accelerators, confirmed ")
    assert alone.pins()
    assert [line for line in alone.log() if line["level"] != "info"] == []


def test_nodes_that_come_and_go_are_seen_within_seconds(control_plane: ControlPlane, alone: Alone) -> None:
    control_plane.api.create("/api/v1/nodes", [gpu_node("a100", A100_80GB)])
    alone.until(lambda: alone.fleet() == PRODUCTS | {"A100-SXM4-80GB": 1.0}, within_s=30)
    control_plane.api.delete("/api/v1/nodes/a100")
    alone.until(lambda: alone.fleet() == PRODUCTS, within_s=30)


def test_a_kind_is_answered_for_whenever_its_crd_comes_and_goes(control_plane: ControlPlane, alone: Alone) -> None:
    """When kopf notices is its own affair (it can take a minute, and it can miss it): no request may depend on it."""
    review = {
        "kind": {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"},
        "resource": {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"},
        "object": pytorchjob(),
    }

    def pinned_for(seconds: float) -> bool:
        end = time.monotonic() + seconds
        answers = [alone.review(**review)]
        while time.monotonic() < end:
            answers.append(alone.review(**review))
        return all(status == 200 and "patch" in response for status, response in answers)

    assert pinned_for(0)
    control_plane.kubectl("delete", "crd", "pytorchjobs.kubeflow.org")
    try:
        assert pinned_for(5)
    finally:
        control_plane.install_crds("pytorchjobs.yaml")
    assert pinned_for(2)


def test_a_revoked_right_leaves_the_last_fleet_and_is_told(control_plane: ControlPlane, alone: Alone) -> None:
    with without_role(control_plane):
        # A watch that is under way goes on until it ends; the restart ends it.
        control_plane.restart_apiserver()
        alone.until(lambda: "403" in alone.ready()[1])

        status, text = alone.ready()
        assert status == 200
        assert "[!]fleet warning: 4 nodes with accelerators, confirmed " in text
        assert "nodes not followed since 20" in text
        assert "nodes is forbidden" in text
        assert alone.pins()
    alone.until(alone.follows)


def test_an_account_that_is_gone_ends_kopf_and_not_the_server(
    control_plane: ControlPlane, alone: Alone, account: Path
) -> None:
    assert account.exists()
    failed = threading.Event()
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            if not alone.pins():
                failed.set()

    control_plane.kubectl("delete", "serviceaccount", "samestep", "-n", "samestep-system")
    loading = threading.Thread(target=load)
    loading.start()
    try:
        control_plane.restart_apiserver()
        alone.until(lambda: "401" in alone.ready()[1])
        alone.until(lambda: any("kopf ended and starts again" in line["message"] for line in alone.log()))
        time.sleep(6)
        assert alone.pins()
        assert alone.ready()[0] == 200
    finally:
        stop.set()
        loading.join()
        control_plane.kubectl("apply", f"--filename={MANIFESTS / 'rbac.yaml'}")
        control_plane.kubeconfig_for("system:serviceaccount:samestep-system:samestep")
    assert not failed.is_set()
    alone.until(alone.follows, within_s=60)


def test_an_api_server_that_is_away_leaves_the_last_fleet_and_is_told(
    control_plane: ControlPlane, alone: Alone
) -> None:
    control_plane.stop_apiserver()
    try:
        alone.until(lambda: "[!]fleet warning" in alone.ready()[1])
        status, text = alone.ready()
        assert status == 200
        assert "nodes not followed since 20" in text
        assert alone.pins()
    finally:
        control_plane.start_apiserver()
    alone.until(alone.follows)
    control_plane.api.create("/api/v1/nodes", [gpu_node("a100", A100_80GB)])
    alone.until(lambda: alone.fleet() == PRODUCTS | {"A100-SXM4-80GB": 1.0})


def test_a_watch_that_has_expired_is_begun_anew(control_plane: ControlPlane, alone: Alone) -> None:
    # While it is not looking its connection breaks, and what came after is compacted away.
    process = alone.log()[0]["pid"]
    os.kill(process, signal.SIGSTOP)
    try:
        control_plane.restart_apiserver()
        control_plane.api.delete("/api/v1/nodes/rtx5090-1")
        control_plane.compact_etcd()
        control_plane.restart_apiserver()
    finally:
        os.kill(process, signal.SIGCONT)

    alone.until(lambda: alone.fleet() == PRODUCTS | {"RTX-5090": 1.0})
    assert any(": 410 " in line["message"] for line in alone.log())
    assert alone.pins()
    alone.until(alone.follows)


POLICY = """
apiVersion: samestep.dev/v1alpha1
kind: TrainingPolicy
metadata: {name: reads-files}
spec: {configMaps: true}
"""


def test_a_policy_that_lets_files_be_read_has_them_looked_up_by_name(
    control_plane: ControlPlane, account: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    control_plane.kubectl("apply", f"--filename={MANIFESTS / 'rbac-configmaps.yaml'}")
    spec = pod(
        command=["deepspeed", "train.py", "--deepspeed_config", "/etc/ds/ds.json"],
        volumes=[{"name": "ds", "configMap": {"name": "ds"}}],
    )
    spec["containers"][0]["volumeMounts"] = [{"name": "ds", "mountPath": "/etc/ds"}]
    mounting = job(spec, memory_fixed="2Gi", memory_per_sample="684Mi")
    with serving(control_plane, tmp_path, f"--kubeconfig={account}", f"--policies={policy}") as alone:
        _, before = alone.review(object=mounting)
        ds = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ds", "namespace": "team-a"}}
        ds["data"] = {"ds.json": json.dumps({"train_micro_batch_size_per_gpu": 160})}
        control_plane.kubectl("create", "namespace", "team-a")
        control_plane.kubectl("create", "--filename=-", stdin=json.dumps(ds))
        # That it is not there is remembered for two seconds.
        alone.until(lambda: not alone.review(object=mounting)[1]["allowed"], within_s=10)
        _, denied = alone.review(object=mounting)
    control_plane.kubectl("delete", "namespace", "team-a", "--wait=false")

    assert before["allowed"]
    assert "micro-batch 160 needs 108.9 GiB on every GPU (declared)" in denied["status"]["message"]
