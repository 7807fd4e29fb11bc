"""The fleet by model, as `samestep fleet` shows it."""

from dataclasses import replace
from typing import Any

from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.fleet.summary import ModelSummary, OddNode, odd_nodes, summarize
from webhook.model.fleet import Fleet, Listed

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


def row(
    model: str, product: str, memory_mib: int | None, nodes: int, there: int, now: int, notes: tuple[str, ...] = ()
) -> ModelSummary:
    return ModelSummary(model, product, GPU, memory_mib, nodes, there, now, notes=notes)


def test_each_model_is_one_row_with_what_is_there_and_what_is_now() -> None:
    low = raw("low", 8, "NVIDIA-L40S")
    low["metadata"]["labels"]["nvidia.com/gpu.memory"] = "46000"
    rows = summarize(fleet(raw("a", 8, "NVIDIA-L40S"), low, raw("b", 4, "NVIDIA-GeForce-RTX-5090")))
    assert rows == (
        row("RTX-5090", "NVIDIA-GeForce-RTX-5090", 32607, 1, 4, 4),
        row("L40S", "NVIDIA-L40S", 46000, 2, 16, 16),
    )


def test_memory_that_differs_by_more_than_two_percent_is_noted() -> None:
    low = raw("low", 8, "NVIDIA-A40")
    low["metadata"]["labels"]["nvidia.com/gpu.memory"] = "45000"
    assert summarize(fleet(raw("a", 8, "NVIDIA-A40"), low))[0].notes == ("memory up to 46068 MiB",)


def test_passing_states_are_noted_and_their_devices_are_not_now() -> None:
    rows = summarize(
        fleet(
            raw("a", 8, "NVIDIA-L4"), raw("b", 4, "NVIDIA-L4", "Unknown"), raw("c", 2, "NVIDIA-L4", unschedulable=True)
        )
    )
    assert rows == (row("L4", "NVIDIA-L4", 23034, 3, 14, 8, notes=("not ready 1", "cordoned 1")),)


def test_what_is_free_is_told_where_the_pods_are_in_view() -> None:
    nodes = [node for one in (raw("a", 8, "NVIDIA-L4"), raw("b", 8, "NVIDIA-L4")) if (node := read_node(one))]
    in_view = build_fleet(nodes, used={"a": {GPU: 6, "pods": 1}})
    assert [row.devices_free for row in summarize(in_view)] == [10]
    assert [row.devices_free for row in summarize(build_fleet(nodes))] == [None]


def test_nodes_of_no_one_known_model_are_rows_of_their_own_that_say_why() -> None:
    mixed = raw("mixed", 4, "NVIDIA-GeForce-RTX-4090")
    mixed["metadata"]["labels"]["nvidia.com/gpu.count"] = "2"
    sliced = raw("sliced", 6, "NVIDIA-L4-SHARED")
    sliced["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "3"
    rows = summarize(
        fleet(
            raw("bare", 1),
            raw("half-set", 2, "NVIDIA-A30-MIG-INVALID"),
            raw("unified", 3, "NVIDIA-GB10", "False"),
            mixed,
            sliced,
        )
    )
    assert rows == (
        row("unknown", "", None, 1, 1, 1, notes=("no label names the model",)),
        row("A30", "NVIDIA-A30-MIG-INVALID", None, 1, 2, 2, notes=("the product label is half set",)),
        row("GB10", "NVIDIA-GB10", None, 1, 3, 0, notes=("its memory is the host's", "not ready 1")),
        row("RTX-4090", "NVIDIA-GeForce-RTX-4090", None, 1, 4, 4, notes=("two models",)),
        replace(row("L4", "NVIDIA-L4-SHARED", None, 1, 6, 6, notes=("shares",)), share_mib=7678),
    )


def test_every_odd_node_is_named_with_all_its_reasons() -> None:
    usual = raw("usual", 8, "NVIDIA-L4", taints=[{"key": GPU, "effect": "NoSchedule"}])
    loading, failed, cut, silent = (raw(name, 8, "NVIDIA-L4") for name in ("loading", "failed", "cut", "silent"))
    loading["status"]["allocatable"] = {GPU: "0"}
    failed["status"]["allocatable"] = {GPU: "7"}
    cut["status"]["allocatable"] = {GPU: "0", "nvidia.com/mig-1g.5gb": "56"}
    silent["status"] |= {"allocatable": {}, "capacity": {}}
    going = raw("going", 8, "NVIDIA-L4", "False", unschedulable=True)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kept = raw("kept", 8, "NVIDIA-L4", taints=[{"key": "team", "value": "b", "effect": "NoExecute"}])
    assert odd_nodes(fleet(usual, loading, failed, cut, silent, going, kept)) == (
        OddNode(
            "cut",
            (f"cut into slices: none of 8 {GPU} is whole", "shares: told by the resource name"),
        ),
        OddNode("failed", (f"1 of 8 {GPU} not allocatable",)),
        OddNode("going", ("being deleted", "not ready", "cordoned")),
        OddNode("kept", ("tainted team=b:NoExecute",)),
        OddNode("loading", (f"loading: 0 of 8 {GPU} allocatable",)),
        OddNode("silent", ("offers no device: driver or device plugin not running",)),
    )


def test_devices_through_dra_alone_count_under_the_name_of_their_driver() -> None:
    node = read_node({"metadata": {"name": "a"}}, slices=(Listed("NVIDIA", "NVIDIA A100-SXM4-80GB", 81_920, 8),))
    assert node is not None
    known = build_fleet([node])
    assert odd_nodes(known) == ()
    assert known.devices["gpu.nvidia.com"].there.total(1) == 8
    assert [model.name for model in known.devices["gpu.nvidia.com"].models] == ["A100-SXM4-80GB"]
