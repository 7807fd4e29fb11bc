"""ResourceSlices and plugins' annotations, read without trusting either."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.fleet.listed import read_registers, read_slices
from webhook.fleet.nodes import read_node
from webhook.model.fleet import Listed

HAMI = "hami.io/node-nvidia-register"


def device(product: str, memory: str = "81559Mi", kind: str = "gpu") -> dict[str, Any]:
    attributes = {"productName": {"string": product}, "type": {"string": kind}, "uuid": {"string": "GPU-1"}}
    return {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def resource_slice(*devices: object, node: str = "a", generation: int = 1, **spec: object) -> dict[str, Any]:
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": list(devices), **spec},
    }


H100 = "NVIDIA H100 80GB HBM3"


def test_whole_devices_are_counted_by_node_and_product_and_the_least_memory_counts() -> None:
    found = read_slices(
        [resource_slice(device(H100), device(H100, "80Gi")), resource_slice(device("NVIDIA L4"), node="b")]
    )
    assert found == {
        "a": (Listed("NVIDIA", H100, 81559, 2),),
        "b": (Listed("NVIDIA", "NVIDIA L4", 81559, 1),),
    }


def test_mig_devices_and_passed_through_ones_are_no_whole_devices() -> None:
    assert read_slices([resource_slice(device(H100, kind="mig"), device(H100, kind="vfio"))]) == {"a": ()}


def test_of_a_pool_the_newest_generation_counts() -> None:
    old, new = resource_slice(device("NVIDIA L4")), resource_slice(device(H100), generation=2)
    more = resource_slice(device(H100), generation=2)
    for order in ([old, new, more], [new, old, more], [new, more, old]):
        assert read_slices(order) == {"a": (Listed("NVIDIA", H100, 81559, 2),)}


def test_devices_of_the_first_beta_and_qualified_names_are_read_alike() -> None:
    plain = device(H100)
    qualified = {
        "attributes": {f"gpu.nvidia.com/{key}": value for key, value in plain["attributes"].items()},
        "capacity": {"gpu.nvidia.com/memory": plain["capacity"]["memory"]},
    }
    for one in ({"name": "gpu-0", "basic": qualified}, qualified):
        assert read_slices([resource_slice(one)]) == {"a": (Listed("NVIDIA", H100, 81559, 1),)}


def test_a_board_without_a_figure_is_listed_all_the_same() -> None:
    board = {"name": "0", "attributes": {"boardName": {"string": "n300"}}}
    found = read_slices([resource_slice(board, driver="tenstorrent.com")])
    assert found == {"a": (Listed("Tenstorrent", "n300", None, 1),)}


def test_drivers_that_are_not_known_and_devices_of_no_node_are_left_out() -> None:
    assert read_slices([resource_slice(device(H100), driver="example.com")]) == {}
    assert read_slices([resource_slice(device(H100), nodeName=None, allNodes=True)]) == {}


def test_both_forms_of_a_register_are_read() -> None:
    text = "GPU-1,10,40960,100,NVIDIA-NVIDIA A100-PCIE-40GB,0,true:GPU-2,10,4096..."
    written = '[{"id":"GPU-1","count":10,"devmem":40960,"type":"NVIDIA-NVIDIA A100-PCIE-40GB","health":true}]'
    for register in (text, written):
        assert read_registers({HAMI: register}) == (Listed("NVIDIA", "NVIDIA-NVIDIA A100-PCIE-40GB", 40960, 1, 10),)


def test_slices_come_before_a_register() -> None:
    raw = {
        "metadata": {"name": "a", "annotations": {HAMI: "GPU-1,10,40960,100,NVIDIA-NVIDIA L4,0,true"}},
        "status": {"allocatable": {"nvidia.com/gpu": "1"}},
    }
    slices = (Listed("NVIDIA", H100, 81559, 1),)
    found, without = read_node(raw, slices=slices), read_node(raw)
    assert found is not None
    assert without is not None
    assert (found.listed, without.listed[0].product) == (slices, "NVIDIA-NVIDIA L4")


def test_a_node_with_devices_in_slices_alone_is_in_the_fleet() -> None:
    raw = {"metadata": {"name": "a"}, "status": {}}
    assert read_node(raw) is None
    found = read_node(raw, slices=(Listed("Tenstorrent", "n300", None, 1),))
    assert found is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "devices", "pool", "basic", "attributes", "capacity", "memory", "value", "driver", "nodeName"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3))
def test_any_json_gives_slices_or_nothing(objects: list[object]) -> None:
    assert isinstance(read_slices(objects), dict)


@given(st.lists(JSON, max_size=3))
def test_any_devices_in_a_slice_are_read_or_left_out(devices: list[object]) -> None:
    assert all(one.product for one in read_slices([resource_slice(*devices)]).get("a", ()))


@given(st.text(max_size=40) | st.sampled_from(["[1]", "[[]]", "{}", "null", "[" * 4000, "1,2,3,4:", ",,,,,,:"]))
def test_any_register_is_read_or_left_out(text: str) -> None:
    assert all(one.product and one.shares > 0 for one in read_registers({HAMI: text}))
