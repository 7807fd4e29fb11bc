"""Roles with the same pods are read once: nothing shows that, least of all the places to change."""

from typing import Any

import pytest

from tests.samples import Json, pod, pytorchjob
from tests.unit.intake.jobs import edit_of, edits_of
from webhook.intake.read import read_job
from webhook.model.job import Edit, TrainingJob
from webhook.model.request import Kind, User

_KIND = Kind("kubeflow.org", "v1", "PyTorchJob")
_HERE_DOCUMENT = "cat > ds.json <<EOF\n{}\nEOF\ntorchrun --nnodes=5 train.py --bf16 --deepspeed ds.json"
_PODS: dict[str, Json] = {
    "flags": pod(command=("torchrun", "--nnodes=5", "train.py", "--per_device_train_batch_size=32", "--bf16")),
    "flags of two words": pod(command=("accelerate", "launch", "train.py", "--per_device_train_batch_size", "8")),
    "flags with accumulation": pod(
        command=("train.py", "--per_device_train_batch_size=4", "--gradient_accumulation_steps=2")
    ),
    "a script": pod(
        command=("bash", "-c", "export B=16; torchrun --nnodes 5 train.py --per_device_train_batch_size $B")
    ),
    "a file that a script writes": pod(
        command=("bash", "-c", _HERE_DOCUMENT.format('{"train_micro_batch_size_per_gpu": 8}'))
    ),
    "a file that cannot be read": pod(command=("bash", "-c", _HERE_DOCUMENT.format('{"optimizer": '))),
    "a command that is not known": pod(command=("/run",)),
}


def _job(first: Json, second: Json) -> Json:
    obj = pytorchjob(second)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": first}}
    return obj


def _read(first: Json, second: Json) -> tuple[TrainingJob, list[Edit | None]]:
    """The job, with all that may be changed of it."""
    job = read_job(_job(first, second), kind=_KIND, namespace="team-a", user=User("u"))
    assert isinstance(job, TrainingJob)
    return job, edits_of(job)


@pytest.mark.parametrize("spec", _PODS.values(), ids=_PODS)
def test_equal_roles_are_read_as_two_that_differ_in_what_nobody_reads(spec: Json) -> None:
    assert _read(spec, spec) == _read(spec, {**spec, "terminationGracePeriodSeconds": 30})


def test_environment_variables_of_equal_roles_are_changed_in_both() -> None:
    spec = pod(command=("torchrun", "train.py", "--per_device_train_batch_size=$(BATCH)"))
    spec["containers"][0]["env"] = [{"name": "BATCH", "value": "16"}, {"name": "KEY", "valueFrom": {}}]
    job, edits = _read(spec, spec)
    assert (job, edits) == _read(spec, {**spec, "terminationGracePeriodSeconds": 30})
    edit = edit_of(job.batch.micro)
    assert edit is not None
    roles = [one.path and one.path[2] for one in (edit, *edit.also)]
    assert sorted(map(str, roles)) == ["Master", "Worker"]


def test_pods_that_are_nested_too_deeply_to_be_compared_are_read_all_the_same() -> None:
    def nested() -> Json:
        deep: Any = {}
        for _ in range(2_000):
            deep = {"a": deep}
        return {**_PODS["flags"], "unknown": deep}

    assert _read(nested(), nested()) == _read(_PODS["flags"], _PODS["flags"])
