"""The custom resource definitions of the projects whose jobs we read, out of the Go modules that ship them."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from controlplane.api import Api, ApiError
from controlplane.build import artifact
from controlplane.processes import Processes

CrdSet: TypeAlias = Literal[
    "training-operator",  # kubeflow.org/v1: PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, MPIJob
    "pytorchjobs.yaml",  # kubeflow.org/v1: PyTorchJob alone
    "mpi-operator",  # kubeflow.org/v2beta1: MPIJob
    "trainer",  # trainer.kubeflow.org/v1alpha1: TrainJob with runtimePatches, TrainingRuntime, ClusterTrainingRuntime
    "trainer-2.1",  # the same kinds, TrainJob with podTemplateOverrides
    "trainer-2.0",  # the same kinds, TrainJob with podSpecOverrides
    "kuberay",  # ray.io/v1: RayJob, RayCluster, RayService, RayCronJob
    "jobset",  # jobset.x-k8s.io/v1alpha2: JobSet
    "lws",  # leaderworkerset.x-k8s.io/v1: LeaderWorkerSet
    "appwrapper",  # workload.codeflare.dev/v1beta2: AppWrapper
    "kueue",  # kueue.x-k8s.io/v1beta2 and v1beta1: ClusterQueue, LocalQueue, ResourceFlavor, Workload, …
    "argo-workflows",  # argoproj.io/v1alpha1: Workflow, with its whole schema
    "volcano",  # batch.volcano.sh/v1alpha1: Job, by a definition of our own
]

_OUR_OWN = {"volcano": Path(__file__).parent / "volcano.yaml"}
_COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DIGEST = "controlplane.samestep.dev/digest"
_PATIENCE_S = 120


def install(api: Api, processes: Processes, name: CrdSet) -> bool:
    """Registers the definitions of a set, and waits until every version of their kinds is served.

    One that is there already stays. Another one of the same name, as MPIJob has in two of the sets and TrainJob in
    three, is replaced, and its objects are deleted with it: whether any was is what it returns. Raises ApiError,
    ProcessError; BuildError and GoUnavailableError where the cache lacks the set.
    """
    return _install(api, processes, _definitions(_OUR_OWN.get(name) or artifact(name)))


def install_folder(api: Api, processes: Processes, folder: Path) -> None:
    """The same for the definitions in a folder."""
    _install(api, processes, _definitions(folder))


def _install(api: Api, processes: Processes, definitions: tuple[dict[str, Any], ...]) -> bool:
    replaced = False
    for definition in definitions:
        path = f"{_COLLECTION}/{definition['metadata']['name']}"
        found = _get(api, path)
        if found is not None and _digest(found) != _digest(definition):
            api.delete(path)
            processes.wait("kube-apiserver", _gone(api, path), timeout_s=_PATIENCE_S)
            found, replaced = None, True
        if found is None:
            api.request("POST", _COLLECTION, definition)
    for definition in definitions:
        processes.wait("kube-apiserver", _served(api, definition), timeout_s=_PATIENCE_S)
    return replaced


@cache
def _definitions(source: Path) -> tuple[dict[str, Any], ...]:
    found = []
    for path in sorted(source.iterdir()) if source.is_dir() else (source,):
        content = path.read_bytes()
        definition = yaml.load(content, yaml.CSafeLoader)  # in C: they are up to 2.6 MB
        if definition["kind"] == "CustomResourceDefinition":  # else it is a kustomization
            definition["metadata"].setdefault("annotations", {})[_DIGEST] = hashlib.sha256(content).hexdigest()
            found.append(definition)
    return tuple(found)


def _digest(definition: dict[str, Any]) -> str | None:
    digest: str | None = definition["metadata"].get("annotations", {}).get(_DIGEST)
    return digest


def _gone(api: Api, path: str) -> Callable[[], bool]:
    return lambda: _get(api, path) is None


def _served(api: Api, definition: dict[str, Any]) -> Callable[[], bool]:
    name, spec = definition["metadata"]["name"], definition["spec"]
    versions = [version["name"] for version in spec["versions"] if version["served"]]
    collections = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in versions]

    def served() -> bool:
        conditions = api.get(f"{_COLLECTION}/{name}").get("status", {}).get("conditions") or ()
        established = any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
        return established and all(_get(api, collection) is not None for collection in collections)

    return served


def _get(api: Api, path: str) -> dict[str, Any] | None:
    try:
        return api.get(path)
    except ApiError as error:
        # A kind is first not found, then its storage starts.
        if error.status in {404, 429, 503}:
            return None
        raise
