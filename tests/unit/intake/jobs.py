"""Objects for the tests of intake: the least that a person would write."""

import copy
from typing import Any, TypeAlias

import jsonpatch

from webhook.intake.read import Outside, read_job
from webhook.model.job import Edit, Reading, TrainingJob, writes
from webhook.model.patch import add, replace
from webhook.model.request import Kind, User

Json: TypeAlias = Any
"""What a decoder of JSON gives, of whatever shape."""

JOB = Kind("batch", "v1", "Job")
PYTORCH_JOB = Kind("kubeflow.org", "v1", "PyTorchJob")
GPU = "nvidia.com/gpu"


def container(*command: str, gpus: object = 1, **fields: Json) -> dict[str, Any]:
    """A container with GPUs and this command."""
    limits = {} if gpus is None else {GPU: gpus}
    return {"name": "trainer", "command": list(command), "resources": {"limits": limits}, **fields}


def template(*containers: dict[str, Any], **spec: Json) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


def job(*containers: dict[str, Any], pods: int = 1, indexed: bool = False, **fields: Json) -> dict[str, Any]:
    """A batch/v1 Job with so many pods at once and in all."""
    spec: dict[str, Any] = {"parallelism": pods, "completions": pods, "template": template(*containers)}
    if indexed:
        spec["completionMode"] = "Indexed"
    return {"metadata": {"name": "ddp"}, "spec": {**spec, **fields}}


def pytorch_job(*containers: dict[str, Any], workers: int = 1, **fields: Json) -> dict[str, Any]:
    """A PyTorchJob with a master and so many workers, all alike but none the same object."""
    roles = {
        "Master": {"replicas": 1, "template": template(*copy.deepcopy(containers))},
        "Worker": {"replicas": workers, "template": template(*copy.deepcopy(containers))},
    }
    return {"metadata": {"name": "ddp"}, "spec": {"pytorchReplicaSpecs": roles, **fields}}


def annotated(source: dict[str, Any], **annotations: object) -> dict[str, Any]:
    """The object with `samestep.dev/` annotations; `_` in a name stands for `-`."""
    ours = {f"samestep.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {**source, "metadata": {**source["metadata"], "annotations": ours}}


def read(source: Json, kind: Kind = JOB, user: User | None = None) -> TrainingJob:
    """The job that is read; fails where the object is outside."""
    found = read_job(source, kind=kind, namespace="team-a", user=user or User("alice"))
    assert isinstance(found, TrainingJob), found
    return found


def outside(source: Json, kind: Kind = JOB) -> Outside:
    found = read_job(source, kind=kind, namespace="team-a", user=User("alice"))
    assert isinstance(found, Outside), found
    return found


def edit_of(reading: Reading | None) -> Edit | None:
    return None if reading is None else reading.edit()


def edits_of(job: TrainingJob) -> list[Edit | None]:
    """Everything that suggestions may change: numbers of the batch, of pods and of devices."""
    batch = job.batch
    readings = (batch.micro, batch.declared, batch.accumulation, batch.total)
    roles = [edit() for role in job.roles for edit in (role.replicas, role.per_pod)]
    return [batch.accumulation_edit(), *map(edit_of, readings), *roles]


def changed(source: dict[str, Any], *changes: tuple[Edit | None, int]) -> Json:
    """The object after these changes, applied as RFC 6902 operations."""
    edits = [(edit, number) for edit, number in changes if edit is not None]
    assert len(edits) == len(changes)
    operations = [
        add(write.path, write.value) if write.adds else replace(write.path, write.value) for write in writes(edits)
    ]
    return jsonpatch.apply_patch(source, operations)
