"""One training job, written as every kind: the same pods, as many of them, and nothing else that asks for devices."""

from collections.abc import Callable
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[[Json, int], Json]
"""A pod spec and how many such pods there are, to an object."""

IDLE: Json = {"containers": [{"name": "idle", "image": "registry.example/idle:1", "resources": {}}]}
"""The pod of a role without devices; it says nothing of the job."""


def _object(api_version: str, kind: str, spec: Json, **metadata: Json) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one", **metadata}, "spec": spec}


def job(pod: Json, pods: int) -> Json:
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": {"spec": pod}}
    return _object("batch/v1", "Job", spec)


def _replicas(kind: str, at: str, *roles: tuple[str, Json, int]) -> Json:
    specs = {name: {"replicas": count, "template": {"spec": pod}} for name, pod, count in roles if count}
    return _object("kubeflow.org/v1", kind, {at: specs})


def pytorchjob(pod: Json, pods: int) -> Json:
    return _replicas("PyTorchJob", "pytorchReplicaSpecs", ("Master", pod, 1), ("Worker", pod, pods - 1))


def tfjob(pod: Json, pods: int) -> Json:
    return _replicas("TFJob", "tfReplicaSpecs", ("PS", IDLE, 2), ("Chief", pod, 1), ("Worker", pod, pods - 1))


def xgboostjob(pod: Json, pods: int) -> Json:
    return _replicas("XGBoostJob", "xgbReplicaSpecs", ("Master", pod, 1), ("Worker", pod, pods - 1))


def paddlejob(pod: Json, pods: int) -> Json:
    return _replicas("PaddleJob", "paddleReplicaSpecs", ("Worker", pod, pods))


def jaxjob(pod: Json, pods: int) -> Json:
    return _replicas("JAXJob", "jaxReplicaSpecs", ("Worker", pod, pods))


def mpijob_v1(pod: Json, pods: int) -> Json:
    return _replicas("MPIJob", "mpiReplicaSpecs", ("Launcher", IDLE, 1), ("Worker", pod, pods))


def mpijob_v2(pod: Json, pods: int) -> Json:
    return mpijob_v1(pod, pods) | {"apiVersion": "kubeflow.org/v2beta1"}


def volcano_job(pod: Json, pods: int) -> Json:
    tasks = [
        {"name": "ps", "replicas": 1, "template": {"spec": IDLE}},
        {"name": "worker", "replicas": pods, "template": {"spec": pod}},
    ]
    return _object("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": pods + 1, "tasks": tasks})


def _replicated(name: str, pod: Json, replicas: int, pods: int) -> Json:
    inner = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"name": name, "replicas": replicas, "template": {"spec": inner}}


def jobset_of_one_job(pod: Json, pods: int) -> Json:
    jobs = [_replicated("driver", IDLE, 1, 1), _replicated("workers", pod, 1, pods)]
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def jobset_of_many_jobs(pod: Json, pods: int) -> Json:
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [_replicated("workers", pod, pods, 1)]})


def _ray_cluster(pod: Json, pods: int) -> Json:
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": IDLE}},
        "workerGroupSpecs": [
            {"groupName": "gpu", "replicas": pods, "rayStartParams": {}, "template": {"spec": pod}},
            {"groupName": "cpu", "replicas": 1, "rayStartParams": {}, "template": {"spec": IDLE}},
        ],
    }


def raycluster(pod: Json, pods: int) -> Json:
    return _object("ray.io/v1", "RayCluster", _ray_cluster(pod, pods))


def rayjob(pod: Json, pods: int) -> Json:
    return _object("ray.io/v1", "RayJob", {"entrypoint": "sleep 1", "rayClusterSpec": _ray_cluster(pod, pods)})


def leader_and_workers(pod: Json, pods: int) -> Json:
    template = {"size": pods, "leaderTemplate": {"spec": pod}, "workerTemplate": {"spec": pod}}
    return _object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": template})


def workers_alone(pod: Json, pods: int) -> Json:
    template = {"size": pods, "workerTemplate": {"spec": pod}}
    return _object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": template})


def stateful_set(pod: Json, pods: int) -> Json:
    spec = {"replicas": pods, "serviceName": "one", "template": {"spec": pod}}
    return _object("apps/v1", "StatefulSet", spec, annotations={"samestep.dev/coupling": "Synchronous"})


def pod_of_a_group(pod: Json, pods: int) -> Json:
    labels = {"kueue.x-k8s.io/pod-group-name": "one"}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": str(pods)}
    return _object("v1", "Pod", pod, **({"labels": labels, "annotations": annotations} if pods > 1 else {}))


WRITTEN: dict[str, Write] = {
    "Job": job,
    "PyTorchJob": pytorchjob,
    "TFJob": tfjob,
    "XGBoostJob": xgboostjob,
    "PaddleJob": paddlejob,
    "JAXJob": jaxjob,
    "MPIJob v1": mpijob_v1,
    "MPIJob v2beta1": mpijob_v2,
    "Volcano Job": volcano_job,
    "JobSet of one job": jobset_of_one_job,
    "JobSet of many jobs": jobset_of_many_jobs,
    "RayCluster": raycluster,
    "RayJob": rayjob,
    "LeaderWorkerSet with a leader": leader_and_workers,
    "LeaderWorkerSet of workers": workers_alone,
    "StatefulSet": stateful_set,
    "Pod of a group": pod_of_a_group,
}


def cronjob(inner: Json) -> Json:
    return _object("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": inner["spec"]}})


def appwrapper(inner: Json) -> Json:
    return _object("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": inner}]})
