"""A job of each kind: four ranks of two GPUs each, and whatever else the kind has beside them."""

from typing import Any

from tests.cluster.team import spread_pod
from tests.samples import job

Json = dict[str, Any]


def of_kind(api_version: str, kind: str, **spec: object) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "ddp"}, "spec": spec}


def template(container: str = "train", *, gpus: int = 2, **spec: str) -> Json:
    """Of a rank's pod; some controllers look for a container of a certain name."""
    found = spread_pod(gpus=gpus) | spec
    found["containers"][0]["name"] = container
    return {"spec": found}


def role(replicas: int, container: str, *, gpus: int = 2) -> Json:
    return {"replicas": replicas, "template": template(container, gpus=gpus)}


def training_operator_job(kind: str, container: str, **roles: Json) -> Json:
    field = {"TFJob": "tf", "XGBoostJob": "xgb"}.get(kind, container)
    return of_kind("kubeflow.org/v1", kind, **{f"{field}ReplicaSpecs": roles})


JOB = job(spread_pod())

JOBSET = of_kind(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    replicatedJobs=[
        {"name": "driver", "template": {"spec": {"template": template(gpus=0)}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {"spec": {"parallelism": 2, "completions": 2, "template": template()}},
        },
    ],
)

LEADER_WORKER_SET = of_kind(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    replicas=1,
    leaderWorkerTemplate={"size": 4, "workerTemplate": template(restartPolicy="Always")},
)

MPI_JOB = of_kind(
    "kubeflow.org/v2beta1",
    "MPIJob",
    slotsPerWorker=2,
    mpiReplicaSpecs={"Launcher": role(1, "train", gpus=0), "Worker": role(4, "train")},
)

TRAIN_JOB = of_kind(
    "trainer.kubeflow.org/v1alpha1",
    "TrainJob",
    runtimeRef={"name": "torch-distributed"},
    trainer={
        "numNodes": 4,
        "image": "registry.example/train:1",
        "command": ["torchrun", "train.py"],
        "resourcesPerNode": {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "2"}},
    },
)

_RAY_CLUSTER: Json = {
    "rayVersion": "2.46.0",
    "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head", gpus=0)},
    "workerGroupSpecs": [
        {
            "groupName": "gpus",
            "replicas": 4,
            "minReplicas": 4,
            "maxReplicas": 4,
            "rayStartParams": {},
            "template": template("ray-worker"),
        }
    ],
}
RAY_CLUSTER = of_kind("ray.io/v1", "RayCluster", **_RAY_CLUSTER)
RAY_JOB = of_kind("ray.io/v1", "RayJob", entrypoint="python train.py", rayClusterSpec=_RAY_CLUSTER)

PYTORCH_JOB = training_operator_job("PyTorchJob", "pytorch", Master=role(1, "pytorch"), Worker=role(3, "pytorch"))
TF_JOB = training_operator_job("TFJob", "tensorflow", PS=role(1, "tensorflow", gpus=0), Worker=role(4, "tensorflow"))
XGBOOST_JOB = training_operator_job("XGBoostJob", "xgboost", Master=role(1, "xgboost"), Worker=role(3, "xgboost"))
PADDLE_JOB = training_operator_job("PaddleJob", "paddle", Worker=role(4, "paddle"))
JAX_JOB = training_operator_job("JAXJob", "jax", Worker=role(4, "jax"))
MPI_JOB_V1 = training_operator_job("MPIJob", "mpi", Launcher=role(1, "mpi", gpus=0), Worker=role(4, "mpi"))
