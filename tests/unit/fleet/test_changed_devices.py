"""Whatever of a node tells of its devices, a change of it is seen in a fleet that is only changed."""

from dataclasses import replace
from typing import Any

import pytest

from webhook.fleet.build import build_fleet, changed_fleet
from webhook.model.fleet import Listed, Node

GPU = "nvidia.com/gpu"
AMOUNTS = {GPU: 8, "amd.com/gpu": 8}
LABELS = {"nvidia.com/gpu.product": "NVIDIA-L4", "team": "a"}
BEFORE = Node("a", "u", LABELS, (), False, True, False, AMOUNTS, AMOUNTS)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": LABELS | {"nvidia.com/gpu.product": "NVIDIA-A30"}},
        {"labels": LABELS | {"gpu-type": "big"}},
        {"labels": LABELS | {"samestep.dev/two-models": "true"}},
        {"labels": LABELS | {"amd.com/gpu.vram.64G": "4", "amd.com/gpu.vram.192G": "4"}},
        {"labels": LABELS | {"nvidia.com/gpu.engines.decoder": "0"}},
        {"listed": (Listed("AMD", "MI300X", 1000, 8),)},
        {"second_product": "NVIDIA-A30"},
        {"labels": {"nvidia.com/gpu.product": "NVIDIA-DGX-Display"}, "last_product": "NVIDIA-A30"},
        {"capacity": {GPU: 9}},
    ],
    ids=str,
)
def test_a_changed_fleet_is_the_fleet_built_anew(change: dict[str, Any]) -> None:
    now = replace(BEFORE, **change)
    before = build_fleet([BEFORE], model_labels=("gpu-type",))
    assert changed_fleet(before, {"a": now}, model_labels=("gpu-type",)) == build_fleet(
        [now], model_labels=("gpu-type",)
    )


@pytest.mark.parametrize("change", [{"labels": LABELS | {"team": "b"}}, {"ready": False}, {"boot_id": "b-2"}], ids=str)
def test_what_tells_nothing_of_devices_leaves_them_as_they_are(change: dict[str, Any]) -> None:
    before = build_fleet([BEFORE])
    assert changed_fleet(before, {"a": replace(BEFORE, **change)}).devices == before.devices
