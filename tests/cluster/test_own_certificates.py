"""Two replicas with certificates of their own, with the rights of manifests/overlays/own-certificates and no others.

The team has its webhooks fail closed and jobs are created throughout: whatever befalls the certificates, and while all
of it is removed, none may be refused.
"""

import base64
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import ACCOUNT, MANIFESTS, ROOT, Webhook, await_calls, start_webhook
from tests.cluster.creating import Creating
from tests.samples import Json

NAMES = ("samestep-own-1", "samestep-own-2")
SECRET = "/api/v1/namespaces/samestep-system/secrets/samestep-certificates"
PREFIX = "/apis/admissionregistration.k8s.io/v1"
PATHS = (f"{PREFIX}/mutatingwebhookconfigurations/samestep", f"{PREFIX}/validatingwebhookconfigurations/samestep")
OVERLAY = ROOT / "manifests" / "overlays" / "own-certificates"
LABELS = {"app.kubernetes.io/part-of": "samestep"}


@pytest.fixture(scope="module")
def replicas(
    control_plane: ControlPlane, account: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Webhook]]:
    """Started at once, before there is a Secret. Jobs are sent to the first, and refused if that cannot be called."""
    rights = f"--filename={OVERLAY / 'rbac.yaml'}"
    control_plane.kubectl("apply", rights)

    def start(name: str) -> Webhook:
        folder = tmp_path_factory.mktemp(name)
        options = (f"--kubeconfig={account}", "--own-certificates")
        return start_webhook(control_plane.processes, folder, *options, name=name)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        found = list(pool.map(start, NAMES))
    configurations = found[0].configurations()
    for one in configurations:
        one["metadata"]["labels"] = LABELS
        for entry in one["webhooks"]:
            entry["failurePolicy"] = "Fail"
            entry["clientConfig"].pop("caBundle")
    control_plane.apply(*configurations)
    await_calls(control_plane, found[0], {"pin", "check"})
    yield found
    stop_replicas(control_plane)
    for path in PATHS:
        control_plane.kubectl("delete", "--ignore-not-found", *path.split("/")[-2:])
    # All that others of this session need, which the last test may have removed.
    namespace = "/api/v1/namespaces?fieldSelector=metadata.name%3Dsamestep-system,status.phase%3DTerminating"
    control_plane.processes.wait("kube-controller-manager", lambda: not control_plane.api.get(namespace)["items"])
    control_plane.kubectl("delete", "--ignore-not-found", rights)
    control_plane.kubectl("apply", *(f"--filename={MANIFESTS / name}.yaml" for name in ("namespace", "rbac")))
    assert control_plane.kubeconfig_for(ACCOUNT) == account


def stop_replicas(control_plane: ControlPlane) -> None:
    for name in NAMES:
        with suppress(KeyError):  # it has stopped already
            control_plane.processes.stop(name, grace_s=10)


