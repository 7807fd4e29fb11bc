"""Pods, jobs and runs as tests of observing need them."""

from typing import Any

from webhook.model.profile import Observation, Profile, Recipe
from webhook.model.run import Ending, Rank, Run, Shown

Json = dict[str, Any]

SMALL, LARGE = "NVIDIA-GeForce-RTX-5090", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"
MEMORY_MIB = {SMALL: 32607.0, LARGE: 97887.0}
RECIPE = Recipe("digest", "family")
PYTORCH = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of "
    "31.36 GiB of which 1.02 GiB is free. Process 73 has 30.3 GiB memory in use."
)


def ended_container(*, code: int = 1, reason: str = "Error", message: str = PYTORCH, state: str = "state") -> Json:
    ended = {"exitCode": code, "reason": reason, "message": message, "finishedAt": "2026-11-30T10:00:00Z"}
    return {"name": "train", state: {"terminated": ended}}


def pod(*containers: Json, phase: str = "Failed", gpus: int = 1, **status: object) -> Json:
    return {
        "metadata": {
            "name": "train-0",
            "namespace": "team",
            "uid": "uid-0",
            "creationTimestamp": "2026-11-30T09:00:00Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other"},
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True},
            ],
        },
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}],
        },
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def rank(name: str = "a-0", *, node: str = "node-a", gpus: int = 1, **fields: Any) -> Rank:  # noqa: ANN401
    known: Json = {"uid": name, "namespace": "team", "owner": "job", "began_at": 0.0, **fields}
    return Rank(name=name, node=node, devices={"nvidia.com/gpu": gpus}, **known)


def run(*shown: Shown, at: float = 100, began_at: float = 0, ending: Ending = Ending.WELL, job: str = "a") -> Run:
    return Run("team", job, RECIPE, began_at, at, ending, shown)


def on(product: str = SMALL, **showing: Any) -> Shown:  # noqa: ANN401
    return Shown(product, MEMORY_MIB[product], **showing)


def profile(*observations: Observation) -> Profile:
    return Profile("team", "train", RECIPE, observations)
