"""The installation as users have it, in pods behind its Service: `make kind-up`, then `pytest -m kind tests/kind`.

NOT TESTED where this was written, which has no Docker.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.build import artifact
from controlplane.nodes import RTX_5090, RTX_PRO_6000, gpu_node
from tests.samples import Json, job, pod

IMAGE = "localhost/samestep:kind"
OURS = ("--namespace=samestep-system",)


def kubectl(*arguments: str, stdin: Json | None = None) -> str:
    command = [str(artifact("kubectl")), "--context=kind-samestep", *arguments]
    given = json.dumps(stdin) if stdin else None
    return subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout


def get(*arguments: str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(kubectl("get", *arguments, "--output=json"))


@pytest.fixture(scope="module", autouse=True)
def _fleet() -> None:
    """One worker says that it has four RTX 5090, the other four RTX PRO 6000."""
    workers = [node for node in get("nodes")["items"] if "worker" in node["metadata"]["name"]]
    for node, card in zip(workers, (RTX_5090, RTX_PRO_6000), strict=True):
        name, like = node["metadata"]["name"], gpu_node("like", card)
        labels = {key: value for key, value in like["metadata"]["labels"].items() if key.startswith("nvidia.com/")}
        gpus = {key: like["status"]["allocatable"][key] for key in ("nvidia.com/gpu",)}
        kubectl("label", "--overwrite", "node", name, *(f"{key}={value}" for key, value in labels.items()))
        kubectl("patch", "node", name, "--subresource=status", f"--patch={json.dumps({'status': {'capacity': gpus}})}")


@pytest.fixture
def created() -> Iterator[Json]:
    """Four workers with a GPU each: as many as either node has, so that they could be mixed."""
    spec = pod(gpus=1, command=["sh", "-c", "torchrun train.py || samestep --version"])
    spec["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "Never"}
    body = job(spec)
    body["metadata"] |= {"name": "on-kind", "namespace": "default"}
    kubectl("apply", "--filename=-", stdin=body)
    yield get("job", "on-kind")
    kubectl("delete", "job", "on-kind", "--wait")


def test_both_replicas_are_ready_on_nodes_of_their_own() -> None:
    pods = get("pods", *OURS, "--selector=app.kubernetes.io/name=samestep")["items"]

    assert len(pods) == len({one["spec"]["nodeName"] for one in pods}) == 2
    assert all(container["ready"] for one in pods for container in one["status"]["containerStatuses"])


def test_the_authority_is_in_every_webhook() -> None:
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        assert all(entry["clientConfig"]["caBundle"] for entry in get(kind, "samestep")["webhooks"])


def test_a_job_is_pinned_and_runs_on_one_model(created: Json) -> None:
    product = created["spec"]["template"]["spec"]["nodeSelector"]["nvidia.com/gpu.product"]
    kubectl("wait", "--for=condition=Complete", "job/on-kind", "--timeout=2m")

    nodes = {one["spec"]["nodeName"] for one in get("pods", "--selector=job-name=on-kind")["items"]}
    assert {get("node", node)["metadata"]["labels"]["nvidia.com/gpu.product"] for node in nodes} == {product}