class State:
    """The Secret and the configurations as they are now."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._api = control_plane.api

    def parts(self) -> dict[str, bytes]:
        """Of the Secret; none while there is no such."""
        try:
            data = self._api.get(SECRET)["data"]
        except ApiError:
            return {}
        return {name: base64.b64decode(part) for name, part in data.items()}

    def spoil(self, **parts: bytes) -> None:
        secret = self._api.get(SECRET)
        secret["data"] |= {name.replace("_", "."): base64.b64encode(part).decode() for name, part in parts.items()}
        self._api.request("PUT", SECRET, secret)

    def bundles(self) -> set[bytes]:
        """What our webhooks trust."""
        return {base64.b64decode(entry["clientConfig"].get("caBundle", "")) for entry in self._entries()}

    def policies(self) -> set[str]:
        return {entry["failurePolicy"] for entry in self._entries()}

    def operations(self) -> list[str]:
        """That the first of our webhooks is asked about."""
        found: list[str] = self._api.get(PATHS[0])["webhooks"][0]["rules"][0]["operations"]
        return found

    def edit(self) -> None:
        edited = self._api.get(PATHS[0])
        edited["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
        self._api.request("PUT", PATHS[0], edited)

    def undone(self) -> list[str]:
        """What Events tell of edits, a moment after they were put right."""
        events = self._api.get("/api/v1/namespaces/default/events")["items"]
        return [one["message"] for one in events if one["reason"] == "EditUndone"]

    def until(self, condition: Callable[[], bool]) -> None:
        self._control_plane.processes.wait(NAMES[0], condition, timeout_s=60)

    def _entries(self) -> Iterator[Json]:
        return (entry for path in PATHS for entry in self._api.get(path)["webhooks"])


def until_of(webhook: Webhook) -> float:
    """When what it serves expires."""
    return webhook.metrics()["samestep_tls_certificate_expiry_timestamp_seconds"]


def test_no_job_is_refused_whatever_becomes_of_the_secret_and_of_the_configurations(
    control_plane: ControlPlane, replicas: list[Webhook], namespace: str
) -> None:
    state = State(control_plane)
    first = state.parts()
    assert state.bundles() == {first["ca.crt"]}
    with Creating(control_plane, namespace) as creating:
        control_plane.api.delete(SECRET)
        state.until(lambda: state.parts().get("tls.crt", first["tls.crt"]) != first["tls.crt"])
        second = state.parts()
        assert second["ca.crt"].endswith(first["ca.crt"])
        assert second["ca.crt"] != first["ca.crt"]
        state.until(lambda: state.bundles() == {second["ca.crt"]})

        state.spoil(tls_key=first["tls.key"])  # of another pair
        state.edit()
        state.until(lambda: state.parts()["tls.crt"] != second["tls.crt"])
        state.until(lambda: state.operations() == ["CREATE", "UPDATE"])
        last = x509.load_pem_x509_certificate(state.parts()["tls.crt"]).not_valid_after_utc.timestamp()
        state.until(lambda: [until_of(one) for one in replicas] == [last, last])
    assert creating.refused == []
    assert creating.created > 100
    assert state.policies() == {"Fail"}
    state.until(lambda: state.undone() == ["put right: jobs.batch.pin.samestep.dev: rules"])
    logs = b"".join(control_plane.processes.log(name).read_bytes() for name in NAMES)
    assert b"Secret samestep-certificates was made" in logs
    assert b"PRIVATE KEY" not in logs


def test_no_job_is_refused_while_all_of_it_is_removed(
    control_plane: ControlPlane, replicas: list[Webhook], namespace: str
) -> None:
    assert replicas
    labelled = {"namespace": "samestep-system", "labels": LABELS}
    container = {"name": "any", "image": "any"}
    template = {"metadata": {"labels": {"app": "samestep"}}, "spec": {"containers": [container]}}
    selected = {"selector": {"matchLabels": {"app": "samestep"}}}
    control_plane.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "samestep", **labelled},
            "spec": {"replicas": 0, "template": template, **selected},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "samestep", **labelled},
            "spec": {"ports": [{"port": 443}]},
        },
    )

    def uninstall(*options: str) -> list[str]:
        command = [sys.executable, "-m", "webhook.cli", "uninstall", f"--kubeconfig={control_plane.kubeconfig}"]
        return subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout.splitlines()

    nothing = "there is nothing of Samestep in this cluster"
    expected = [
        "validatingwebhookconfigurations/samestep",
        "mutatingwebhookconfigurations/samestep",
        "deployments/samestep in samestep-system",
        "services/samestep in samestep-system",
        "secrets/samestep-certificates in samestep-system",
        "leases/samestep in samestep-system",
    ]
    *listed, told = uninstall()
    assert [one for one in listed if one in expected] == expected
    assert told == "nothing has been removed: --yes removes these, in this order"
    with Creating(control_plane, namespace) as creating:
        assert uninstall("--only=webhooks")[:-1] == expected[:2]
        removed = threading.Thread(target=lambda: uninstall("--yes"))
        removed.start()
        # As their Deployment would have it, once that is gone.
        path = "/apis/apps/v1/namespaces/samestep-system/deployments"
        control_plane.processes.wait("kube-apiserver", lambda: not control_plane.api.get(path)["items"])
        stop_replicas(control_plane)
        removed.join()
    assert creating.refused == []
    assert creating.created > 100
    control_plane.processes.wait("kube-controller-manager", lambda: uninstall() == [nothing])
