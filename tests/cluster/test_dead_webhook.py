"""A deny must never stop recovery: what goes on while nobody answers and the webhooks fail closed.

The configurations are those of the overlay; where they point, nothing listens.
"""

import base64
import json
from collections.abc import Iterator

import jsonpatch
import pytest
import yaml

from controlplane.api import ApiError
from controlplane.nodes import H100, gpu_node
from controlplane.nodes import demo_fleet as demo_nodes
from controlplane.rig import ControlPlane, free_ports
from demo.serving import ROOT
from tests.cluster.team import Team
from tests.samples import Json, pod, pytorchjob
from webhook.cluster.registration import fail_closed, webhook_configurations
from webhook.server.certificates import self_signed

BREAK_GLASS = ("delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "samestep")


@pytest.fixture(scope="module", autouse=True)
def nodes(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.add_nodes(demo_nodes())
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(namespaced("samestep-system")))
    yield
    control_plane.remove_nodes()


@pytest.fixture
def dead(control_plane: ControlPlane, team: Team) -> Iterator[None]:
    """Nobody answers, and the API server knows that it has to ask. Two jobs have been created before."""
    for name in ("before", "held"):
        team.apply(plain(name, "nvidia.com/gpu"))
    team.models_of("before", 2)
    [port] = free_ports(1)
    ca, _, _ = self_signed(["127.0.0.1"])
    config = {"url": f"https://127.0.0.1:{port}", "caBundle": base64.b64encode(ca).decode()}
    mutating, validating = webhook_configurations(config)
    control_plane.apply(mutating, jsonpatch.apply_patch(validating, yaml.safe_load(fail_closed())))
    control_plane.processes.wait("kube-apiserver", lambda: is_blocked(team))
    yield
    control_plane.kubectl(*BREAK_GLASS, check=False)
    control_plane.processes.wait("kube-apiserver", lambda: not is_blocked(team))


def is_blocked(team: Team) -> bool:
    path = f"/apis/batch/v1/namespaces/{team.namespace}/jobs?dryRun=All"
    try:
        team.cluster.api.request("POST", path, plain("is-it-blocked", "nvidia.com/gpu"))
    except ApiError as error:
        if "failed calling webhook" not in str(error):
            raise
        return True
    return False


def namespaced(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def plain(name: str, resource: str = "", *, pods: int = 2, **metadata: object) -> Json:
    """A Job of pods that ask for one of the resource, if any; they never end by themselves."""
    limits = {"resources": {"limits": {resource: "1"}}} if resource else {}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any", **limits}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }


def running(team: Team, name: str, pods: int) -> None:
    team.kubectl("wait", f"job/{name}", f"--for=jsonpath={{.status.ready}}={pods}", "--timeout=60s")


@pytest.mark.usefixtures("dead")
def test_only_new_training_jobs_are_blocked_and_one_command_ends_it(control_plane: ControlPlane, team: Team) -> None:
    for blocked in (plain("new", "nvidia.com/gpu"), pytorchjob()):
        told = team.refused(blocked)
        assert "failed calling webhook" in told
        assert "connection refused" in told
    _the_api_server_counts_what_alerts_are_on(control_plane)

    _everything_without_accelerators_goes_on(team)
    _jobs_from_before_go_on_to_their_end(team)
    _pods_are_created_whoever_asks(team)
    _nodes_come_and_go(control_plane)
    _the_system_and_we_come_up(control_plane)

    control_plane.kubectl(*BREAK_GLASS)
    control_plane.processes.wait("kube-apiserver", lambda: not is_blocked(team))
    team.apply(plain("new", "nvidia.com/gpu"))


@pytest.mark.usefixtures("dead")
def test_a_namespace_with_training_jobs_in_it_is_deleted_to_the_end(control_plane: ControlPlane, team: Team) -> None:
    team.kubectl("delete", "namespace", team.namespace, "--timeout=90s")
    assert team.kubectl("get", "namespace", team.namespace, check=False).returncode == 1
    control_plane.create_namespace(team.namespace)


def _the_api_server_counts_what_alerts_are_on(control_plane: ControlPlane) -> None:
    """What manifests/components/monitoring/rules.yaml asks of it, by these names and labels."""
    rules = (ROOT / "manifests" / "components" / "monitoring" / "rules.yaml").read_text()
    counted = control_plane.kubectl("get", "--raw", "/metrics").stdout
    for metric, labels in (
        ("apiserver_admission_webhook_fail_open_count", ['name="jobs.batch.pin.samestep.dev"']),
        (
            "apiserver_admission_webhook_rejection_count",
            ['name="jobs.batch.check.samestep.dev"', 'error_type="calling_webhook_error"'],
        ),
    ):
        assert metric in rules
        lines = [line for line in counted.splitlines() if line.startswith(f"{metric}{{")]
        assert any(all(label in line for label in labels) for line in lines), metric


def _everything_without_accelerators_goes_on(team: Team) -> None:
    team.apply(plain("cpu"))
    running(team, "cpu", 2)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "any"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    team.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    team.kubectl("scale", "deployment/web", "--replicas=2")
    team.kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s")


def _jobs_from_before_go_on_to_their_end(team: Team) -> None:
    pods = f"/api/v1/namespaces/{team.namespace}/pods?labelSelector=job-name%3Dbefore"
    before = {one["metadata"]["uid"] for one in team.cluster.api.get(pods)["items"]}
    team.kubectl("delete", "pods", "-l", "job-name=before", "--grace-period=0", "--force")

    def replaced() -> bool:
        now = {one["metadata"]["uid"] for one in team.cluster.api.get(pods)["items"]}
        return len(now - before) >= 2

    team.cluster.processes.wait("kube-controller-manager", replaced)
    for suspended in ("true", "false"):
        team.kubectl("patch", "job", "before", f'--patch={{"spec": {{"suspend": {suspended}}}}}')
    running(team, "before", 2)
    team.kubectl("patch", "job", "held", '--patch={"metadata": {"finalizers": ["example.com/held"]}}')
    team.kubectl("delete", "job", "held", "--wait=false", "--cascade=foreground")
    team.kubectl("patch", "job", "held", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
    team.kubectl("wait", "job/held", "--for=delete", "--timeout=60s")


def _pods_are_created_whoever_asks(team: Team) -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": pod(gpus=1)}
    team.apply(bare)
    team.kubectl("wait", "pod/bare", "--for=condition=Ready", "--timeout=60s")
    team.kubectl("delete", "pod", "bare", "--grace-period=0", "--force")


def _nodes_come_and_go(control_plane: ControlPlane) -> None:
    control_plane.add_nodes([gpu_node("h100", H100)])
    control_plane.kubectl("cordon", "h100")
    control_plane.kubectl("label", "node", "h100", "mended=yes")
    control_plane.kubectl("drain", "h100", "--ignore-daemonsets", "--force")
    control_plane.api.delete("/api/v1/nodes/h100")


def _the_system_and_we_come_up(control_plane: ControlPlane) -> None:
    """A job with devices too: a driver's self-test, say."""
    for namespace in ("kube-system", "samestep-system"):
        there = Team(control_plane, namespace)
        there.apply(plain("self-test", "nvidia.com/gpu", pods=1))
        running(there, "self-test", 1)
        there.kubectl("delete", "job", "self-test")
    template = {"metadata": {"labels": {"app": "us"}}, "spec": {"containers": [{"name": "webhook", "image": "any"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "us"}}, "template": template}
    us = Team(control_plane, "samestep-system")
    us.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "us"}, "spec": spec})
    us.kubectl("wait", "deployment/us", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s")
    us.kubectl("delete", "deployment", "us")
