"""What must be read from nodes as they looked in public reports; the expectation stands beside each node."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.fleet import DeviceColumn

NODES: list[dict[str, Any]] = [
    node
    for file in sorted(Path(__file__).with_name("nodes").glob("*.yaml"))
    for node in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("raw", NODES, ids=lambda raw: raw["metadata"]["name"])
def test_a_node_is_read_as_its_annotation_says(raw: dict[str, Any]) -> None:
    assert described(raw) == raw["metadata"]["annotations"]["must-be-read"]


def described(raw: dict[str, Any]) -> str:
    node = read_node(raw)
    if node is None:
        return "not in the fleet"
    columns = build_fleet([node]).devices.values()
    return "; ".join(f"{column.resource}: {offered(column)}" for column in columns) or "nothing"


def offered(column: DeviceColumn) -> str:
    kinds = [
        *(f"{model.product}, {column.memory.value(0):g} MiB" for model, nodes in column.models.items() if nodes),
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
    return f"{column.there.value(0):g} there, {column.now.value(0):g} now, {kinds[0]}"
