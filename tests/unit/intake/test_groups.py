"""Pods that belong together although no object says so: by a label, an annotation, or their controller."""

from typing import Any

import pytest

from tests.unit.intake.jobs import container, read
from webhook.model.job import Coupling, TrainingJob
from webhook.model.request import Kind, User

POD = Kind("", "v1", "Pod")
SPANS = ("torchrun", "--nnodes=4", "train.py")


def owned(*command: str, gpus: int = 2, kind: str = "TrainingRun", **metadata: Any) -> TrainingJob:  # noqa: ANN401
    """A pod that a controller made, which nobody knows unless told otherwise."""
    owner = {"apiVersion": "ml.example.com/v1", "kind": kind, "name": "run", "uid": "1-2-3", "controller": True}
    pod = {
        "metadata": {"name": "run-0", "ownerReferences": [owner], **metadata},
        "spec": {"containers": [container(*command, gpus=gpus)]},
    }
    return read(pod, POD, User("system:serviceaccount:ml:controller"))


def test_a_pod_whose_owner_is_not_known_is_in_the_group_of_its_controller() -> None:
    assert owned("python", "t.py").group == "1-2-3"


def test_a_launcher_that_spans_couples_it_with_its_siblings() -> None:
    job = owned(*SPANS)
    assert (job.coupling, job.coupling_because) == (Coupling.SYNCHRONOUS, "torchrun --nnodes=4")


@pytest.mark.parametrize(("gpus", "coupling"), [(1, Coupling.SINGLE), (4, Coupling.ONE_NODE)])
def test_without_one_it_is_taken_for_a_replica_and_stands_for_itself(gpus: int, coupling: Coupling) -> None:
    assert owned("python", "serve.py", gpus=gpus).coupling is coupling


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"kueue.x-k8s.io/pod-group-name": "ring"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "ring"}},
        {"annotations": {"scheduling.k8s.io/group-name": "ring"}},
    ],
)
def test_a_pod_group_goes_before_the_controller_and_leaves_the_coupling_open(metadata: dict[str, Any]) -> None:
    job = owned("python", "t.py", gpus=1, **metadata)
    assert (job.group, job.coupling, job.coupling_because) == ("ring", Coupling.UNKNOWN, "Pod of a group")


def test_the_total_of_a_pod_group_is_its_gang() -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "ring"}
    (role,) = owned(*SPANS, labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": "4"}).roles
    assert (role.pods, role.gang, role.runs) == (4, 4, 4)


def test_a_total_without_a_group_says_nothing() -> None:
    (role,) = owned(*SPANS, annotations={"kueue.x-k8s.io/pod-group-total-count": "4"}).roles
    assert role.pods == 1
