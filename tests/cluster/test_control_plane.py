"""The rig itself: what tests, demo and benchmarks take for granted."""

from typing import Any

import pytest

from controlplane.api import ApiError
from controlplane.nodes import RTX_5090, RTX_PRO_6000, hard_fleet
from controlplane.rig import ControlPlane


def training_pod(*, gpus: int) -> dict[str, Any]:
    # With a request for CPUs the scheduler spreads the pods; without, equal nodes are drawn by lot.
    limits = {"nvidia.com/gpu": gpus, "cpu": "4"}
    container = {"name": "pytorch", "image": "train", "resources": {"limits": limits}}
    return {"restartPolicy": "Never", "containers": [container]}


def job_of_four(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "completionMode": "Indexed",
            "template": {"spec": training_pod(gpus=2)},
        },
    }


def running_on(control_plane: ControlPlane, namespace: str, count: int) -> list[str]:
    """The GPU model under each of the namespace's pods, once `count` of them run."""
    # The controllers take their time after a test in which the API server was away.
    ready = f"--for=jsonpath={{.status.ready}}={count}"
    control_plane.kubectl("wait", "-n", namespace, "job/train", ready, "--timeout=120s")
    models = {
        node["metadata"]["name"]: node["metadata"]["labels"]["nvidia.com/gpu.product"]
        for node in control_plane.api.get("/api/v1/nodes")["items"]
    }
    pods = control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [models[pod["spec"]["nodeName"]] for pod in pods]


@pytest.mark.usefixtures("demo_fleet")
def test_four_workers_land_on_both_models_without_a_webhook(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(job_of_four(namespace))

    assert set(running_on(control_plane, namespace, 4)) == {RTX_5090.product, RTX_PRO_6000.product}


def test_the_pytorchjob_kind_checks_what_it_stores(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    job: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": {"spec": training_pod(gpus=2)}}}},
    }
    control_plane.apply(job)

    assert control_plane.api.get(f"{path}/train")["spec"] == job["spec"]
    with pytest.raises(ApiError) as refused:
        control_plane.api.request("POST", path, job | {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": "4"}}}})
    assert refused.value.status == 422


def test_a_restarted_api_server_keeps_its_data_and_its_address(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.restart_apiserver()

    assert control_plane.api.get(f"/api/v1/namespaces/{namespace}")["status"] == {"phase": "Active"}


def test_what_etcd_has_compacted_is_gone_for_clients(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.restart_apiserver("--watch-cache=false")
    try:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        old = control_plane.api.get(path)["metadata"]["resourceVersion"]
        control_plane.api.request("POST", path, {"metadata": {"name": "later"}})
        as_of_old = f"{path}?resourceVersion={old}&resourceVersionMatch=Exact"
        assert "later" not in str(control_plane.api.get(as_of_old)["items"])
        control_plane.compact_etcd()

        with pytest.raises(ApiError) as gone:
            control_plane.api.get(as_of_old)
        assert gone.value.status == 410
    finally:
        control_plane.restart_apiserver()


def test_a_fleet_of_settled_nodes_stays_as_it_was_created(control_plane: ControlPlane) -> None:
    control_plane.add_settled_nodes(hard_fleet(20))
    try:
        nodes = control_plane.api.get("/api/v1/nodes")["items"]
        assert len({node["status"]["allocatable"]["memory"] for node in nodes}) == 20
        assert not any("taints" in node["spec"] for node in nodes)
    finally:
        control_plane.remove_nodes()


def test_a_service_account_without_rights_may_not_read_nodes(control_plane: ControlPlane, namespace: str) -> None:
    api = control_plane.api_for(f"system:serviceaccount:{namespace}:default")

    with pytest.raises(ApiError) as refused:
        api.get("/api/v1/nodes")
    assert refused.value.status == 403
