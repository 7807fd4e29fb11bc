"""What the API server sends here, by the conditions of manifests/base/webhooks.yaml, and what it does not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane.api import Api, ApiError
from controlplane.rig import ControlPlane
from demo.serving import Webhook
from tests.samples import Json, job, pod, pytorchjob

GPU = {"limits": {"nvidia.com/gpu": "1"}}


def spec(container: Json | None = None, **fields: Any) -> Json:  # noqa: ANN401 - fields of a pod spec
    return {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any", **(container or {})}], **fields}


class Sender:
    """Sends objects as someone, and tells whether our webhooks were asked."""

    def __init__(self, api: Api, webhook: Webhook, namespace: str) -> None:
        self._api = api
        self._webhook = webhook
        self._namespace = namespace

    def creates(self, obj: Json, *, dry_run: bool = True) -> bool:
        return self._asked("POST", self._path(obj) + ("?dryRun=All" if dry_run else ""), obj)

    def updates(self, obj: Json, change: Callable[[Json], object]) -> bool:
        path = f"{self._path(obj)}/{obj['metadata']['name']}"
        while True:
            stored = self._api.get(path)
            change(stored)
            try:
                return self._asked("PUT", path, stored)
            except ApiError as error:
                if error.status != 409:  # its controller has written to it in between
                    raise

    def _asked(self, method: str, path: str, obj: Json) -> bool:
        before = [self._webhook.calls(handler) for handler in ("pin", "check")]
        self._api.request(method, path, obj)
        pin, check = (self._webhook.calls(handler) for handler in ("pin", "check"))
        asked = pin > before[0]
        assert asked == (check > before[1])
        return asked

    def _path(self, obj: Json) -> str:
        obj["metadata"]["namespace"] = self._namespace
        return f"/apis/{obj['apiVersion']}/namespaces/{self._namespace}/{obj['kind'].lower()}s"


@pytest.fixture
def sender(control_plane: ControlPlane, webhook: Webhook, namespace: str) -> Sender:
    return Sender(control_plane.api, webhook, namespace)


@pytest.fixture(autouse=True)
def _no_condition_fails(control_plane: ControlPlane) -> Iterator[None]:
    before = failed_conditions(control_plane, "samestep.dev")
    yield
    assert failed_conditions(control_plane, "samestep.dev") == before


def failed_conditions(control_plane: ControlPlane, domain: str) -> list[str]:
    """Counters of match conditions that ended in an error: under `Fail`, each a refusal."""
    text = control_plane.kubectl("get", "--raw", "/metrics").stdout
    counter = "apiserver_admission_match_condition_evaluation_errors_total"
    return [line for line in text.splitlines() if line.startswith(counter) and f'.{domain}"' in line]


@pytest.mark.parametrize(
    "pod_spec",
    [
        spec({"resources": GPU}),
        spec({"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}),
        spec({"resources": {"limits": {"cpu": "1", "amd.com/gpu": "8"}}}),
        spec({"resources": {"limits": {"nvidia.com/mig-3g.20gb": "1"}}}),
        spec(initContainers=[{"name": "first", "image": "any", "resources": GPU}]),
        spec({"resources": {}}, initContainers=[{"name": "first", "image": "any"}])
        | {"containers": [{"name": "a", "image": "any"}, {"name": "b", "image": "any", "resources": GPU}]},
        spec(
            {"resources": {"claims": [{"name": "gpu"}]}},
            resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        ),
    ],
    ids=["limits", "both", "other vendor", "slice", "init container", "second container", "claim"],
)
def test_a_job_that_asks_for_devices_in_any_way_is_sent(sender: Sender, pod_spec: Json) -> None:
    assert sender.creates(job(pod_spec))


@pytest.mark.parametrize(
    "pod_spec",
    [
        spec(),
        spec({"resources": {}}),
        spec({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}}),
        spec({"resources": {"limits": {"example.com/nvidia.com": "1"}}}),
        spec({"resources": None}, initContainers=None),
    ],
    ids=["no resources", "empty resources", "cpu only", "another device", "nulls"],
)
def test_a_job_without_devices_is_not(sender: Sender, pod_spec: Json) -> None:
    assert not sender.creates(job(pod_spec))


def test_a_pytorchjob_is_sent_if_one_of_its_roles_asks_for_devices(sender: Sender) -> None:
    two_roles = pytorchjob(spec())
    two_roles["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": spec({"resources": GPU})}}

    assert sender.creates(two_roles)
    assert sender.creates(pytorchjob(pod()))
    assert not sender.creates(pytorchjob(spec()))


def test_of_updates_only_those_that_change_the_spec_are_sent(sender: Sender) -> None:
    suspended = job(pod())
    suspended["spec"]["suspend"] = True
    assert sender.creates(suspended, dry_run=False)

    assert not sender.updates(suspended, lambda stored: stored["metadata"].setdefault("labels", {}).update(a="b"))
    assert not sender.updates(suspended, lambda stored: stored["metadata"].update(annotations={"a": "b"}))
    assert sender.updates(suspended, lambda stored: stored["spec"].update(parallelism=3))


def owned(name: str, *, controller: bool = True, kind: str = "PyTorchJob", group: str = "kubeflow.org") -> Json:
    child = job(pod(), name=name)
    owner = {"apiVersion": f"{group}/v1", "kind": kind, "name": "parent", "uid": "4f7c3f0e-0000-4000-8000-000000000000"}
    child["metadata"]["ownerReferences"] = [owner | {"controller": controller}]
    return child


def test_a_decided_jobs_child_is_not_sent_where_a_service_account_makes_it(
    control_plane: ControlPlane, webhook: Webhook, namespace: str, sender: Sender
) -> None:
    user = f"system:serviceaccount:{namespace}:default"
    control_plane.kubectl("create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin", f"--user={user}")
    controller = Sender(control_plane.api_for(user), webhook, namespace)

    try:
        assert not controller.creates(owned("child"))
        assert controller.creates(owned("owned", controller=False))
        assert controller.creates(owned("of-a-cron-job", kind="CronJob", group="batch"))
        assert controller.creates(owned("of-another-group", group="example.com"))
        assert sender.creates(owned("by-a-person"))
    finally:
        control_plane.kubectl("delete", "clusterrolebinding", namespace)


def test_a_condition_that_fails_would_be_counted(control_plane: ControlPlane, webhook: Webhook, sender: Sender) -> None:
    broken, _ = webhook.configurations()
    broken["metadata"]["name"] = "broken"
    broken["webhooks"] = broken["webhooks"][:1]
    broken["webhooks"][0]["name"] = "broken.example.com"
    broken["webhooks"][0]["matchConditions"] = [{"name": "breaks", "expression": "object.spec.nothing.here == 1"}]
    control_plane.apply(broken)

    def counted() -> bool:
        sender.creates(job(pod()))
        return bool(failed_conditions(control_plane, "example.com"))

    control_plane.processes.wait("kube-apiserver", counted)
    control_plane.kubectl("delete", broken["kind"], "broken")
