"""`samestep fleet` in front of a real API server: what it shows, what it may read, what it saves."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.nodes import RTX_5090, gpu_node
from controlplane.rig import ControlPlane
from webhook.cli import main


@pytest.fixture
def bare_node(control_plane: ControlPlane, demo_fleet: None) -> dict[str, Any]:
    """The demo fleet and one node whose devices only a ResourceSlice names."""
    node = gpu_node("bare", RTX_5090, devices=1)
    for key in [key for key in node["metadata"]["labels"] if key.startswith("nvidia.com/")]:
        del node["metadata"]["labels"][key]
    control_plane.add_nodes([node])
    return node


def resource_slice(node: str) -> dict[str, Any]:
    attributes = {"productName": {"string": "NVIDIA L4"}, "type": {"string": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "22000Mi"}}}],
        },
    }


def fleet(kubeconfig: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["fleet", "--kubeconfig", str(kubeconfig), *words])


def models(result: Result) -> dict[str, tuple[int | None, int]]:
    assert result.exit_code == 0, result.output
    rows = yaml.safe_load(result.stdout)["models"]
    return {row["model"]: (row["memoryMib"], row["nodes"]) for row in rows}


@pytest.mark.usefixtures("bare_node")
def test_a_live_fleet_is_shown_with_what_resource_slices_say(control_plane: ControlPlane, account: Path) -> None:
    usual = {"RTX-5090": (32607, 2), "RTX-PRO-6000-Blackwell-Server": (97887, 2)}
    admin = control_plane.kubeconfig
    assert models(fleet(admin, "-o", "yaml")) == usual | {"unknown": (None, 1)}
    control_plane.apply(resource_slice("bare"))
    try:
        assert models(fleet(admin, "-o", "yaml")) == usual | {"L4": (22000, 1)}
        assert yaml.safe_load(fleet(admin, "-o", "yaml").stdout)["models"][0]["devicesFree"] is not None
        # The webhook's own account may list nodes and nothing of DRA: that is left out, and no fault.
        assert fleet(account).exit_code == 0
    finally:
        control_plane.kubectl("delete", "resourceslice", "bare-gpu")


@pytest.mark.usefixtures("demo_fleet")
def test_a_snapshot_of_a_live_fleet_is_the_same_fleet(control_plane: ControlPlane, tmp_path: Path) -> None:
    snapshot = tmp_path / "fleet.json"
    snapshot.write_text(fleet(control_plane.kubeconfig, "--snapshot", "-o", "json").stdout)
    offline = CliRunner().invoke(main, ["fleet", "-f", str(snapshot), "-o", "yaml"])
    assert models(offline) == models(fleet(control_plane.kubeconfig, "-o", "yaml"))
    assert "addresses" not in snapshot.read_text()
