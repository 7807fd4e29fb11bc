"""A fleet out of objects of several kinds."""

from typing import Any

from webhook.fleet.read import read_fleet

GPU = "nvidia.com/gpu"


def node(name: str, **labels: str) -> dict[str, Any]:
    named = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    amounts = {GPU: "4"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": named},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def accelerator(**spec: object) -> dict[str, Any]:
    spec = {"product": "NVIDIA-New", "vendor": "nvidia", "memory": "64Gi", "source": "our bench"} | spec
    return {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": "new"}, "spec": spec}


def resource_slice(name: str, product: str, memory: str) -> dict[str, Any]:
    attributes = {"productName": {"string": product}, "type": {"string": "gpu"}}
    devices = [{"name": "0", "attributes": attributes, "capacity": {"memory": {"value": memory}}}]
    pool = {"name": name, "generation": 1}
    return {
        "kind": "ResourceSlice",
        "spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices},
    }


def test_slices_and_accelerators_count_wherever_they_stand_among_the_nodes() -> None:
    objects = [
        node("a", product="NVIDIA-New"),
        resource_slice("b", "NVIDIA Newer", "40960Mi"),
        accelerator(aliases=["new-one"]),
        node("b"),
        {"kind": "Service", "metadata": {"name": "a"}},
        node("c", product="new-one"),
    ]
    read = read_fleet([(str(place), one) for place, one in enumerate(objects)])
    column = read.fleet.devices[GPU]
    assert read.faults == ()
    assert {model.name: column.memory.least(nodes) for model, nodes in column.models.items()} == {
        "New": 65536,
        "Newer": 40960,
    }
    assert read.catalog.product("new-one") is not None


def test_what_cannot_be_read_is_told_by_its_place_and_the_rest_counts() -> None:
    bad = node("a", product="NVIDIA-L4") | {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}}
    read = read_fleet([("x#0", bad), ("x#1", node("b", product="NVIDIA-L4")), ("x#2", accelerator(vendor="acme"))])
    assert [place for place, _ in read.faults] == ["x#2", "x#0"]
    assert read.faults[0][1].startswith("spec.vendor: expected one of NVIDIA, AMD")
    assert [one.name for one in read.fleet.nodes] == ["b"]


def test_a_node_that_comes_twice_is_what_it_has_become() -> None:
    before = node("a", product="NVIDIA-A100-SXM4-80GB", memory="81251", count="4")
    after = node("a", product="NVIDIA-DGX-Display", memory="4096", count="1")
    column = read_fleet([("before", before), ("after", after)]).fleet.devices[GPU]
    assert [(model.name, column.memory.least(nodes)) for model, nodes in column.models.items()] == [
        ("A100-SXM4-80GB", 81251)
    ]


def test_labels_that_a_policy_names_count() -> None:
    one = node("a", product="NVIDIA-L4")
    one["metadata"]["labels"]["gpu-type"] = "small"
    column = read_fleet([("", one)], model_labels=("gpu-type",)).fleet.devices[GPU]
    assert [model.product for model in column.models] == ["small"]
