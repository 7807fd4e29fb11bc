"""TrainingPolicy, AcceleratorPool and TrainingPolicyException on a real API server: what it takes of them, what it
fills in and shows, and who may write them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from demo.serving import MANIFESTS
from tests.policy_examples import EXAMPLES, GOOD, PLURALS, Example, head
from tests.samples import Json
from webhook.policy.accelerator_pool import AcceleratorPool
from webhook.policy.exception import TrainingPolicyException
from webhook.policy.training_policy import TrainingPolicy
from webhook.policy.training_profile import TrainingProfile

GROUP = "/apis/samestep.dev/v1alpha1"


@pytest.fixture(scope="module", autouse=True)
def _kinds(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.kubectl("apply", "--server-side", "-f", MANIFESTS / "crds", "-f", MANIFESTS / "rbac-people.yaml")
    for plural in PLURALS.values():
        control_plane.kubectl("wait", "--for=condition=Established", f"crd/{plural}.samestep.dev")
    yield
    control_plane.kubectl("delete", "-f", MANIFESTS / "crds", "-f", MANIFESTS / "rbac-people.yaml")


def collection(kind: str) -> str:
    return f"{GROUP}/{'namespaces/default/' if 'namespace' in head(kind)['metadata'] else ''}{PLURALS[kind]}"


def read(obj: Json) -> object:
    """What it means to us, whatever else the API server has written into its head."""
    match obj["kind"]:
        case "TrainingPolicy":
            return TrainingPolicy.model_validate(obj).resolved()
        case "AcceleratorPool":
            return AcceleratorPool.model_validate(obj).resolved()
        case "TrainingPolicyException":
            return TrainingPolicyException.model_validate(obj).resolved()
        case _:
            return TrainingProfile.model_validate(obj).resolved()


@pytest.mark.parametrize("kind", GOOD)
def test_it_takes_what_we_read_with_the_same_meaning_and_refuses_the_rest_by_field(
    control_plane: ControlPlane, kind: str
) -> None:
    wrong = [told for one in EXAMPLES if one.kind == kind for told in misread(control_plane, one)]
    assert not wrong, "\n".join(wrong)


def misread(control_plane: ControlPlane, example: Example) -> Iterator[str]:
    path = f"{collection(example.kind)}?dryRun=All&fieldValidation=Strict"
    try:
        stored = control_plane.api.request("POST", path, example.document)
    except ApiError as error:
        if error.status not in (400, 422):
            raise
        named = re.sub(r"\[(\w+)\]", r".\1", str(error))
        if not example.field or not re.search(rf"\b{re.escape(example.field)}\b", named):
            yield f"{json.dumps(example.spec)[:200]}: expected {example.field or 'no refusal'}, got {str(error)[:600]}"
        return
    if example.field:
        yield f"{json.dumps(example.spec)[:200]}: {example.field} was taken"
    elif read(stored) != read(example.document):
        yield f"{json.dumps(example.spec)[:200]}: stored as {stored['spec']}"


@pytest.mark.parametrize("kind", GOOD)
def test_the_status_is_written_beside_the_object_and_is_no_part_of_what_it_says(
    control_plane: ControlPlane, kind: str
) -> None:
    path = f"{collection(kind)}/one"
    made = control_plane.api.request("POST", collection(kind), Example(kind, {}).document | {"status": status("True")})
    try:
        assert "status" not in made
        written = control_plane.api.request("PUT", f"{path}/status", made | {"status": status("False"), "spec": {}})
        assert written["status"] == status("False")
        assert (written["spec"], written["metadata"]["generation"]) == (made["spec"], 1)
        kept = control_plane.api.request("PUT", path, written | {"status": status("True")})
        assert kept["status"] == status("False")
        assert read(kept) == read(Example(kind, {}).document)
        for bad in ("Maybe", True):
            with pytest.raises(ApiError, match=r"status\.conditions\[0\]\.status"):
                control_plane.api.request("PUT", f"{path}/status", kept | {"status": status(bad)})
    finally:
        control_plane.api.delete(path)


def status(value: Any) -> Json:  # noqa: ANN401 - also what is none
    condition = {"type": "Ready", "status": value, "reason": "Read", "message": "", "observedGeneration": 1}
    return {"conditions": [condition | {"lastTransitionTime": "2027-01-01T00:00:00Z"}], "observedGeneration": 1}


def test_what_is_left_out_is_shown_filled_in(control_plane: ControlPlane) -> None:
    path = f"{collection('TrainingPolicy')}?dryRun=All"
    spec = control_plane.api.request("POST", path, head("TrainingPolicy"))["spec"]
    assert (spec["memory"], spec["pin"], spec["validationActions"]) == (
        {"reserve": "640Mi", "headroom": "5%", "onUnknown": "Warn"},
        {"when": "WhenMixed"},
        ["Deny"],
    )


@pytest.mark.parametrize(
    ("kind", "short", "spec", "columns"),
    [
        ("TrainingPolicy", "tpol", {"priority": 7}, {"PRIORITY": "7", "ACTION": "Deny", "READY": "False"}),
        (
            "AcceleratorPool",
            "apool",
            {"order": 3, "capacity": {"max": 64}, "inject": {"queueName": "gold"}},
            {"ORDER": "3", "MAX": "64", "QUEUE": "gold", "READY": "False"},
        ),
        (
            "TrainingPolicyException",
            "tpex",
            {},
            {"POLICIES": '["one"]', "UNTIL": "2027-01-31T00:00:00Z", "READY": "False"},
        ),
        (
            "TrainingProfile",
            "tprof",
            {
                "training": {"kind": "PyTorchJob.kubeflow.org"},
                "summary": {
                    "models": "A100",
                    "runs": 3,
                    "outOfMemory": "L4",
                    "peak": "59.8GiB",
                    "lastSeen": "2999-01-01T00:00:00Z",
                },
            },
            {
                "KIND": "PyTorchJob.kubeflow.org",
                "MODELS": "A100",
                "RUNS": "3",
                "OOM": "L4",
                "PEAK": "59.8GiB",
                "SEEN": "<invalid>",
            },
        ),
    ],
)
def test_kubectl_knows_each_by_a_short_name_and_shows_the_gist(
    control_plane: ControlPlane, kind: str, short: str, spec: Json, columns: dict[str, str]
) -> None:
    path = f"{collection(kind)}/one"
    made = control_plane.api.request("POST", collection(kind), Example(kind, spec).document)
    try:
        control_plane.api.request("PUT", f"{path}/status", made | {"status": status("False")})
        titles, values = (line.split() for line in control_plane.kubectl("get", short).stdout.splitlines())
        assert titles == ["NAME", *columns, "AGE"]
        assert values[:-1] == ["one", *columns.values()]
        assert f"{PLURALS[kind][:-1] if kind != 'TrainingPolicy' else 'trainingpolicy'}.samestep.dev/one" in (
            control_plane.kubectl("get", "samestep", "-o", "name").stdout
        )
        told = control_plane.kubectl("explain", f"{short}.spec", "--recursive").stdout
        assert all(f"{field}\t" in told for field in made["spec"])
    finally:
        control_plane.api.delete(path)


def test_who_edits_a_namespace_may_do_what_our_roles_say_and_nobody_writes_profiles(
    control_plane: ControlPlane,
) -> None:
    def may(verb: str, resource: str, user: str, *more: str) -> bool:
        words = ("auth", "can-i", verb, f"{resource}.samestep.dev", "-n", "default", f"--as={user}", *more)
        return control_plane.kubectl(*words, check=False).stdout.strip() == "yes"

    roles = {"ann": "edit", "bob": "samestep-edit", "cem": "samestep-view", "dee": "view"}
    for user, role in roles.items():
        control_plane.kubectl("create", "clusterrolebinding", f"test-{user}", f"--clusterrole={role}", f"--user={user}")
    try:
        for resource in (*PLURALS.values(), "accelerators"):
            found = {
                user: tuple(may(verb, resource, user) for verb in ("get", "delete", "create", "patch"))
                for user in roles
            }
            writes = resource != "trainingprofiles"
            assert found == {
                "ann": (False,) * 4,
                "bob": (True, True, writes, writes),
                "cem": (True, False, False, False),
                "dee": (False,) * 4,
            }
            assert not may("update", resource, "bob", "--subresource=status")
    finally:
        control_plane.kubectl("delete", "clusterrolebinding", *(f"test-{user}" for user in roles))
