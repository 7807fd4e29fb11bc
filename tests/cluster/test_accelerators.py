"""Accelerator objects on a real API server: what it takes of them, and that the webhook and the commands see them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.api import ApiError
from controlplane.nodes import RTX_5090, gpu_node
from controlplane.rig import ControlPlane
from demo.serving import MANIFESTS, start_webhook
from tests.cluster.conftest import await_fleet
from tests.samples import Json
from webhook.catalog.accelerators import accelerators
from webhook.catalog.additions import AdditionError, extended
from webhook.cli import main

COLLECTION = "/apis/samestep.dev/v1alpha1/accelerators"
LONG = "x" * 253

# Each constraint, at its edge: what is changed of a spec, and whether it may be.
CHANGES: list[tuple[Json, bool]] = [
    ({}, True),
    ({"product": ""}, False),
    ({"product": LONG}, True),
    ({"product": LONG + "x"}, False),
    ({"product": 1}, False),
    ({"product": None}, False),
    ({"aliases": []}, True),
    ({"aliases": ["one", LONG]}, True),
    ({"aliases": [""]}, False),
    ({"aliases": [LONG + "x"]}, False),
    ({"aliases": "one"}, False),
    ({"aliases": [1]}, False),
    ({"vendor": ""}, False),
    ({"vendor": LONG + "x"}, False),
    ({"vendor": None}, False),
    ({"memory": None}, True),
    ({"memory": "1Mi"}, True),
    ({"memory": "1048575"}, False),
    ({"memory": "1.5e9"}, True),
    ({"memory": "46068Mi"}, True),
    ({"memory": "46068 Mi"}, False),
    ({"memory": "48GB"}, False),
    ({"memory": "-48Gi"}, False),
    ({"memory": ""}, False),
    ({"memory": 48}, False),
    ({"memory": "1" * 40 + "." + "0" * 40}, True),
    ({"memory": "1" * 41}, False),
    ({"memory": "1" * 101}, False),
    ({"bf16Tflops": None}, True),
    ({"bf16Tflops": 1}, True),
    ({"bf16Tflops": 0}, False),
    ({"bf16Tflops": 1_000_000_000}, True),
    ({"bf16Tflops": 1_000_000_001}, False),
    ({"bf16Tflops": 1.5}, False),
    ({"bf16Tflops": "1"}, False),
    ({"bandwidthGBps": None}, True),
    ({"bandwidthGBps": 1}, True),
    ({"bandwidthGBps": 0}, False),
    ({"bandwidthGBps": 1_000_000_000}, True),
    ({"bandwidthGBps": 1_000_000_001}, False),
    ({"bandwidthGBps": 1.5}, False),
    ({"source": LONG}, True),
    ({"source": ""}, False),
    ({"source": LONG + "x"}, False),
    ({"source": None}, False),
    ({"price": 3}, False),
]


def accelerator(name: str, **spec: object) -> Json:
    said = {"product": "NVIDIA-New", "vendor": "nvidia", "source": "our bench"} | spec
    return {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": name}, "spec": said}


def without(name: str, field: str) -> Json:
    obj = accelerator(name)
    del obj["spec"][field]
    return obj


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.kubectl("apply", "-f", MANIFESTS / "crds")
    control_plane.kubectl("wait", "--for=condition=Established", "crd/accelerators.samestep.dev")
    yield
    control_plane.kubectl("delete", "-f", MANIFESTS / "crds")


def is_taken(control_plane: ControlPlane, obj: Json) -> bool:
    try:
        control_plane.api.request("POST", f"{COLLECTION}?dryRun=All&fieldValidation=Strict", obj)
    except ApiError as error:
        if error.status in (400, 422):
            return False
        raise
    return True


def is_read(obj: Json) -> bool:
    try:
        extended(accelerators(), [obj])
    except AdditionError:
        return False
    return True


@pytest.mark.usefixtures("kind")
def test_the_api_server_takes_what_we_read_and_refuses_the_rest(control_plane: ControlPlane) -> None:
    objects = [(accelerator("one", **change), taken) for change, taken in CHANGES]
    objects += [(without("one", field), False) for field in ("product", "vendor", "source")]
    no_spec = accelerator("one")
    del no_spec["spec"]
    objects += [(no_spec, False), (accelerator("one") | {"status": {}}, False)]
    for obj, taken in objects:
        assert (is_taken(control_plane, obj), is_read(obj)) == (taken, taken), obj


def command(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def memories(told: str) -> dict[str, int | None]:
    return {row["model"]: row["memoryMib"] for row in yaml.safe_load(told)["models"]}


@pytest.mark.usefixtures("kind")
def test_the_webhook_and_the_command_line_see_objects_come_break_and_go(
    control_plane: ControlPlane, account: Path, tmp_path: Path
) -> None:
    node = gpu_node("new", RTX_5090)
    node["metadata"]["labels"] |= {"nvidia.com/gpu.product": "ours"}
    del node["metadata"]["labels"]["nvidia.com/gpu.memory"]
    control_plane.add_nodes([node])
    try:
        webhook = start_webhook(control_plane.processes, tmp_path, f"--kubeconfig={account}")
        await_fleet(control_plane, webhook, {"unknown": 1})
        control_plane.apply(accelerator("new", memory="64Gi", aliases=["ours"]))
        await_fleet(control_plane, webhook, {"New": 1})
        shown = control_plane.kubectl("get", "accelerators").stdout.split()
        assert shown[:7] == ["NAME", "PRODUCT", "MEMORY", "AGE", "new", "NVIDIA-New", "64Gi"]

        # The API server knows no vendors.
        control_plane.apply(accelerator("bad", vendor="acme"))
        broken = 'samestep_broken_objects{kind="Accelerator"}'
        control_plane.processes.wait("samestep", lambda: webhook.metrics()[broken] == 1)
        for kubeconfig in (control_plane.kubeconfig, account):
            live = command("fleet", "--kubeconfig", kubeconfig, "-o", "yaml")
            assert memories(live.stdout) == {"New": 65536}
            assert "unreadable: Accelerator bad: spec.vendor: expected one of" in live.stderr
        listed = command("catalog", "--kubeconfig", account, "nvidia-new")
        assert listed.stdout.splitlines()[1].split() == ["New", "NVIDIA", "65536"]
        assert (live.exit_code, listed.exit_code) == (2, 2)

        snapshot = tmp_path / "fleet.yaml"
        snapshot.write_text(command("fleet", "--kubeconfig", account, "--snapshot", "-o", "yaml").stdout)
        offline = command("fleet", "-f", snapshot, "-o", "yaml")
        assert (offline.exit_code, memories(offline.stdout)) == (0, {"New": 65536})

        control_plane.kubectl("delete", "accelerator", "new", "bad")
        await_fleet(control_plane, webhook, {"unknown": 1})
        control_plane.processes.wait("samestep", lambda: webhook.metrics()[broken] == 0)
    finally:
        control_plane.processes.stop("samestep", grace_s=5)
        control_plane.remove_nodes()
