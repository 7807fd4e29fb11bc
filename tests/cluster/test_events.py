"""Events on jobs and on namespaces, by two replicas with the rights of manifests/base/rbac.yaml and no others."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import Webhook, register, start_webhook, unregister
from tests.cluster.conftest import await_fleet
from tests.cluster.team import Team, spread_pod
from tests.samples import Json, job

MODELS = {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/samestep-system/leases/samestep"
AUDITED = "audited"
OTHER = "samestep-2"


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Jobs are denied everywhere but in the namespace that is only audited."""

    def policy(name: str, operator: str, action: str) -> Json:
        select = {"key": "kubernetes.io/metadata.name", "operator": operator, "values": [AUDITED]}
        spec = {"match": {"namespaceSelector": {"matchExpressions": [select]}}, "validationActions": [action]}
        return {
            "apiVersion": "samestep.dev/v1alpha1",
            "kind": "TrainingPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }

    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump_all([policy("strict", "NotIn", "Deny"), policy("look", "In", "Audit")]))
    return file


@pytest.fixture
def replicas(
    control_plane: ControlPlane, account: Path, demo_fleet: None, policies: Path, tmp_path: Path
) -> Iterator[tuple[Webhook, Webhook]]:
    """The one that is asked, and leads, and the one that leads when that is gone."""
    options = (f"--kubeconfig={account}", f"--policies={policies}")
    with suppress(ApiError):
        control_plane.api.delete(LEASE)
    leading = start_webhook(control_plane.processes, tmp_path, *options)
    control_plane.processes.wait("samestep", lambda: bool(control_plane.api.get(LEASE)))
    following = start_webhook(control_plane.processes, tmp_path, *options, name=OTHER)
    await_fleet(control_plane, leading, MODELS)
    register(control_plane, leading)
    yield leading, following
    unregister(control_plane, following)
    for name in ("samestep", OTHER):
        with suppress(KeyError):  # stopped already
            control_plane.processes.stop(name, grace_s=10)


@pytest.fixture
def audited(control_plane: ControlPlane) -> Iterator[Team]:
    control_plane.create_namespace(AUDITED)
    yield Team(control_plane, AUDITED)
    control_plane.delete_namespace(AUDITED)


def told(team: Team) -> dict[tuple[str, str], Json]:
    """Our Events in the namespace, by what they are on and their reason."""
    found = team.cluster.api.get(f"/api/v1/namespaces/{team.namespace}/events")["items"]
    ours = [one for one in found if one.get("reportingComponent") == "samestep"]
    by_name = {(f"{one['involvedObject']['kind']} {one['involvedObject']['name']}", one["reason"]): one for one in ours}
    assert len(by_name) == len(ours), ours
    return by_name


def until(team: Team, condition: Callable[[], object], name: str = "samestep") -> None:
    team.cluster.processes.wait(name, lambda: bool(condition()), timeout_s=30)


def ddp(name: str) -> Json:
    return job(spread_pod(), name=name)


def too_large(name: str) -> Json:
    return job(spread_pod(), name=name, memory_per_device="200Gi")


def test_each_job_and_all_denials_of_a_minute_have_one_event_whoever_writes_it(
    team: Team, audited: Team, replicas: tuple[Webhook, Webhook]
) -> None:
    _, second = replicas
    team.apply(ddp("pinned"))
    audited.apply(ddp("mixed"))
    audited.apply(too_large("too-large"))
    for name in ("one", "two"):
        team.refused(too_large(name))
    team.refused(too_large("dry"), "--dry-run=server")
    until(team, lambda: len(told(team)) + len(told(audited)) == 3)

    [(key, pinned)] = told(team).items()
    assert (key, pinned["type"]) == (("Job pinned", "Pinned"), "Normal")
    assert pinned["message"].startswith("pinned to RTX-PRO-6000-Blackwell-Server by nvidia.com/gpu.product, ")
    assert pinned["involvedObject"]["uid"] == team.get("job", "pinned")["metadata"]["uid"]
    assert "Pinned" in team.kubectl("describe", "job", "pinned").stdout
    would = told(audited)
    assert "nodeSelector" not in audited.get("job", "mixed")["spec"]["template"]["spec"]
    assert '[{"op":"add","path":"/spec/template/spec/nodeSelector"' in would["Job mixed", "WouldPin"]["message"]
    assert would["Job too-large", "WouldDeny"]["type"] == "Warning"
    assert ": SST201 out of memory" in would["Job too-large", "WouldDeny"]["message"]

    # Once it is gone, which ends its minute early, the other leads, and looks at the newest jobs again.
    assert second.metrics().get('samestep_events_total{outcome="Written"}', 0) == 0
    team.cluster.processes.stop("samestep", grace_s=10)
    until(team, lambda: second.metrics().get('samestep_events_total{outcome="There"}') == 3, OTHER)

    assert second.metrics().get('samestep_events_total{outcome="Written"}', 0) == 0
    assert would == told(audited)
    assert told(team).keys() == {("Job pinned", "Pinned"), (f"Namespace {team.namespace}", "SST201")}
    denied = told(team)[f"Namespace {team.namespace}", "SST201"]
    assert (denied["type"], denied["count"]) == ("Warning", 2)
    assert denied["message"].startswith("denied within a minute: 2; the first, Job one: SST201 out of memory")
