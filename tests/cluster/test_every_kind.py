"""A job written as every kind of the catalog, on the real API server with the kind's real definition."""

import json
from collections.abc import Iterator
from copy import deepcopy
from uuid import uuid4

import pytest
import yaml

from controlplane.api import Api
from controlplane.rig import ControlPlane
from demo.serving import Webhook
from tests.cluster.kinds import JOBS, MANIFESTS, WRAPPERS, Manifest, asks, installed, pod_specs
from tests.cluster.team import LARGE, PRODUCT, Done, Json, Team, spread_pod
from webhook.catalog.workloads import workloads
from webhook.model.workload import Each

pytestmark = pytest.mark.usefixtures("seed_fleet")

PINNED = f"Warning: SST301 pinned to RTX-PRO-6000-Blackwell-Server ({PRODUCT})\n"
RESTORED = f"Warning: SST301 pin put back: {PRODUCT}={LARGE}\n"


def test_every_kind_of_the_catalog_has_a_manifest() -> None:
    known = {(one.source["apiVersion"], one.source["kind"]) for one in MANIFESTS}
    kinds = {
        (f"{one.group}/{version}" if one.group else version, one.kind)
        for one in workloads().reviewed
        for version in one.versions
    }
    # A TrainJob holds no pods: tests of its own.
    assert known == kinds - {("trainer.kubeflow.org/v1alpha1", "TrainJob")}


@pytest.fixture(scope="module")
def team(control_plane: ControlPlane, webhook: Webhook) -> Iterator[Team]:
    """One namespace for all tests here: each kind is small, and they go by their names."""
    name = f"test-{uuid4().hex[:8]}"
    control_plane.create_namespace(name)
    yield Team(control_plane, name)
    control_plane.delete_namespace(name)


