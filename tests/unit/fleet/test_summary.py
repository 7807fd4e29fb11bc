"""The fleet by model, as `samestep fleet` shows it."""

from typing import Any

from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.fleet.summary import ModelSummary, summarize
from webhook.model.fleet import Fleet

GPU = "nvidia.com/gpu"


def raw(name: str, devices: int, product: str = "", status: str = "True", **spec: object) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": product} if product else {}
    amounts = {GPU: str(devices)}
    conditions = [{"type": "Ready", "status": status}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": conditions},
    }


def fleet(*objects: dict[str, Any]) -> Fleet:
    return build_fleet(node for one in objects if (node := read_node(one)) is not None)


def test_each_model_is_one_row_with_what_is_there_and_what_is_now() -> None:
    low = raw("low", 8, "NVIDIA-L40S")
    low["metadata"]["labels"]["nvidia.com/gpu.memory"] = "46000"
    rows = summarize(fleet(raw("a", 8, "NVIDIA-L40S"), low, raw("b", 4, "NVIDIA-GeForce-RTX-5090")))
    assert rows == (
        ModelSummary("RTX-5090", "NVIDIA-GeForce-RTX-5090", GPU, 32607, 1, 4, 4, ()),
        ModelSummary("L40S", "NVIDIA-L40S", GPU, 46000, 2, 16, 16, ()),
    )


def test_passing_states_are_noted_and_their_devices_are_not_now() -> None:
    rows = summarize(
        fleet(
            raw("a", 8, "NVIDIA-L4"), raw("b", 4, "NVIDIA-L4", "Unknown"), raw("c", 2, "NVIDIA-L4", unschedulable=True)
        )
    )
    assert rows == (ModelSummary("L4", "NVIDIA-L4", GPU, 23034, 3, 14, 8, ("not ready 1", "unschedulable 1")),)


def test_nodes_of_no_one_known_model_are_rows_of_their_own_that_say_why() -> None:
    mixed = raw("mixed", 4, "NVIDIA-GeForce-RTX-4090")
    mixed["metadata"]["labels"]["nvidia.com/gpu.count"] = "2"
    rows = summarize(
        fleet(
            raw("bare", 1),
            raw("half-set", 2, "NVIDIA-A30-MIG-INVALID"),
            raw("unified", 3, "NVIDIA-GB10", "False"),
            mixed,
            raw("sliced", 5, "NVIDIA-L4-SHARED"),
        )
    )
    assert rows == (
        ModelSummary("unknown", "", GPU, None, 1, 1, 1, ("model unknown",)),
        ModelSummary("A30", "NVIDIA-A30-MIG-INVALID", GPU, None, 1, 2, 2, ("model unknown",)),
        ModelSummary("GB10", "NVIDIA-GB10", GPU, None, 1, 3, 0, ("memory unknown", "not ready 1")),
        ModelSummary("RTX-4090", "NVIDIA-GeForce-RTX-4090", GPU, None, 1, 4, 4, ("two models in one node 1",)),
        ModelSummary("L4", "NVIDIA-L4-SHARED", GPU, None, 1, 5, 5, ("shares",)),
    )
