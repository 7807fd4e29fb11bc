"""What a snapshot keeps beside the node comes back, and anything else that stands in its place does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.fleet.remembered import ANNOTATION, Remembered, read_remembered, remembered
from webhook.fleet.snapshot import to_objects
from webhook.model.fleet import Listed, Node

NAMES = st.text(min_size=1, max_size=5)
MEMORY = st.none() | st.integers(1, 1 << 20)
LISTED = st.builds(Listed, NAMES, NAMES, MEMORY, st.integers(1, 8), st.integers(1, 10))


def node(listed: tuple[Listed, ...], last_product: str, last_memory_mib: int | None, second_product: str) -> Node:
    labels = {"nvidia.com/gpu.product": "NVIDIA-DGX-Display"}
    amounts = {"nvidia.com/gpu": 4}
    kept = (listed, last_product, last_memory_mib, second_product)
    return Node("a", "u", labels, (), False, True, False, amounts, amounts, 0.0, "", *kept)


@given(LISTED, st.text(max_size=5), MEMORY, st.text(max_size=5))
def test_a_node_comes_back_from_a_snapshot_as_it_was(
    listed: Listed, last_product: str, last_memory_mib: int | None, second_product: str
) -> None:
    one = node((listed,), last_product, last_memory_mib, second_product)
    assert [read_node(obj) for obj in to_objects(build_fleet([one]))] == [one]


def test_a_node_of_which_nothing_is_kept_has_no_annotation() -> None:
    one = node((), "", None, "")
    assert remembered(one) == ""
    assert "annotations" not in to_objects(build_fleet([one]))[0]["metadata"]


@pytest.mark.parametrize(
    "text",
    [
        *(None, 3, "", "{", "[]", "[" * 4000, '{"devices": 3}', '{"devices": [3, null]}', '{"last_product": 3}'),
        *('{"last_product": "\\ud800"}', '{"x": 1}'),
    ],
)
def test_what_cannot_be_read_says_nothing(text: object) -> None:
    assert read_remembered(text) == Remembered()
    found = read_node(
        {"metadata": {"name": "a", "annotations": {ANNOTATION: text}}, "status": {"capacity": {"amd.com/gpu": 1}}}
    )
    assert found is not None
    assert (found.listed, found.last_product) == ((), "")
