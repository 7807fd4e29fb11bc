"""Policies that come, change, break and go while jobs are created, on a real API server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import MANIFESTS, Webhook, start_webhook
from tests.cluster.conftest import await_fleet, serving
from tests.samples import Json, pod

API = "samestep.dev/v1alpha1"
POLICIES = f"/apis/{API}/trainingpolicies"
BROKEN = 'samestep_broken_objects{kind="TrainingPolicy"}'
MODELS = {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2}


def policy(name: str, **spec: object) -> Json:
    return {"apiVersion": API, "kind": "TrainingPolicy", "metadata": {"name": name}, "spec": spec}


def conditioned(expression: str) -> Json:
    """What the API server cannot check, and we can."""
    return {"matchConditions": [{"name": "some", "expression": expression}]}


def job(**metadata: object) -> Json:
    spec = pod(gpus=2, command=["torchrun", "train.py"])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "live-", **metadata},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": spec}},
    }


@pytest.fixture(scope="module", autouse=True)
def _kinds(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.kubectl("apply", "--server-side", "-f", MANIFESTS / "crds")
    for plural in ("trainingpolicies", "acceleratorpools", "trainingpolicyexceptions"):
        control_plane.kubectl("wait", "--for=condition=Established", f"crd/{plural}.samestep.dev")
    yield
    control_plane.kubectl("delete", "-f", MANIFESTS / "crds")


@pytest.fixture
def webhook(control_plane: ControlPlane, account: Path, demo_fleet: None, tmp_path: Path) -> Iterator[Webhook]:
    with serving(control_plane, tmp_path, f"--kubeconfig={account}") as running:
        await_fleet(control_plane, running, MODELS)
        yield running
        control_plane.kubectl("delete", "trainingpolicies", "--all")


def created(control_plane: ControlPlane, obj: Json | None = None) -> Json:
    return control_plane.api.request("POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All", obj or job())


def is_pinned(stored: Json) -> bool:
    return "nodeSelector" in stored["spec"]["template"]["spec"]


def within_two_seconds(condition: Callable[[], object]) -> float:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() < started + 2, "not within two seconds"
        time.sleep(0.02)
    return time.monotonic() - started


def ready(control_plane: ControlPlane, name: str) -> Json:
    status = control_plane.api.get(f"{POLICIES}/{name}").get("status", {})
    return next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})


def test_a_policy_takes_effect_within_two_seconds_as_it_comes_changes_and_goes(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    assert is_pinned(created(control_plane))
    control_plane.apply(policy("one", pin={"when": "Never"}))
    within_two_seconds(lambda: not is_pinned(created(control_plane)))
    control_plane.apply(policy("one", pin={"when": "Always"}))
    within_two_seconds(lambda: is_pinned(created(control_plane)))
    control_plane.apply(policy("higher", priority=1, pin={"when": "Never"}))
    within_two_seconds(lambda: not is_pinned(created(control_plane)))
    control_plane.kubectl("delete", "trainingpolicy", "higher")
    within_two_seconds(lambda: is_pinned(created(control_plane)))
    # Policies exist, but none for this kind: out of scope, which the default would not be.
    control_plane.apply(policy("one", match={"kinds": ["PyTorchJob.kubeflow.org"]}))
    within_two_seconds(lambda: not is_pinned(created(control_plane)))
    control_plane.kubectl("delete", "trainingpolicy", "one")
    within_two_seconds(lambda: is_pinned(created(control_plane)))
    assert webhook.metrics()["samestep_policies"] == 0


def test_the_labels_of_a_namespace_count_within_two_seconds(control_plane: ControlPlane, webhook: Webhook) -> None:
    selector = {"matchLabels": {"team": "vision"}}
    control_plane.apply(policy("vision", match={"namespaceSelector": selector}, pin={"when": "Never"}))
    control_plane.apply(policy("others", priority=-1))
    within_two_seconds(lambda: webhook.metrics()["samestep_policies"] == 2)
    assert is_pinned(created(control_plane))
    control_plane.kubectl("label", "namespace", "default", "team=vision")
    try:
        within_two_seconds(lambda: not is_pinned(created(control_plane)))
    finally:
        control_plane.kubectl("label", "namespace", "default", "team-")
    within_two_seconds(lambda: is_pinned(created(control_plane)))


def test_a_bad_edit_leaves_the_last_good_one_and_is_told_on_the_object(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    control_plane.apply(policy("one", pin={"when": "Never"}))
    within_two_seconds(lambda: not is_pinned(created(control_plane)))
    control_plane.processes.wait("samestep", lambda: ready(control_plane, "one").get("status") == "True")
    assert ready(control_plane, "one")["reason"] == "InForce"

    control_plane.apply(policy("one", match=conditioned("object.metadata.name ==")))
    within_two_seconds(lambda: webhook.metrics()[BROKEN] == 1)
    control_plane.processes.wait("samestep", lambda: ready(control_plane, "one").get("status") == "False")
    told = ready(control_plane, "one")
    assert told["reason"] == "Invalid"
    assert told["message"].startswith("spec.match.matchConditions.0.expression: ")
    assert told["message"].endswith("(what it said before counts on)")
    stored = control_plane.api.get(f"{POLICIES}/one")
    assert told["observedGeneration"] == stored["status"]["observedGeneration"] == stored["metadata"]["generation"]
    assert not is_pinned(created(control_plane))
    shown = control_plane.kubectl("get", "trainingpolicy", "one").stdout.splitlines()[1].split()
    assert "False" in shown

    def events() -> list[Json]:
        found = control_plane.api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=one")
        return [one for one in found["items"] if one["involvedObject"]["kind"] == "TrainingPolicy"]

    control_plane.processes.wait("samestep", lambda: bool(events()))
    assert [(one["type"], one["reason"], one["message"]) for one in events()] == [
        ("Warning", "Invalid", told["message"])
    ]
    assert "Warning  Invalid" in control_plane.kubectl("describe", "trainingpolicy", "one").stdout

    control_plane.apply(policy("one", pin={"when": "Always"}))
    within_two_seconds(lambda: is_pinned(created(control_plane)))
    control_plane.processes.wait("samestep", lambda: ready(control_plane, "one").get("status") == "True")
    assert (webhook.metrics()[BROKEN], len(events())) == (0, 1)
    assert ready(control_plane, "one")["message"] == ""


def test_a_policy_that_was_never_good_turns_the_default_off_and_denies_nobody(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    control_plane.apply(policy("one", match=conditioned("object.metadata.name ==")))
    within_two_seconds(lambda: not is_pinned(created(control_plane)))
    assert webhook.metrics()[BROKEN] == 1


def test_each_job_is_decided_by_the_old_or_the_new_policies_while_they_change(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    """Two settings that change together: a mixture would be the one's label with the other's model."""
    order = {"left": "RTX-5090", "right": "RTX-PRO-6000-Blackwell-Server"}
    edits = {
        name: policy("one", pin={"when": "Always", "strategy": "Ordered", "order": [model], "keys": [f"key-{name}"]})
        for name, model in order.items()
    }
    for node in control_plane.api.get("/api/v1/nodes")["items"]:
        product = node["metadata"]["labels"]["nvidia.com/gpu.product"]
        for name in order:
            control_plane.kubectl("label", "node", node["metadata"]["name"], f"key-{name}={product}")
    control_plane.apply(edits["left"])

    def pinned_by(stored: Json) -> tuple[str, bool]:
        [(key, value)] = stored["spec"]["template"]["spec"].get("nodeSelector", {"": ""}).items()
        return key, "5090" in value

    within_two_seconds(lambda: pinned_by(created(control_plane)) == ("key-left", True))
    seen: list[tuple[str, bool]] = []
    over = threading.Event()

    def stream() -> None:
        while not over.is_set():
            seen.append(pinned_by(created(control_plane)))

    threads = [threading.Thread(target=stream) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            for name in ("right", "left"):
                put(control_plane, edits[name])
                time.sleep(0.5)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert set(seen) == {("key-left", True), ("key-right", False)}
    assert len(seen) > 50


def put(control_plane: ControlPlane, obj: Json) -> None:
    path = f"{POLICIES}/{obj['metadata']['name']}"
    while True:
        stored = control_plane.api.get(path)
        try:
            control_plane.api.request("PUT", path, {**obj, "metadata": stored["metadata"]})
        except ApiError as error:
            if error.status != 409:  # its status was written in between
                raise
        else:
            return


def mount(at: Path, version: int, **files: str) -> None:
    """A ConfigMap as kubelet mounts and changes it: a new hidden folder, and one link that is replaced."""
    (at / f"..{version}").mkdir(parents=True)
    for name, content in files.items():
        (at / f"..{version}" / f"{name}.yaml").write_text(content)
        if not (at / f"{name}.yaml").is_symlink():
            (at / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    (at / "..new").symlink_to(f"..{version}")
    (at / "..new").replace(at / "..data")


def test_a_config_map_mount_is_followed_and_goes_before_an_object_of_the_same_name(
    control_plane: ControlPlane, account: Path, demo_fleet: None, tmp_path: Path
) -> None:
    at = tmp_path / "policies"
    mount(at, 1, one=yaml.safe_dump(policy("one", pin={"when": "Never"})))
    with serving(control_plane, tmp_path, f"--kubeconfig={account}", f"--policies={at}") as webhook:
        await_fleet(control_plane, webhook, MODELS)
        assert not is_pinned(created(control_plane))
        mount(at, 2, one=yaml.safe_dump(policy("one", pin={"when": "Always"})))
        within_two_seconds(lambda: is_pinned(created(control_plane)))
        mount(at, 3, one="kind: [")
        within_two_seconds(lambda: webhook.metrics()['samestep_broken_objects{kind="File"}'] == 1)
        assert is_pinned(created(control_plane))

        control_plane.apply(policy("one", pin={"when": "Never"}))
        try:
            control_plane.processes.wait("samestep", lambda: ready(control_plane, "one").get("reason") == "Overruled")
            assert "one.yaml has one of the same name, which counts" in ready(control_plane, "one")["message"]
            assert is_pinned(created(control_plane))
            mount(at, 4, two=yaml.safe_dump(policy("two", priority=-1)))
            (at / "one.yaml").unlink()
            within_two_seconds(lambda: not is_pinned(created(control_plane)))
        finally:
            control_plane.kubectl("delete", "trainingpolicy", "one")
        within_two_seconds(lambda: is_pinned(created(control_plane)))


def test_node_labels_that_a_policy_names_change_the_fleet(control_plane: ControlPlane, webhook: Webhook) -> None:
    for index, node in enumerate(control_plane.api.get("/api/v1/nodes")["items"]):
        control_plane.kubectl("label", "node", node["metadata"]["name"], f"gpu-type=ours-{index % 2}")
    control_plane.apply(policy("one", modelLabels=["gpu-type"]))
    await_fleet(control_plane, webhook, {"ours-0": 2, "ours-1": 2})
    control_plane.kubectl("delete", "trainingpolicy", "one")
    await_fleet(control_plane, webhook, MODELS)


def test_one_replica_writes_and_another_takes_over(
    control_plane: ControlPlane, account: Path, demo_fleet: None, tmp_path: Path
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/samestep-system/leases/samestep"

    def holder() -> str:
        with suppress(ApiError):
            return str(control_plane.api.get(lease)["spec"].get("holderIdentity") or "")
        return ""

    running = ["samestep", "samestep-2"]
    try:
        for name in running:
            start_webhook(control_plane.processes, tmp_path, f"--kubeconfig={account}", name=name)
        control_plane.processes.wait("samestep", lambda: bool(holder()))
        first = holder()
        control_plane.apply(policy("one"))
        control_plane.processes.wait("samestep", lambda: bool(ready(control_plane, "one")))
        [leading] = [one for one in running if first in control_plane.processes.log(one).read_text()]
        running.remove(leading)
        control_plane.processes.stop(leading, grace_s=5)
        [other] = running
        control_plane.processes.wait(other, lambda: holder() not in ("", first))
        assert holder() in control_plane.processes.log(other).read_text()
        control_plane.apply(policy("two"))
        control_plane.processes.wait(other, lambda: bool(ready(control_plane, "two")))
    finally:
        for name in running:
            control_plane.processes.stop(name, grace_s=5)
        control_plane.kubectl("delete", "trainingpolicies", "--all")


def test_containers_end_with_their_log_where_policy_wants_that_and_no_update_is_refused_for_it(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    """The API server writes its default before it asks us, and refuses a template that changes after we were asked."""

    def ends(stored: Json) -> str:
        found: str = stored["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"]
        return found

    assert ends(created(control_plane)) == "File"
    control_plane.apply(policy("one", evidence={"terminationMessage": True}))
    within_two_seconds(lambda: ends(created(control_plane)) == "FallbackToLogsOnError")
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    manifest = job(name="live-ending")
    del manifest["metadata"]["generateName"]
    stored = control_plane.api.request("POST", jobs, manifest)
    try:
        assert (ends(stored), is_pinned(stored)) == ("FallbackToLogsOnError", True)
        stored["metadata"]["labels"] = {"by": "git"}
        del stored["metadata"]["resourceVersion"]
        del stored["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"]
        replaced = control_plane.api.request("PUT", f"{jobs}/live-ending", stored)
        assert (ends(replaced), replaced["metadata"]["labels"]["by"]) == ("FallbackToLogsOnError", "git")
    finally:
        control_plane.kubectl("delete", "job", "live-ending")
