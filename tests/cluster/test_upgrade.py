"""From an older version to this one, and all of it away again, while jobs are created of which none may be refused.

The older version is made of this one: what its definitions lack is what was added since.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.api import ApiError
from controlplane.nodes import RTX_5090, RTX_PRO_6000, demo_fleet
from controlplane.rig import ControlPlane
from tests.cluster.creating import Creating
from tests.samples import Json, job
from tests.soak.site import SERVER_FLAGS, Endpoints, Replica, install
from webhook.cli.overlays import overlays, rendered

POLICIES = "/apis/samestep.dev/v1alpha1/trainingpolicies"
ACCELERATORS = "/apis/samestep.dev/v1alpha1/accelerators"
ADDED = ("strategy", "order")
POLICY = {
    "apiVersion": "samestep.dev/v1alpha1",
    "kind": "TrainingPolicy",
    "metadata": {"name": "ours"},
    "spec": {"language": "ko", "pin": {"when": "Always", "strategy": "Ordered", "order": [RTX_5090.product]}},
}
ACCELERATOR = {
    "apiVersion": "samestep.dev/v1alpha1",
    "kind": "Accelerator",
    "metadata": {"name": "ours"},
    "spec": {"product": "NVIDIA-New", "vendor": "nvidia", "memory": "64Gi", "source": "our bench"},
}


@pytest.fixture(scope="module")
def plane(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("upgraded"), SERVER_FLAGS) as running:
        running.create_namespace("team-a")
        running.add_nodes(demo_fleet())
        yield running


def current() -> list[Json]:
    return rendered(overlays()["fail-closed"])


def older() -> list[Json]:
    """Without fields of a policy that were added later, and without what they are for."""
    objects = current()
    [definition] = [one for one in objects if one["metadata"]["name"] == "trainingpolicies.samestep.dev"]
    [version] = definition["spec"]["versions"]
    pin = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["pin"]
    for name in ADDED:
        del pin["properties"][name]
    pin.pop("x-kubernetes-validations", None)
    return objects


def pinned(plane: ControlPlane) -> str:
    body = job()
    body["metadata"] = {"generateName": "any-"}
    try:
        made = plane.api.request("POST", "/apis/batch/v1/namespaces/team-a/jobs?dryRun=All", body)
    except ApiError as error:
        return str(error)
    return str(made["spec"]["template"]["spec"].get("nodeSelector", {}).get("nvidia.com/gpu.product", ""))


def test_an_upgrade_refuses_no_job_and_loses_no_object_and_neither_does_removal(
    plane: ControlPlane, tmp_path: Path
) -> None:
    install(plane, older())
    old, new = (Replica(plane, tmp_path, name) for name in ("samestep-old", "samestep-new"))

    def until(product: str) -> None:
        plane.processes.wait("kube-apiserver", lambda: pinned(plane) == product)

    with Endpoints(plane, [old, new]) as endpoints:
        old.start()
        plane.kubectl("apply", "--validate=false", "--filename=-", stdin=json.dumps(POLICY))
        plane.apply(ACCELERATOR)
        before = [plane.api.get(f"{POLICIES}/ours"), plane.api.get(f"{ACCELERATORS}/ours")]
        assert before[0]["spec"]["pin"] == {"when": "Always"}
        until(RTX_PRO_6000.product)
        with Creating(plane, "team-a") as creating:
            install(plane, current())
            after = [plane.api.get(f"{POLICIES}/ours"), plane.api.get(f"{ACCELERATORS}/ours")]
            assert [one["metadata"]["uid"] for one in after] == [one["metadata"]["uid"] for one in before]
            assert [one["spec"] for one in after] == [one["spec"] for one in before]
            assert pinned(plane) == RTX_PRO_6000.product

            # The new field, while the old replica still runs.
            plane.apply(POLICY)
            until(RTX_5090.product)

            new.start()
            plane.processes.wait("kube-apiserver", lambda: endpoints.told(new))
            old.terminate()
            assert pinned(plane) == RTX_5090.product

            uninstall(plane)
            assert pinned(plane) == ""
        assert creating.refused == []
        assert creating.created > 50
        new.kill()


def uninstall(plane: ControlPlane) -> None:
    command = [sys.executable, "-m", "webhook.cli", "uninstall", f"--kubeconfig={plane.kubeconfig}", "--crds", "--yes"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert told[0] == "validatingwebhookconfigurations/samestep removed"
    assert "customresourcedefinitions/trainingpolicies.samestep.dev removed" in told
    plane.processes.wait("kube-apiserver", lambda: not definitions(plane))


def definitions(plane: ControlPlane) -> list[Json]:
    """Of our kinds. They go a moment after they were removed, with their objects."""
    found = plane.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    return [one for one in found if one["spec"]["group"] == "samestep.dev"]
