"""Clusters with jobs and pods that run on them, as `kubectl get -A -o yaml` has them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.samples import Json, demo_nodes, pod, pytorchjob

SMALL, LARGE = ([node["metadata"]["name"] for node in demo_nodes()[start : start + 2]] for start in (0, 2))
"""Nodes of the small and of the large model, four GPUs each."""


def owned_pod(owner: Json, name: str, node: str = "", *, gpus: int = 4, **metadata: Any) -> Json:  # noqa: ANN401
    """A pod that the controller of this object made; on no node, it waits for one."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": f"uid of {owner['metadata']['name']}",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "uid": f"uid of {name}",
            "ownerReferences": [reference],
            **metadata,
        },
        "spec": pod(gpus=gpus, **({"nodeName": node} if node else {})),
        "status": {"phase": "Running"} if node else unschedulable("0/4 nodes are available: 4 Insufficient GPUs."),
    }


def unschedulable(message: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def running(name: str, on: Iterable[str], *, spec: Json | None = None, **annotations: str) -> list[Json]:
    """A PyTorchJob of pods with four GPUs, one on each of these nodes."""
    nodes = list(on)
    made = pytorchjob(spec or pod(gpus=4), workers=len(nodes), name=name, **annotations)
    made["status"] = {"startTime": "2027-01-01T00:00:00Z"}
    return [made, *(owned_pod(made, f"{name}-worker-{index}", node) for index, node in enumerate(nodes))]


def dump(folder: Path, *objects: Json | list[Json], nodes: list[Json] | None = None) -> Path:
    """A file with these objects, and with nodes (those of the demo)."""
    flat = [each for one in objects for each in (one if isinstance(one, list) else [one])]
    file = folder / "dump.yaml"
    file.write_text(yaml.safe_dump_all([*(demo_nodes() if nodes is None else nodes), *flat]))
    return file


PLANTED = 21
"""So many secrets `planted` takes."""


def planted(secrets: Iterator[str]) -> list[Json]:
    """A job, its pod and others with secrets in all places where people put them."""
    container = pod(gpus=4)["containers"][0]
    container |= {
        "command": ["sh", "-c", f"export HF_TOKEN={next(secrets)}; torchrun train.py --wandb-key {next(secrets)}"],
        "args": [
            *("--hub-token", next(secrets), f"--api_key={next(secrets)}", f"DB_PASSWORD={next(secrets)}"),
            *(f"https://ada:{next(secrets)}@example.com/x", f'-H "Authorization: Bearer {next(secrets)}"'),
            f'{{"client_secret": "{next(secrets)}"}}',
        ],
        "env": [
            {"name": "WANDB_API_KEY", "value": next(secrets)},
            {"name": "ANYTHING", "value": next(secrets)},
            {"name": "REFERRED", "value": next(secrets)},
        ],
        "livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "X", "value": next(secrets)}]}},
    }
    container["args"].append("--run=$(REFERRED)")
    volume = {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"mount": next(secrets)}}}
    spec = {"containers": [container], "volumes": [volume]}
    made = pytorchjob(spec, workers=2, memory_per_device="20Gi")
    made["metadata"]["annotations"] |= {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"x": next(secrets)}),
        "notes": next(secrets),
    }
    made["metadata"]["managedFields"] = [{"fieldsV1": {next(secrets): {}}}]
    made["status"] = {
        "startTime": "2027-01-01T00:00:00Z",
        "conditions": [{"type": "Created", "message": next(secrets)}],
    }
    running_pod = owned_pod(made, "ddp-0", SMALL[0])
    running_pod["spec"]["containers"][0]["env"] = [{"name": "S", "value": next(secrets)}]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "team-a"},
        "stringData": {"token": next(secrets)},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": next(secrets)}}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"x": {"env": [{"name": "A", "value": next(secrets)}]}}}},
    }
    return [made, running_pod, secret, config, runtime]
