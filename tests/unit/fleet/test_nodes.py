"""Reading raw nodes: tolerant of everything but a missing name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.fleet.nodes import NodeError, read_node
from webhook.model.fleet import Node, Taint

GPUS = {"allocatable": {"nvidia.com/gpu": "8"}}


def node(**parts: object) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "status": GPUS, **parts}


def read(raw: dict[str, Any]) -> Node:
    found = read_node(raw)
    assert found is not None
    return found


def test_every_part_that_decisions_need_is_read() -> None:
    raw = {
        "metadata": {
            "name": "a",
            "uid": "u-1",
            "labels": {"pool": "x", "nvidia.com/gpu.product": "NVIDIA-L4"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ],
        },
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "14719096Ki", "pods": "58", "nvidia.com/gpu": "1"},
            "capacity": {"cpu": "4", "nvidia.com/gpu": "1"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}],
        },
    }
    assert read_node(raw, known_since=5.0) == Node(
        name="a",
        uid="u-1",
        labels={"pool": "x", "nvidia.com/gpu.product": "NVIDIA-L4"},
        taints=(Taint("k", "v", "NoSchedule"), Taint("k", "", "NoExecute")),
        unschedulable=True,
        ready=False,
        deleting=True,
        allocatable={"cpu": 3920, "memory": 14719096 * 1024, "pods": 58, "nvidia.com/gpu": 1},
        capacity={"nvidia.com/gpu": 1},
        known_since=5.0,
    )


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "status": None},
        {"metadata": {"labels": {"kubernetes.io/os": "linux"}}, "status": {"capacity": {"cpu": "4"}}},
        [],
        None,
    ],
)
def test_what_has_nothing_to_do_with_accelerators_is_left_out(raw: dict[str, Any]) -> None:
    assert read_node(raw) is None


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"status": {"capacity": {"amd.com/gpu": "0"}}}, id="a resource, even of none"),
        pytest.param({"metadata": {"labels": {"nvidia.com/gpu.product": ""}}}, id="a product label, even empty"),
    ],
)
@pytest.mark.parametrize("name", [None, "", 3, ["a"]])
def test_a_node_with_accelerators_and_no_name_is_refused_with_the_place(raw: dict[str, Any], name: object) -> None:
    raw = {**raw, "metadata": {**raw.get("metadata", {}), "name": name}}
    with pytest.raises(NodeError, match=r"metadata\.name: expected a name"):
        read_node(raw)


def test_amounts_that_are_no_quantities_count_as_not_said() -> None:
    amounts = {"nvidia.com/gpu": 8, "cpu": "many", "memory": None, "pods": ["110"], "rdma/hca": "1e9999", 3: "3"}
    assert read(node(status={"allocatable": amounts})).allocatable == {"nvidia.com/gpu": 8}


def test_labels_written_as_numbers_and_booleans_are_text_and_the_rest_is_dropped() -> None:
    labels = {"revision": 9, "present": True, "absent": False, "null": None, "list": ["x"], "ratio": 0.5}
    found = read(node(metadata={"name": "a", "labels": labels}))
    assert found.labels == {"revision": "9", "present": "true", "absent": "false"}


def test_of_two_taints_with_one_key_and_effect_the_first_counts() -> None:
    taints = [{"key": "k", "value": value, "effect": "NoSchedule"} for value in "ab"]
    assert read(node(spec={"taints": [*taints, None, {"value": "no key"}]})).taints == (Taint("k", "a", "NoSchedule"),)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready"}], False),
        ([], True),
        (None, True),
    ],
)
def test_a_node_is_ready_unless_its_condition_says_otherwise(conditions: object, ready: bool) -> None:
    assert read(node(status={**GPUS, "conditions": conditions})).ready is ready


JSON: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just([]) | st.just({})
)
ANY = (
    JSON | st.lists(JSON, max_size=2) | st.dictionaries(st.sampled_from(["name", "key", "type", ""]), JSON, max_size=2)
)


@given(
    st.fixed_dictionaries(
        {
            "metadata": ANY | st.fixed_dictionaries({"name": ANY, "labels": ANY}),
            "spec": ANY | st.fixed_dictionaries({"taints": ANY | st.lists(ANY, max_size=2)}),
            "status": ANY | st.fixed_dictionaries({"allocatable": st.fixed_dictionaries({"nvidia.com/gpu": ANY})}),
        }
    )
)
def test_any_json_gives_a_node_or_none_or_a_clear_error(raw: dict[str, Any]) -> None:
    try:
        found = read_node(raw)
    except NodeError as error:
        assert str(error).startswith("metadata.name: ")  # noqa: PT017 - only some inputs raise
    else:
        assert found is None or found.name == raw["metadata"]["name"]
