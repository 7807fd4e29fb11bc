"""Devices as NVIDIA's driver publishes them for dynamic resource allocation, and as pods claim them."""

from typing import Any

from controlplane.nodes import Card, gpu_node

DRIVER = "gpu.nvidia.com"
PATH = "/apis/resource.k8s.io/v1"

Json = dict[str, Any]


def device_class() -> Json:
    """The class of whole devices, without the resource name that pods may ask for in place of a claim."""
    whole = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": whole}}]}}


def spoken(card: Card) -> str:
    """The product as the driver says it; feature discovery writes a dash for each space."""
    return card.product.replace("-", " ")


def claimed_node(name: str, card: Card) -> Json:
    """A node whose devices have no resource name: it has the labels of feature discovery all the same."""
    node = gpu_node(name, card)
    for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
    return node


def resource_slice(node: str, card: Card, devices: int = 4) -> Json:
    """All devices of a node, as a pool of its own."""
    attributes = {"type": {"string": "gpu"}, "productName": {"string": spoken(card)}}
    memory = {"memory": {"value": f"{card.memory_mib}Mi"}}
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{index}", "attributes": attributes, "capacity": memory} for index in range(devices)
            ],
        },
    }


def claim_template(name: str, count: int, *selectors: str) -> Json:
    """For so many devices, by CEL expressions."""
    exactly = {
        "deviceClassName": DRIVER,
        "count": count,
        "selectors": [{"cel": {"expression": one}} for one in selectors],
    }
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec},
    }


def of_product(*products: str) -> str:
    """The CEL expression of a device of one of these."""
    named = f'device.attributes["{DRIVER}"].productName'
    quoted = ", ".join(f'"{one}"' for one in products)
    return f"{named} == {quoted}" if len(products) == 1 else f"{named} in [{quoted}]"


def claiming(spec: Json, template: str) -> Json:
    """The pod spec with a claim by this template for its first container."""
    first, *others = spec["containers"]
    claims = {**first.get("resources", {}), "claims": [{"name": "gpus"}]}
    return spec | {
        "containers": [first | {"resources": claims}, *others],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}],
    }


def allocation(node: str, *devices: str) -> Json:
    """The status of a claim for which the scheduler has chosen these devices of a node."""
    results = [{"driver": DRIVER, "pool": node, "device": one, "request": "gpus"} for one in devices]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [here]}}
