"""Columns over several nodes: models, their names and spellings, first seen."""

from webhook.fleet.build import build_fleet
from webhook.model.fleet import Model, Node


def node(name: str, product: str, memory_mib: int = 40960, known_since: float = 0.0) -> Node:
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(memory_mib)}
    amounts = {"nvidia.com/gpu": 8}
    return Node(name, "", labels, (), False, True, False, amounts, amounts, known_since)


def test_all_spellings_of_a_product_are_one_model_called_by_the_most_usual() -> None:
    fleet = build_fleet(
        [
            node("a", "A100-SXM4-40GB", 40536),
            node("b", "NVIDIA-A100-SXM4-40GB"),
            node("c", "NVIDIA-A100-SXM4-40GB"),
            node("d", "NVIDIA-A100-SXM4-80GB", 81920),
        ]
    )
    column = fleet.devices["nvidia.com/gpu"]
    small = Model("NVIDIA-A100-SXM4-40GB", "A100-SXM4-40GB", "NVIDIA", 40960, 312, 1555)
    large = Model("NVIDIA-A100-SXM4-80GB", "A100-SXM4-80GB", "NVIDIA", 81920, 312, 2039)
    assert column.models == {small: 0b0111, large: 0b1000}
    assert column.memory.span(column.models[small]) == (40536, 40960)


def test_a_product_that_no_catalog_has_is_a_model_without_a_figure() -> None:
    fleet = build_fleet([node("a", "NVIDIA-GeForce-GTX-1080-Ti", 11178)])
    assert fleet.devices["nvidia.com/gpu"].models == {Model("NVIDIA-GeForce-GTX-1080-Ti", "GTX-1080-Ti", "NVIDIA"): 1}


def test_models_do_not_depend_on_the_order_of_nodes() -> None:
    nodes = [node("a", "NVIDIA-L4"), node("b", "l4"), node("c", "NVIDIA-A30")]
    forward, backward = (build_fleet(order).devices["nvidia.com/gpu"].models for order in (nodes, nodes[::-1]))
    assert list(forward) == list(backward)


def test_vendors_have_columns_of_their_own() -> None:
    amd = Node(
        "m", "", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, (), False, True, False, {"amd.com/gpu": 8}, {}
    )
    fleet = build_fleet([node("a", "NVIDIA-L4"), amd])
    assert {name: column.vendor for name, column in fleet.devices.items()} == {
        "nvidia.com/gpu": "NVIDIA",
        "amd.com/gpu": "AMD",
    }
    assert fleet.devices["amd.com/gpu"].product_keys[0] == "amd.com/gpu.product-name"


def test_of_two_nodes_of_one_name_the_later_counts() -> None:
    fleet = build_fleet([node("a", "NVIDIA-L4"), node("a", "NVIDIA-A30")])
    assert [one.labels["nvidia.com/gpu.product"] for one in fleet.nodes] == ["NVIDIA-A30"]


def test_a_fleet_tells_since_when_it_knows_a_node_and_what_it_was_told() -> None:
    fleet = build_fleet([node("a", "NVIDIA-L4"), node("b", "NVIDIA-L4", known_since=60.0)], taken_at=90.0, grows="told")
    assert fleet.known_since.at_most(30.0) == 0b01
    assert (fleet.taken_at, fleet.grows) == (90.0, "told")


def test_a_fleet_of_no_nodes_is_empty() -> None:
    fleet = build_fleet([])
    assert fleet.every == 0
    assert fleet.devices == {}


def test_a_node_that_a_provisioner_made_tells_that_more_may_come() -> None:
    made = Node("a", "", {"karpenter.sh/nodepool": "gpu"}, (), False, True, False, {"nvidia.com/gpu": 8}, {})
    assert build_fleet([made]).grows
    assert not build_fleet([node("b", "NVIDIA-L4")]).grows