@pytest.fixture(scope="module", params=JOBS, ids=lambda one: one.stem)
def kind(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Manifest:
    """A kind of job, which is served."""
    return installed(control_plane, request.param)


@pytest.fixture(scope="module", params=WRAPPERS, ids=lambda one: one.stem)
def wrapper(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Manifest:
    """A kind that holds others, which is served."""
    return installed(control_plane, request.param)


def is_pinned(stored: Json) -> bool:
    """Whether the pin is in every pod template that asks for devices and in no other, and recorded."""
    specs = list(pod_specs(stored["spec"]))
    asking = [spec for spec in specs if asks(spec)]
    assert asking
    assert all("nodeSelector" not in spec and "affinity" not in spec for spec in specs if not asks(spec))
    pins = [spec.get("nodeSelector") == {PRODUCT: LARGE} and "affinity" not in spec for spec in asking]
    assert len(set(pins)) == 1
    recorded = "samestep.dev/pinned" in stored["metadata"].get("annotations", {})
    assert recorded == pins[0]
    return pins[0]


def warned(done: Done) -> str:
    """What kubectl warns of, but for room now: the jobs of the tests before may have it."""
    return "".join(line for line in done.stderr.splitlines(keepends=True) if "SST402" not in line)


def test_it_is_pinned_where_it_asks_for_devices_and_applying_it_again_changes_nothing(
    team: Team, kind: Manifest
) -> None:
    manifest = kind.named("ddp")
    dry = team.apply(manifest, "--dry-run=server", "-o", "json")
    assert (is_pinned(json.loads(dry.stdout)), warned(dry)) == (True, PINNED)

    assert warned(team.apply(manifest)) == PINNED

    stored = team.get(kind.resource, "ddp")
    assert is_pinned(stored)
    done = team.apply(manifest)
    # Of another kind than its own, kubectl sends a list as the file has it, without the pin.
    in_a_list = kind.crds is not None and any(roles.each is Each.ITEM for roles in kind.workload.roles)
    told = ("configured\n", RESTORED) if in_a_list else ("unchanged\n", "")
    assert (done.stdout.rpartition(" ")[2], warned(done)) == told
    again = team.get(kind.resource, "ddp")
    assert again["spec"] == stored["spec"]
    assert again["metadata"].get("generation") == stored["metadata"].get("generation")
    if kind.crds is not None:  # others have a controller here, which writes their status
        assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


def test_two_managers_apply_it_server_side_without_a_conflict(team: Team, kind: Manifest) -> None:
    """Where a list of templates has one owner, any webhook that changes one makes the second manager conflict: it must
    force its own, as Argo CD and Flux do, and the pin is put back."""
    manifest = kind.named("applied")
    assert warned(team.apply(manifest, "--server-side", "--field-manager=user")) == PINNED
    stored = team.get(kind.resource, "applied")

    for manager in ("gitops", "user", "gitops"):
        forced = ["--force-conflicts"] if kind.lists_are_atomic else []
        done = team.apply(manifest, "--server-side", f"--field-manager={manager}", *forced)
        assert warned(done) == (RESTORED if kind.lists_are_atomic else "")

    again = team.get(kind.resource, "applied")
    assert is_pinned(again)
    assert again["spec"] == stored["spec"]


def test_an_update_that_drops_the_pin_gets_it_back(team: Team, kind: Manifest) -> None:
    manifest = kind.named("replaced")
    team.apply(manifest)
    stored = team.get(kind.resource, "replaced")
    manifest["spec"] = deepcopy(stored["spec"])
    for spec in pod_specs(manifest["spec"]):
        spec.pop("nodeSelector", None)

    done = team.kubectl("replace", "-f", "-", stdin=manifest)

    assert warned(done) == RESTORED
    again = team.get(kind.resource, "replaced")
    assert is_pinned(again)
    assert again["spec"] == stored["spec"]


def stem(one: Manifest) -> str:
    return one.stem


@pytest.mark.parametrize(
    "kind", [one for one in JOBS if one.workload.suspend and one.stem != "pod"], indirect=True, ids=stem
)
def test_a_queue_holds_it_back_and_lets_it_go_and_the_pin_stays(team: Team, kind: Manifest) -> None:
    suspend = kind.workload.suspend
    assert suspend is not None
    manifest = kind.named("suspended")
    written = field_of(manifest, suspend[:-1])
    written[suspend[-1]] = True
    assert warned(team.apply(manifest)) == PINNED
    for value in (False, True, False):
        patch: Json = {}
        field_of(patch, suspend[:-1])[suspend[-1]] = value
        # Strict: a path that the definition does not know is an error.
        done = team.kubectl("patch", kind.resource, "suspended", "--type=merge", f"--patch={json.dumps(patch)}")
        assert (warned(done), "no change" in done.stdout) == ("", False)
    stored = team.get(kind.resource, "suspended")
    assert field_of(stored, suspend[:-1])[suspend[-1]] is False
    assert is_pinned(stored)


def field_of(obj: Json, path: tuple[str, ...]) -> Json:
    """The map at a path, made where it is not there."""
    for name in path:
        obj = obj.setdefault(name, {})
    return obj


RUNTIMES = [one for one in WRAPPERS if one.stem.endswith("runtime")]
OTHERS = [one for one in WRAPPERS if one not in RUNTIMES]


@pytest.mark.parametrize("wrapper", OTHERS, indirect=True, ids=stem)
def test_a_wrapper_is_stored_as_it_is_and_warned_about(team: Team, wrapper: Manifest) -> None:
    fits = wrapper.named("fits")
    assert warned(team.apply(fits)) == ""
    too_large: Json = yaml.safe_load(yaml.safe_dump(wrapper.named("too-large")).replace("44Gi", "200Gi"))
    said = team.apply(too_large).stderr
    assert said.startswith("Warning: SST201 out of memory: the job needs 200.0 GiB on every GPU (declared)")
    assert_stored_as_it_is(team, wrapper, "fits", "too-large")


@pytest.mark.parametrize("wrapper", RUNTIMES, indirect=True, ids=stem)
def test_a_runtime_is_stored_as_it_is_and_warned_about(team: Team, wrapper: Manifest) -> None:
    assert "SST401" not in team.apply(wrapper.named("fits")).stderr
    too_large = wrapper.named("too-large")
    too_large["spec"]["mlPolicy"]["numNodes"] = 400
    assert "Warning: SST401 no room: too-large wants 800 GPUs (400 pods with 2 each)" in team.apply(too_large).stderr
    assert_stored_as_it_is(team, wrapper, "fits", "too-large")


def assert_stored_as_it_is(team: Team, wrapper: Manifest, *names: str) -> None:
    for name in names:
        stored = team.get(wrapper.resource, name)
        assert LARGE not in json.dumps(stored)
        assert "samestep.dev/pinned" not in json.dumps(stored)
    team.kubectl("delete", wrapper.resource, *names, "--wait=false")


@pytest.fixture(scope="module")
def controller(control_plane: ControlPlane, team: Team) -> Iterator[Api]:
    """The API as a controller sees it, which may do everything."""
    user = f"system:serviceaccount:{team.namespace}:default"
    binding = ("clusterrolebinding", team.namespace)
    control_plane.kubectl("create", *binding, "--clusterrole=cluster-admin", f"--user={user}")
    yield control_plane.api_for(user)
    control_plane.kubectl("delete", *binding)


@pytest.mark.parametrize("wrapper", OTHERS, indirect=True, ids=stem)
def test_what_the_controller_of_a_wrapper_makes_is_pinned(team: Team, wrapper: Manifest, controller: Api) -> None:
    made = made_by(wrapper)
    team.apply(wrapper.named("owner"))
    owner = team.get(wrapper.resource, "owner")
    made["metadata"] |= {
        "name": f"made-by-{wrapper.stem}",
        "ownerReferences": [
            {key: owner[key] for key in ("apiVersion", "kind")}
            | {key: owner["metadata"][key] for key in ("name", "uid")}
            | {"controller": True}
        ],
    }

    stored = controller.request("POST", f"/apis/batch/v1/namespaces/{team.namespace}/jobs", made)

    assert is_pinned(stored)


def made_by(wrapper: Manifest) -> Json:
    """The Job that the wrapper's controller makes."""
    spec = deepcopy(wrapper.source["spec"])
    if wrapper.stem == "cronjob":
        return {"apiVersion": "batch/v1", "kind": "Job", **spec["jobTemplate"]}
    if wrapper.stem == "appwrapper":
        found: Json = spec["components"][0]["template"]
        return found
    manifest: Json = yaml.safe_load(spec["templates"][0]["resource"]["manifest"])
    return manifest


def rank(name: str, *command: str, gated: bool = False, **metadata: Json) -> Json:
    """One of four pods with two GPUs each."""
    spec = spread_pod() | ({"schedulingGates": [{"name": "example.com/quota"}]} if gated else {})
    spec["containers"][0]["command"] = list(command)
    annotations = {"samestep.dev/memory-per-device": "44Gi"} | metadata.pop("annotations", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, **metadata},
        "spec": spec,
    }


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"kueue.x-k8s.io/pod-group-name": "ddp"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "ddp"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "ddp"}},
        {"annotations": {"scheduling.k8s.io/group-name": "ddp"}},
        {"annotations": {"scheduling.volcano.sh/group-name": "ddp"}},
    ],
    ids=["kueue", "scheduler-plugins", "scheduler-plugins before", "volcano", "volcano's own"],
)
def test_a_pod_of_a_group_is_pinned_whatever_it_runs(team: Team, metadata: Json) -> None:
    """The group alone says that there are others, whose pods are objects of their own."""
    name = f"rank-{uuid4().hex[:8]}"
    team.apply(rank(name, "python", "train.py", **deepcopy(metadata)))
    assert is_pinned(team.get("pod", name))


