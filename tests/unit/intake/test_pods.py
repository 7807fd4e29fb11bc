"""What is read of pods that are there already."""

import json

import pytest

from tests.samples import Json, pod
from webhook.answer.wording import own_sentence
from webhook.intake.pods import PodError, read_pod
from webhook.model.job import PinRecord
from webhook.model.pods import Pod

RECORD = json.dumps({"key": "k", "values": ["a"], "policy": "p"})


def raw(phase: str = "Running", spec: Json | None = None, **metadata: object) -> Json:
    base = {"name": "p", "namespace": "team-a", "uid": "u-1", "creationTimestamp": "1970-01-01T00:01:00Z"}
    return {
        "metadata": base | metadata,
        "spec": {**(spec or pod(gpus=2)), "nodeName": "n0"},
        "status": {"phase": phase},
    }


def test_a_pod_is_read_as_what_it_takes_of_its_node() -> None:
    spec = pod(gpus=2)
    spec["containers"][0]["resources"]["requests"] = {"cpu": "1500m", "memory": "1Gi"}
    requests = {"nvidia.com/gpu": 2, "cpu": 1500, "memory": 1 << 30, "pods": 1}
    assert read_pod(raw(spec=spec)) == Pod("u-1", "team-a", "", "n0", requests, 60)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_takes_nothing(phase: str) -> None:
    assert read_pod(raw(phase)) is None


def test_pods_that_ask_for_the_same_share_what_they_ask_for() -> None:
    first, second = read_pod(raw()), read_pod(raw(uid="u-2"))
    assert first is not None
    assert second is not None
    assert first.requests is second.requests


@pytest.mark.parametrize(
    ("metadata", "group"),
    [
        ({"labels": {"scheduling.x-k8s.io/pod-group": "ring"}}, "ring"),
        ({"ownerReferences": [{"uid": "o-1"}, {"uid": "o-2", "controller": True}]}, "o-2"),
        ({}, ""),
    ],
)
def test_a_pod_that_carries_a_pin_tells_with_whom_it_belongs(metadata: Json, group: str) -> None:
    pinned = read_pod(raw(annotations={"samestep.dev/pinned": RECORD}, **metadata))
    assert pinned is not None
    assert (pinned.record, pinned.group) == (PinRecord("k", ("a",), "p"), group)
    plain = read_pod(raw(**metadata))
    assert plain is not None
    assert (plain.record, plain.group) == (None, "")


def test_a_pod_that_cannot_be_read_says_where() -> None:
    spec = pod(gpus=2)
    spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "two"
    with pytest.raises(PodError) as fault:
        read_pod(raw(spec=spec))
    place = "spec.containers[0].resources.limits[nvidia.com/gpu]"
    assert own_sentence(fault.value.finding) == f'{place}: expected a quantity, got "two"'


def test_what_is_no_pod_at_all_takes_a_place_and_nothing_else() -> None:
    empty = read_pod({})
    assert empty is not None
    assert (empty.node, dict(empty.requests)) == ("", {"pods": 1})


WAITING = ("nvidia.com/gpu.product", "NVIDIA-L40S")


@pytest.mark.parametrize(
    ("selector", "condition", "expected"),
    [
        ({"zone": "b", WAITING[0]: WAITING[1]}, {"status": "False", "reason": "Unschedulable"}, WAITING),
        ({WAITING[0]: WAITING[1]}, {"status": "False", "reason": "SchedulingGated"}, WAITING),
        ({WAITING[0]: WAITING[1]}, {"status": "True"}, None),
        ({WAITING[0]: WAITING[1]}, None, None),
        ({"zone": "b"}, {"status": "False"}, None),
        ({WAITING[0]: 5}, {"status": "False"}, None),
        (None, {"status": "False"}, None),
    ],
)
def test_a_pod_that_the_scheduler_has_passed_over_waits_for_the_model_it_selects(
    selector: Json | None, condition: Json | None, expected: tuple[str, str] | None
) -> None:
    waiting = raw("Pending", {"nodeSelector": selector})
    del waiting["spec"]["nodeName"]
    waiting["status"]["conditions"] = [None, {"type": "PodScheduled", **condition} if condition else "x"]
    found = read_pod(waiting)
    assert found is not None
    assert found.waits_for == expected
