"""What the real Kueue makes of jobs that went through the webhook: whatever its flavors are keyed on, every job that it
admits runs, on one GPU model."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from controlplane.controllers import running
from controlplane.nodes import demo_fleet as demo_nodes
from controlplane.rig import ControlPlane
from tests.cluster.conftest import await_fleet
from tests.cluster.team import LARGE, PRODUCT, SMALL, Team, spread_pod
from tests.samples import Json, job

GPU = "nvidia.com/gpu"
OWN, ZONE = "team.example/gpu-type", "topology.kubernetes.io/zone"
BY_PRODUCT: dict[str, Json] = {"small": {PRODUCT: SMALL}, "large": {PRODUCT: LARGE}}
BY_OWN_LABEL: dict[str, Json] = {"small": {OWN: "small"}, "large": {OWN: "large"}}
BY_ZONE: dict[str, Json] = {"a": {ZONE: "a"}, "b": {ZONE: "b"}}
"""Zone a has one node of the small model, zone b all others."""
EITHER: Json = {"memory_per_device": "20Gi"}
"""Declares demand that both models meet; the other one only the large one."""
LARGE_ONLY: Json = {"memory_per_device": "44Gi"}

keyed = pytest.mark.parametrize("labels", [BY_PRODUCT, BY_OWN_LABEL], ids=["product", "own-label"])


@pytest.fixture(scope="module", autouse=True)
def _kueue(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[None]:
    """Kueue and JobSet, and two nodes of each model with a label by hand. Their kinds come before the webhook, which
    looks only once a minute for one that was not served."""
    control_plane.install_crds("jobset", "kueue")
    webhook = request.getfixturevalue("webhook")
    nodes = demo_nodes()
    for node in nodes:
        product = node["metadata"]["labels"][PRODUCT]
        node["metadata"]["labels"][OWN] = "small" if product == SMALL else "large"
        node["metadata"]["labels"][ZONE] = "a" if node["metadata"]["name"] == "rtx5090-1" else "b"
    with running(control_plane, "jobset", "kueue"):
        control_plane.add_nodes(nodes)
        await_fleet(control_plane, webhook, {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2})
        # While there is a flavor, a queue that the webhook does not see yet is told.
        control_plane.apply(kueue("ResourceFlavor", "spare", nodeLabels={"spare": "true"}))
        yield
        control_plane.kubectl("delete", "resourceflavor", "spare")
        control_plane.remove_nodes()


@dataclass(frozen=True, slots=True)
class Submitter:
    """Someone whose jobs go to a queue of their own."""

    team: Team

    def submit(self, manifest: Json, name: str = "ddp") -> Json:
        """The object as it is stored."""
        self.team.apply(queued(manifest, name))
        return self.team.get(manifest["kind"], name)

    def models(self, name: str, pods: int = 4) -> set[str]:
        """The models under the pods of a job, once all of them run."""
        found: list[Json] = []

        def run() -> bool:
            path = f"/api/v1/namespaces/{self.team.namespace}/pods"
            items = self.team.cluster.api.get(path)["items"]
            found[:] = [pod for pod in items if pod["metadata"]["name"].startswith(f"{name}-")]
            running = [pod for pod in found if pod["status"].get("phase") == "Running"]
            return len(running) == len(found) == pods

        self.team.cluster.processes.wait("kueue-controller", run, timeout_s=60)
        nodes = self.team.cluster.api.get("/api/v1/nodes")["items"]
        models = {node["metadata"]["name"]: node["metadata"]["labels"][PRODUCT] for node in nodes}
        return {models[pod["spec"]["nodeName"]] for pod in found}

    def activate(self, active: bool) -> None:
        """Lets Kueue have its one workload, or takes it from it."""
        name = self.team.kubectl("get", "workload", "-o", "name").stdout.strip()
        self.team.kubectl("patch", name, "--type=merge", "-p", json.dumps({"spec": {"active": active}}))


@pytest.fixture
def submitter(team: Team) -> Iterator[Callable[..., Submitter]]:
    """With a queue of these flavors, each with its node labels, and their quotas, in this order."""
    made: list[Json] = []

    def with_queue(labels: dict[str, Json], quotas: dict[str, int]) -> Submitter:
        made.extend(kueue("ResourceFlavor", f"{team.namespace}-{name}", nodeLabels=labels[name]) for name in quotas)
        flavors = [
            {
                "name": f"{team.namespace}-{name}",
                "resources": [{"name": "cpu", "nominalQuota": "64"}, {"name": GPU, "nominalQuota": str(quota)}],
            }
            for name, quota in quotas.items()
        ]
        groups = [{"coveredResources": ["cpu", GPU], "flavors": flavors}]
        made.append(kueue("ClusterQueue", team.namespace, namespaceSelector={}, resourceGroups=groups))
        team.cluster.apply(*made)
        team.apply(kueue("LocalQueue", "queue", clusterQueue=team.namespace))
        team.cluster.kubectl("wait", f"clusterqueue/{team.namespace}", "--for=condition=Active", "--timeout=30s")
        probe = queued(job(spread_pod(), **EITHER), "probe")
        team.cluster.processes.wait(
            "samestep", lambda: "not in view" not in team.apply(probe, "--dry-run=server").stderr
        )
        return Submitter(team)

    yield with_queue
    team.kubectl("delete", "jobs,jobsets", "--all", "--wait=true")
    for one in reversed(made):
        # A finalizer keeps it until nothing uses it any more.
        team.cluster.kubectl("delete", one["kind"], one["metadata"]["name"], "--wait=false")


@keyed
def test_two_jobs_that_fit_either_model_get_a_flavor_each(
    submitter: Callable[..., Submitter], labels: dict[str, Json]
) -> None:
    team = submitter(labels, {"small": 8, "large": 8})

    first = team.submit(job(spread_pod(), **EITHER), "first")
    assert team.models("first") == {SMALL}
    team.submit(job(spread_pod(), **EITHER), "second")

    assert team.models("second") == {LARGE}
    assert "samestep.dev/pinned" not in first["metadata"]["annotations"]


@keyed
def test_a_job_that_fits_one_model_is_kept_off_the_flavor_of_the_other(
    submitter: Callable[..., Submitter], labels: dict[str, Json]
) -> None:
    team = submitter(labels, {"small": 8, "large": 8})

    team.submit(job(spread_pod(), **LARGE_ONLY))

    assert team.models("ddp") == {LARGE}


def test_a_flavor_without_labels_holds_both_models_and_the_job_is_pinned_by_product(
    submitter: Callable[..., Submitter],
) -> None:
    team = submitter({"all": {}}, {"all": 16})

    stored = team.submit(job(spread_pod(), **EITHER))

    assert len(team.models("ddp")) == 1
    assert PRODUCT in stored["spec"]["template"]["spec"]["nodeSelector"]


def test_a_job_is_kept_to_the_flavors_that_have_its_model_where_they_are_keyed_on_something_else(
    submitter: Callable[..., Submitter],
) -> None:
    team = submitter(BY_ZONE, {"a": 8, "b": 8})

    stored = team.submit(job(spread_pod(), **LARGE_ONLY))

    assert team.models("ddp") == {LARGE}
    assert {PRODUCT, ZONE} <= stored["spec"]["template"]["spec"]["nodeSelector"].keys()


def test_a_flavor_for_each_podset_spreads_a_job_over_two_models_where_the_webhook_is_told_to_ignore_it(
    submitter: Callable[..., Submitter],
) -> None:
    team = submitter(BY_OWN_LABEL, {"small": 2, "large": 8})
    team.team.cluster.kubectl("label", "namespace", team.team.namespace, "samestep.dev/ignore=")

    team.submit(jobset())

    assert team.models("ddp") == {SMALL, LARGE}


@keyed
def test_several_podsets_get_flavors_of_one_model(submitter: Callable[..., Submitter], labels: dict[str, Json]) -> None:
    # Kueue would give the driver the small flavor, which has quota for it alone.
    team = submitter(labels, {"small": 2, "large": 8})

    team.submit(jobset())

    assert team.models("ddp") == {LARGE}


def test_several_podsets_in_a_flavor_without_labels_are_pinned_by_product(
    submitter: Callable[..., Submitter],
) -> None:
    team = submitter({"all": {}}, {"all": 16})

    team.submit(jobset())

    assert len(team.models("ddp")) == 1


@keyed
@pytest.mark.parametrize("declared", [EITHER, LARGE_ONLY], ids=["either", "large-only"])
def test_an_evicted_job_is_admitted_again_and_runs_on_one_model(
    submitter: Callable[..., Submitter], labels: dict[str, Json], declared: Json
) -> None:
    team = submitter(labels, {"small": 8, "large": 8})
    team.submit(job(spread_pod(), **declared))
    before = team.models("ddp")

    team.activate(False)
    team.team.kubectl("wait", "job/ddp", "--for=condition=Suspended", "--timeout=30s")
    team.models("ddp", pods=0)
    team.activate(True)

    assert team.models("ddp") == before


def kueue(kind: str, name: str, **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def queued(manifest: Json, name: str) -> Json:
    metadata = {**manifest["metadata"], "name": name, "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
    return {**manifest, "metadata": metadata}


def jobset() -> Json:
    """One driver and three workers, all of them ranks."""
    replicated = [
        {
            "name": name,
            "template": {
                "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spread_pod()}},
            },
        }
        for name, pods in (("driver", 1), ("workers", 3))
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "ddp", "annotations": {"samestep.dev/memory-per-device": "20Gi"}},
        "spec": {"replicatedJobs": replicated},
    }
