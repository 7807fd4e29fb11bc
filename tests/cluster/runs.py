"""Trainings whose runs are simulated: how their pods end is written into their status."""

import json
from datetime import UTC, datetime

from tests.cluster.team import Team
from tests.samples import Json, job, pod

PODS = 2
TORCH, JAX = "registry.example/pytorch-train:1", "registry.example/jax:1"
PYTORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 31.36 GiB "
    "of which 1.02 GiB is free."
)


def training(name: str, *arguments: str, image: str = TORCH) -> Json:
    """Two workers with two GPUs each, on two nodes."""
    spec = pod(gpus=2, command=("torchrun", f"--nnodes={PODS}", "train.py", *arguments))
    spec["containers"][0]["image"] = image
    spec["containers"][0]["resources"] = {"requests": {"cpu": "40"}, "limits": {"nvidia.com/gpu": "2"}}
    found = job(spec, pods=PODS, name=name)
    found["spec"]["backoffLimit"] = 0
    return found


def pods_of(team: Team, name: str) -> list[Json]:
    found = team.kubectl("get", "pods", "-l", f"job-name={name}", "-o", "json")
    items: list[Json] = json.loads(found.stdout)["items"]
    return items


def run(team: Team, submitted: Json, on: str) -> list[Json]:
    """Submits it; the pods that run then, on this model."""
    team.apply(submitted)
    name = submitted["metadata"]["name"]
    assert team.models_of(name, PODS)[-PODS:] == [on] * PODS
    return pods_of(team, name)


def end(team: Team, pods: list[Json], *, message: str = "") -> None:
    """All of them succeed; with a message, the first fails with it and the others are stopped."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for index, one in enumerate(pods):
        code = (1 if index == 0 else 143) if message else 0
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now}
        if message and index == 0:
            ended["message"] = message
        statuses = [{**found, "state": {"terminated": ended}} for found in one["status"]["containerStatuses"]]
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}
        patch = json.dumps({"status": status})
        name = one["metadata"]["name"]
        team.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)
