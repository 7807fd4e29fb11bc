"""What the real controllers make of a job: pods on one GPU model with the webhook, and on two without it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.controllers import ControllerName
from controlplane.rig import ControlPlane
from tests.cluster.team import LARGE, PRODUCT, SMALL, Team
from tests.controllers import jobs

Json = dict[str, Any]

CASES: list[tuple[ControllerName | None, Json]] = [
    (None, jobs.JOB),
    ("jobset", jobs.JOBSET),
    ("lws", jobs.LEADER_WORKER_SET),
    ("mpi-operator", jobs.MPI_JOB),
    ("trainer", jobs.TRAIN_JOB),
    ("kuberay", jobs.RAY_CLUSTER),
    ("kuberay", jobs.RAY_JOB),
    ("training-operator", jobs.PYTORCH_JOB),
    ("training-operator", jobs.TF_JOB),
    ("training-operator", jobs.XGBOOST_JOB),
    ("training-operator", jobs.PADDLE_JOB),
    ("training-operator", jobs.JAX_JOB),
    ("training-operator", jobs.MPI_JOB_V1),
]

pytestmark = [
    pytest.mark.usefixtures("seed_fleet"),
    pytest.mark.parametrize(
        "manifest",
        CASES,
        ids=[f"{kind['kind']}-{kind['apiVersion'].replace('/', '-')}" for _, kind in CASES],
        indirect=True,
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _runtimes(control_plane: ControlPlane) -> None:
    """Comes before the webhook, which looks only once a minute for a kind that was not served."""
    control_plane.install_crds("trainer")


@pytest.fixture(scope="module")
def manifest(run_only: Callable[[ControllerName | None], None], request: pytest.FixtureRequest) -> Json:
    """A job, once its controller runs."""
    controller, found = request.param
    run_only(controller)
    return dict(found)


def test_its_pods_land_on_two_models_where_the_webhook_is_told_to_ignore_it(team: Team, manifest: Json) -> None:
    team.cluster.kubectl("label", "namespace", team.namespace, "samestep.dev/ignore=")

    team.apply(manifest)

    assert set(models_of_ranks(team)) == {LARGE, SMALL}


def test_its_pods_land_on_one_model(team: Team, manifest: Json) -> None:
    team.apply(manifest)

    assert models_of_ranks(team) == [LARGE] * 4


def models_of_ranks(team: Team) -> list[str]:
    """The GPU model under each pod with devices, once the job's four of them are bound to nodes."""
    ranks: list[Json] = []

    def bound() -> bool:
        pods = team.cluster.api.get(f"/api/v1/namespaces/{team.namespace}/pods")["items"]
        ranks[:] = [pod for pod in pods if "nvidia.com/gpu" in json.dumps(pod["spec"]["containers"])]
        return len(ranks) >= 4 and all("nodeName" in pod["spec"] for pod in ranks)

    team.cluster.processes.wait("kube-scheduler", bound, timeout_s=90)
    nodes = team.cluster.api.get("/api/v1/nodes")["items"]
    models = {node["metadata"]["name"]: node["metadata"]["labels"][PRODUCT] for node in nodes}
    return [models[pod["spec"]["nodeName"]] for pod in ranks]
