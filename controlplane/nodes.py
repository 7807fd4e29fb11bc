"""Node objects as GPU feature discovery and the NVIDIA device plugin leave them, for kwok to bring to life."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU model: the value of `nvidia.com/gpu.product`, memory in MiB as NVML reports it, compute capability."""

    product: str
    memory_mib: int
    family: str
    compute: tuple[int, int]


RTX_5090 = Card("NVIDIA-GeForce-RTX-5090", 32_607, "blackwell", (12, 0))
RTX_PRO_6000 = Card("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97_887, "blackwell", (12, 0))
A100_80GB = Card("NVIDIA-A100-SXM4-80GB", 81_920, "ampere", (8, 0))
H100 = Card("NVIDIA-H100-80GB-HBM3", 81_559, "hopper", (9, 0))
L40S = Card("NVIDIA-L40S", 46_068, "ada-lovelace", (8, 9))


def demo_fleet() -> list[dict[str, Any]]:
    """Two nodes of RTX 5090 and two of RTX PRO 6000 Blackwell, four GPUs each."""
    return [
        gpu_node(f"{name}-{index}", card)
        for name, card in (("rtx5090", RTX_5090), ("pro6000", RTX_PRO_6000))
        for index in (1, 2)
    ]


def hard_fleet(count: int) -> Iterator[dict[str, Any]]:
    """`count` nodes of five models, no two alike: host name, provider id and allocatable memory are each node's own.

    They are Ready from the start and not kwok's, so that no component has anything to do for them: thousands fit on
    a small machine. Pods bound to them do not start.
    """
    for index, card in zip(range(count), cycle((RTX_5090, RTX_PRO_6000, A100_80GB, H100, L40S)), strict=False):
        node = gpu_node(f"node-{index:05}", card, devices=8, memory_kib=1_056_000_000 - index)
        node["metadata"]["annotations"] = {"node.alpha.kubernetes.io/ttl": "0"}  # else the controller manager adds it
        node["spec"]["providerID"] = f"baremetal://rack-{index // 16}/{index:05}"
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        yield node


def gpu_node(
    name: str, card: Card, *, devices: int = 4, cpus: int = 64, memory_kib: int = 512 * 1024**2
) -> dict[str, Any]:
    """A node of `devices` GPUs of one model; `memory_kib` is its allocatable main memory."""
    major, minor = card.compute
    gpu_labels = {
        "product": card.product,
        "memory": card.memory_mib,
        "count": devices,
        "replicas": 1,
        "family": card.family,
        "compute.major": major,
        "compute.minor": minor,
        "present": "true",
    }
    node = cpu_node(name, cpus=cpus, memory_kib=memory_kib)
    node["metadata"]["labels"] |= {f"nvidia.com/gpu.{key}": str(value) for key, value in gpu_labels.items()}
    for resources in (node["status"]["capacity"], node["status"]["allocatable"]):
        resources["nvidia.com/gpu"] = str(devices)
    return node


def cpu_node(name: str, *, cpus: int = 64, memory_kib: int = 512 * 1024**2) -> dict[str, Any]:
    """A node without GPUs; `memory_kib` is its allocatable main memory."""
    resources = {"cpu": str(cpus), "memory": f"{memory_kib}Ki", "ephemeral-storage": "1Ti", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {},
        "status": {"capacity": dict(resources), "allocatable": dict(resources)},
    }
