"""What must be read from nodes as they looked in public reports; the expectation stands beside each node."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.catalog.accelerators import accelerators
from webhook.fleet.build import build_fleet
from webhook.fleet.devices import Kind, Reading, content_of
from webhook.fleet.nodes import read_node
from webhook.model.fleet import DeviceColumn, Listed, Node

NODES: list[dict[str, Any]] = [
    node
    for file in sorted(Path(__file__).with_name("nodes").glob("*.yaml"))
    for node in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize("raw", NODES, ids=lambda raw: raw["metadata"]["name"])
def test_a_node_is_read_as_its_annotation_says(raw: dict[str, Any]) -> None:
    assert described(raw) == raw["metadata"]["annotations"]["must-be-read"]


def test_every_node_that_is_not_whole_and_of_one_model_says_why() -> None:
    reading = Reading(accelerators())
    for node in filter(None, map(read_node, NODES)):
        for resource in node.capacity:
            vendor = accelerators().vendor_of(resource)
            assert vendor is not None
            content = content_of(node, resource, vendor, reading)
            assert bool(content.because) == (content.kind is not Kind.MODEL), node.name


def described(raw: dict[str, Any]) -> str:
    node = read_node(raw)
    if node is None:
        return "not in the fleet"
    columns = build_fleet([node]).devices.values()
    return "; ".join(f"{column.resource}: {offered(node, column)}" for column in columns) or "nothing"


def offered(node: Node, column: DeviceColumn) -> str:
    kinds = [
        *(f"{model.product}, {column.memory.value(0)} MiB" for model, nodes in column.models.items() if nodes),
        *(
            words
            for words, nodes in (
                ("unknown", column.unknown),
                ("two models", column.two_models),
                ("shares", column.shares),
            )
            if nodes
        ),
    ]
    assert len(kinds) == 1, "the sets of a column are disjoint and hold every node that offers the resource"
    vendor = accelerators().vendor_of(column.resource)
    assert vendor is not None
    content = content_of(node, column.resource, vendor, Reading(accelerators()))
    share = f" of {content.memory_mib} MiB" if column.shares and content.memory_mib else ""
    return f"{column.there.value(0)} there, {column.now.value(0)} now, {kinds[0]}{share}"


def node(labels: dict[str, str], *listed: Listed, devices: int = 8, **kept: Any) -> Node:  # noqa: ANN401 - fields of Node
    amounts = {GPU: devices}
    return Node("a", "u", labels, (), False, True, False, amounts, amounts, listed=listed, **kept)


def column(one: Node, *model_labels: str) -> DeviceColumn:
    return build_fleet([one], model_labels=model_labels).devices[GPU]


def listed(product: str, memory_mib: int | None = 40960, count: int = 8) -> Listed:
    return Listed("NVIDIA", product, memory_mib, count)


def test_a_label_that_the_policy_names_is_the_model_before_all_others() -> None:
    labels = {"gpu-type": "big", "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23000"}
    found = column(node(labels), "rack", "gpu-type")
    assert [(model.product, nodes) for model, nodes in found.models.items()] == [("big", 1)]
    assert found.memory.value(0) == 23000
    assert found.product_keys[:3] == ("rack", "gpu-type", "nvidia.com/gpu.product")


def test_a_model_named_by_hand_has_the_memory_of_the_product_that_the_vendor_names() -> None:
    assert column(node({"gpu-type": "big", "nvidia.com/gpu.product": "NVIDIA-L4"}), "gpu-type").memory.value(0) == 23034


def test_a_name_by_hand_does_not_hide_that_devices_are_shares() -> None:
    labels = {"gpu-type": "big", "nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.memory": "23000"}
    assert column(node(labels), "gpu-type").shares == 1


@pytest.mark.parametrize(
    ("label", "in_slice", "memory_mib"),
    [
        pytest.param("40536", 40000, 40536, id="the node's label before the slice"),
        pytest.param("", 40000, 40000, id="the slice before the catalog"),
        pytest.param("", None, 40960, id="the catalog where neither tells"),
    ],
)
def test_memory_is_taken_from_the_one_that_is_trusted_most(label: str, in_slice: int | None, memory_mib: int) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": label}
    assert column(node(labels, listed("NVIDIA A100-SXM4-40GB", in_slice))).memory.value(0) == memory_mib


def test_what_slices_list_names_the_model_where_no_label_does() -> None:
    found = column(node({}, listed("NVIDIA A100-SXM4-40GB")))
    assert [model.name for model in found.models] == ["A100-SXM4-40GB"]


def test_two_products_in_slices_are_two_models() -> None:
    one = node({"nvidia.com/gpu.product": "NVIDIA-L4"}, listed("NVIDIA L4", count=4), listed("NVIDIA A30", count=4))
    assert column(one).two_models == 1


def test_a_display_card_in_slices_is_no_second_model() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-DGX-Display",
        "nvidia.com/gpu.memory": "4096",
        "nvidia.com/gpu.count": "1",
    }
    one = node(labels, listed("NVIDIA A100-SXM4-80GB", 81251, 4), listed("NVIDIA DGX Display", 4096, 1), devices=4)
    found = column(one)
    assert [model.name for model in found.models] == ["A100-SXM4-80GB"]
    assert found.memory.value(0) == 81251


def test_while_the_label_names_a_display_card_the_product_last_seen_counts() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-DGX-Display",
        "nvidia.com/gpu.memory": "4096",
        "nvidia.com/gpu.count": "1",
    }
    one = node(labels, devices=4, last_product="NVIDIA-A100-SXM4-80GB", last_memory_mib=81251)
    found = column(one)
    assert [(model.product, nodes) for model, nodes in found.models.items()] == [("NVIDIA-A100-SXM4-80GB", 1)]
    assert found.memory.value(0) == 81251


def test_a_label_that_has_named_another_product_since_the_node_booted_tells_of_two_models() -> None:
    assert column(node({"nvidia.com/gpu.product": "NVIDIA-L4"}, second_product="NVIDIA-A30")).two_models == 1


def test_nodes_that_share_a_label_may_differ_in_what_lists_their_devices() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    amounts = {GPU: 1}
    nodes = [
        Node(name, "", labels, (), False, True, False, amounts, amounts, listed=(listed("NVIDIA L4", memory, 1),))
        for name, memory in (("a", 23034), ("b", 22000))
    ]
    found = build_fleet(nodes).devices[GPU]
    assert (found.memory.value(0), found.memory.value(1)) == (23034, 22000)
