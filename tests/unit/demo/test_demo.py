"""The demos as a person starts them, and what they say where they cannot run."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from controlplane.nodes import demo_fleet
from controlplane.processes import ProcessError, Processes
from demo.serving import ROOT, start_webhook
from webhook.fleet.nodes import read_node


def run(module: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=120)


def test_the_demo_shows_every_example_in_a_hundred_columns() -> None:
    done = run("demo")

    assert (done.returncode, done.stderr) == (0, "")
    for path in (ROOT / "examples").glob("*.yaml"):
        assert f"\n$ kubectl apply -f examples/{path.name}\n" in done.stdout
    for shown in (
        "Warning: SST301 pinned to RTX-PRO-6000-Blackwell-Server (nvidia.com/gpu.product)\njob.batch/pinned created\n",
        "  +     nvidia.com/gpu.product: NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition\n",
        'Error from server (Forbidden): error when creating "examples/3-fits-no-gpu.yaml": admission webhook\n',
        "job.batch/preprocess created\n",
    ):
        assert shown in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_both_demos_show_the_same_fleet() -> None:
    shown = yaml.safe_load((ROOT / "demo" / "fleet.yaml").read_text())["items"]

    assert [read_node(node) for node in shown] == [read_node(node) for node in demo_fleet()]


def test_without_go_the_cluster_demo_says_what_it_lacks(tmp_path: Path) -> None:
    done = run("demo.cluster", PATH="/nowhere", XDG_CACHE_HOME=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.startswith("demo: no Go found: Go ")


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken, closing(Processes(tmp_path)) as children:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ProcessError, match=f"cannot listen on 127.0.0.1:{port}: .*address already in use"):
            start_webhook(children, tmp_path, f"--fleet={ROOT / 'demo' / 'fleet.yaml'}", port=port)
