"""Nodes of other vendors, as their own labellers leave them."""

from tests.samples import Json


def amd_node(name: str, *, devices: int) -> Json:
    """AMD Instinct MI300X."""
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
    return _node(name, "amd.com/gpu", devices, labels)


def npu_node(name: str, *, devices: int) -> Json:
    """Rebellions REBEL."""
    labels = {"rebellions.ai/npu.count": str(devices), "rebellions.ai/npu.product": "RBLN-CR22"}
    return _node(name, "rebellions.ai/REBEL", devices, labels)


def _node(name: str, resource: str, devices: int, labels: dict[str, str]) -> Json:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", resource: str(devices)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }
