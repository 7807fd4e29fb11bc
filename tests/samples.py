"""Small jobs, fleets and requests for tests, as a person would write them."""

from collections.abc import Iterable
from typing import Any

import jsonpatch

from controlplane.nodes import RTX_5090, RTX_PRO_6000, Card, gpu_node
from webhook.answer.response import patch
from webhook.decision.notes import Tell, untold
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.model.profile import NO_PROFILES, Profiles
from webhook.model.queues import NO_QUEUES, Queues
from webhook.model.request import Kind, Request, Stage, User
from webhook.model.rules import Namespaces, Rules
from webhook.model.surroundings import NOTHING_IN_VIEW, Surroundings
from webhook.model.verdict import Review
from webhook.model.world import World
from webhook.review import review

USER = User("user@example.com", ("system:authenticated",))
Json = dict[str, Any]


def nodes(*groups: tuple[Card, int, int]) -> list[Json]:
    """(card, how many nodes, GPUs a node) …"""
    return [
        gpu_node(f"{card.product.lower()}-{devices}-{index}", card, devices=devices)
        for card, count, devices in groups
        for index in range(count)
    ]


def demo_nodes() -> list[Json]:
    return nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4))


def fleet(objects: Iterable[Json], *, known_since: float = 0.0, taken_at: float | None = None) -> Fleet:
    read = (read_node(one, known_since) for one in objects)
    return build_fleet((one for one in read if one is not None), taken_at=taken_at)


def pod(
    *,
    gpus: int = 2,
    command: Iterable[str] = ("torchrun", "train.py"),
    device: str = "nvidia.com/gpu",
    **spec: Any,  # noqa: ANN401 - fields of a pod spec
) -> Json:
    """A pod spec with one container that asks for devices, and whatever fields come besides."""
    resources = {"limits": {device: gpus}} if gpus else {}
    container = {"name": "train", "image": "registry.example/train:1", "command": list(command), "resources": resources}
    return {"restartPolicy": "Never", "containers": [container], **spec}


def pytorchjob(spec: Json | None = None, *, workers: int = 4, name: str = "ddp", **annotations: str) -> Json:
    """Annotations are given without their prefix, with "_" for "-": memory_per_device="44Gi"."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _metadata(name, annotations),
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": {"spec": spec or pod()}}}},
    }


def job(
    spec: Json | None = None, *, pods: int = 4, indexed: bool = True, name: str = "ddp", **annotations: str
) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, annotations),
        "spec": {
            "parallelism": pods,
            "completions": pods,
            **({"completionMode": "Indexed"} if indexed else {}),
            "template": {"spec": spec or pod(command=("torchrun", f"--nnodes={pods}", "train.py"))},
        },
    }


def ask(
    obj: Json,
    known: Fleet | list[Json] | None = None,
    *,
    old: Json | None = None,
    stage: Stage = Stage.MUTATE,
    policy: Policy | None = None,
    user: User = USER,
    now: float = 1000.0,
    surroundings: Surroundings = NOTHING_IN_VIEW,
    queues: Queues = NO_QUEUES,
    tell: Tell = untold,
    rules: Rules | None = None,
    namespaces: Namespaces | None = None,
    profiles: Profiles = NO_PROFILES,
) -> Review:
    """The review of a CREATE, or of an UPDATE where there is an old object."""
    group, _, version = obj["apiVersion"].rpartition("/")
    request = Request(
        kind=Kind(group, version, obj["kind"]),
        operation="CREATE" if old is None else "UPDATE",
        object=obj,
        old_object=old,
        stage=stage,
        namespace="team-a",
        user=user,
        now=now,
    )
    if known is None or isinstance(known, list):
        known = fleet(demo_nodes() if known is None else known)
    world = World(
        known,
        policy or Policy(),
        surroundings,
        rules=rules,
        namespaces=namespaces or {},
        queues=queues,
        profiles=profiles,
    )
    return review(request, world, tell)


def patched(outcome: Review) -> Json:
    """The object as the API server would store it, applied by the `jsonpatch` library."""
    applied: Json = jsonpatch.apply_patch(outcome.request.object, patch(outcome))
    return applied


def codes(outcome: Review) -> list[str]:
    return [one.code for one in outcome.decision.findings]


def products(outcome: Review) -> list[str]:
    return [model.product for model in outcome.decision.models]


def worker(obj: Json) -> Json:
    """The pod spec of a sample job."""
    spec = obj["spec"]
    spec = spec["pytorchReplicaSpecs"]["Worker"]["template"] if "pytorchReplicaSpecs" in spec else spec["template"]
    found: Json = spec["spec"]
    return found


def _metadata(name: str, annotations: dict[str, str]) -> Json:
    metadata: Json = {"name": name, "namespace": "team-a"}
    if annotations:
        metadata["annotations"] = {f"samestep.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return metadata
