"""The kinds of job whose creation is measured."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.review import sized_job
from tests.samples import Json


@dataclass(frozen=True, slots=True)
class Kind:
    """`sized` makes one of about so many bytes; `pod_specs` are the places of its pod specs, as JSON pointers."""

    name: str
    group: str
    plural: str
    sized: Callable[[int], Json]
    pod_specs: tuple[str, ...]

    def path(self, namespace: str) -> str:
        return f"/apis/{self.group}/v1/namespaces/{namespace}/{self.plural}"

    @property
    def rule(self) -> Json:
        """By which a webhook or a policy is asked about its creation."""
        return {
            "apiGroups": [self.group],
            "apiVersions": ["v1"],
            "resources": [self.plural],
            "operations": ["CREATE"],
        }


def batch_job(nbytes: int) -> Json:
    """A Job of so many bytes: one role of a PyTorchJob of twice the size."""
    whole = sized_job(2 * nbytes)
    role = whole["spec"]["pytorchReplicaSpecs"]["Worker"]
    spec = {"parallelism": role["replicas"], "completions": role["replicas"], "completionMode": "Indexed"}
    spec["template"] = role["template"]
    spec["template"]["spec"]["restartPolicy"] = "Never"
    return whole | {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


JOB = Kind("Job", "batch", "jobs", batch_job, ("/spec/template/spec",))
PYTORCHJOB = Kind(
    "PyTorchJob",
    "kubeflow.org",
    "pytorchjobs",
    sized_job,
    tuple(f"/spec/pytorchReplicaSpecs/{role}/template/spec" for role in ("Master", "Worker")),
)
KINDS = {one.name: one for one in (JOB, PYTORCHJOB)}