def test_a_pod_that_belongs_to_nothing_is_left_alone(team: Team) -> None:
    notebook = rank("notebook", "jupyter", "lab")
    del notebook["metadata"]["annotations"]  # else it is kept off what is too small
    assert "SST301" not in team.apply(notebook).stderr
    assert not is_pinned(team.get("pod", "notebook"))


def test_a_gated_pod_is_pinned_when_its_queue_narrows_it_and_no_more_once_it_is_let_go(
    control_plane: ControlPlane, team: Team
) -> None:
    control_plane.kubectl("label", "namespace", team.namespace, "samestep.dev/ignore=true")
    labels = {"kueue.x-k8s.io/pod-group-name": "gated"}
    team.apply(rank("gated", "python", "train.py", gated=True, labels=labels))
    team.apply(rank("let-go", "python", "train.py", labels=labels))
    control_plane.kubectl("label", "namespace", team.namespace, "samestep.dev/ignore-")
    narrower = '--patch={"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}'

    assert warned(team.kubectl("patch", "pod", "gated", narrower)) == PINNED

    selector = {"kubernetes.io/os": "linux", PRODUCT: LARGE}
    assert team.get("pod", "gated")["spec"]["nodeSelector"] == selector
    ungated = team.kubectl("patch", "pod", "gated", "--type=merge", '--patch={"spec": {"schedulingGates": null}}')
    assert warned(ungated) == ""
    assert team.get("pod", "gated")["spec"]["nodeSelector"] == selector
    tolerant = '--patch={"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}'
    assert "SST3" not in team.kubectl("patch", "pod", "let-go", tolerant).stderr
    assert "nodeSelector" not in team.get("pod", "let-go")["spec"]


def test_a_stateful_set_is_a_server_unless_annotated(team: Team) -> None:
    [kind] = (one for one in JOBS if one.stem == "statefulset")
    server = kind.named("server")
    del server["metadata"]["annotations"]["samestep.dev/coupling"]
    assert warned(team.apply(server)) == ""
    assert not is_pinned(team.get(kind.resource, "server"))


def test_a_leader_worker_set_that_serves_is_left_alone(control_plane: ControlPlane, team: Team) -> None:
    [kind] = (one for one in JOBS if one.stem == "leaderworkerset")
    installed(control_plane, kind)
    server = kind.named("server")
    for spec in pod_specs(server):
        spec["containers"][0]["command"] = ["vllm", "serve", "a-model", "--tensor-parallel-size=8"]
    assert warned(team.apply(server)) == ""
    assert not is_pinned(team.get(kind.resource, "server"))
