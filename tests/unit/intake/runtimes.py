"""TrainJobs, runtimes and what is in view of them, for tests: the least that a person would write."""

from typing import Any, TypeAlias

from webhook.intake.read import read_job
from webhook.model.job import PatchShape, TrainingJob
from webhook.model.request import Kind, User
from webhook.model.surroundings import Reference, Surroundings

Json: TypeAlias = Any
"""What a decoder of JSON gives, of whatever shape."""

TRAIN_JOB = Kind("trainer.kubeflow.org", "v1alpha1", "TrainJob")
DEFINITION = Reference(
    Kind("apiextensions.k8s.io", "", "CustomResourceDefinition"), "", "trainjobs.trainer.kubeflow.org"
)
GPU = "nvidia.com/gpu"
JOBS = "runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs"


def replicated(name: str, *, step: str = "", gpus: int = 0, job: Json = None, **container: Json) -> Json:
    """A job of a runtime with one container called node; `job` are fields of the Job's spec beside its template, and
    among them `pod` those of the pod spec."""
    fields = dict(job or {})
    pod = fields.pop("pod", {})
    limits = {"resources": {"limits": {GPU: gpus}}} if gpus else {}
    spec = {"containers": [{"name": "node", "image": "registry.example/a:1", **limits, **container}], **pod}
    metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}} if step else {}
    return {"name": name, "template": {"metadata": metadata, "spec": {**fields, "template": {"spec": spec}}}}


def node(**given: Json) -> Json:
    """The job that trains, on eight GPUs where it is not told otherwise."""
    return replicated("node", step="trainer", **{"gpus": 8, **given})


def runtime(*jobs: Json, nodes: int | None = 1, kind: str = "ClusterTrainingRuntime", **policy: Json) -> Json:
    """A runtime called torch, for PyTorch where no other policy is given."""
    numbers = {} if nodes is None else {"numNodes": nodes}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "torch"},
        "spec": {
            "mlPolicy": {**numbers, **(policy or {"torch": {}})},
            "template": {"spec": {"replicatedJobs": [*jobs]}},
        },
    }


def train_job(*, trainer: Json = None, ref: Json = None, annotations: Json = None, **spec: Json) -> Json:
    """A TrainJob that names the runtime called torch."""
    told = {"trainer": trainer} if trainer is not None else {}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tj", "namespace": "team-a", **({"annotations": annotations} if annotations else {})},
        "spec": {"runtimeRef": ref or {"name": "torch"}, **told, **spec},
    }


def definition(*shapes: PatchShape, affinity: bool = True) -> Json:
    """The definition of TrainJob, as far as it is looked at: a spec with these fields."""
    placed: dict[str, Json] = {"nodeSelector": {}, **({"affinity": {}} if affinity else {})}
    fields = {shape.value: {"type": "array", "items": {"properties": placed}} for shape in shapes}
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": {"runtimeRef": {}, **fields}}}}}
    return {"spec": {"versions": [{"name": "v1alpha1", "served": True, "schema": schema}]}}


def in_view(*runtimes: Json, shape: PatchShape | None = None) -> Surroundings:
    """These runtimes (the namespaced ones in team-a), and the definition with this field."""
    seen = {
        Reference(
            Kind("trainer.kubeflow.org", "", one["kind"]),
            "" if one["kind"] == "ClusterTrainingRuntime" else "team-a",
            one["metadata"]["name"],
        ): one
        for one in runtimes
    }
    if shape is not None:
        seen[DEFINITION] = definition(shape, affinity=shape is not PatchShape.POD_SPEC_OVERRIDES)
    return seen


def read(job: Json, surroundings: Surroundings) -> TrainingJob:
    """The job that is read; fails where the object is outside."""
    found = read_job(job, kind=TRAIN_JOB, namespace="team-a", user=User("alice"), surroundings=surroundings)
    assert isinstance(found, TrainingJob), found
    return found


def patch(manager: str, **pods: Json) -> Json:
    """An entry of runtimePatches with these pod specs by job."""
    jobs = [{"name": name, "template": {"spec": {"template": {"spec": pod}}}} for name, pod in pods.items()]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def override(pod: Json, *names: str) -> Json:
    """An entry of podTemplateOverrides."""
    return {"targetJobs": [{"name": name} for name in names], "spec": pod}


def required(*terms: Json) -> Json:
    """Required node affinity with these terms, as a field of a pod spec."""
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
        }
    }


def among(key: str, *values: str) -> Json:
    """A term that asks for one of these values."""
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}
