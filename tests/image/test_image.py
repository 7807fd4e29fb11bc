"""The container image as a pod would run it (serve.sh): started without rights, where it can write nothing."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from controlplane.processes import Processes
from demo.serving import PROGRAM, Webhook, start_webhook
from tests.samples import demo_nodes
from tests.unit.server.conftest import admission_review
from webhook.cli.overlays import overlays, rendered

pytestmark = pytest.mark.skipif("SAMESTEP_SERVER" not in os.environ, reason="for make test-image")
NAME = "samestep-image"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    running = Processes(tmp_path)
    yield running
    running.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": demo_nodes()}))
    return file


@pytest.fixture
def webhook(processes: Processes, tmp_path: Path, fleet: Path) -> Webhook:
    return start_webhook(processes, tmp_path, f"--fleet={fleet}", name=NAME)


def test_it_prints_the_manifests_of_its_own_release() -> None:
    printed = subprocess.run([*PROGRAM, "render", "cert-manager"], check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r"^kind: ", printed, re.MULTILINE)) == len(rendered(overlays()["cert-manager"]))


@pytest.mark.usefixtures("webhook")
def test_it_runs_as_nobody_without_capabilities_on_a_root_that_it_cannot_write(processes: Processes) -> None:
    pid = json.loads(processes.log(NAME).read_text().splitlines()[0])["pid"]
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    writable = {mount[4] for mount in mounts if "rw" in mount[5].split(",")}

    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"65532"}
    assert (int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"]) == (0, 0, "1")
    # Where it gets its files from the tests, which are not its own, lies /mnt.
    assert writable == {"/proc", "/mnt"}


def test_it_compiles_nothing_when_it_starts(
    processes: Processes, tmp_path: Path, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONVERBOSE", "1")
    start_webhook(processes, tmp_path, f"--fleet={fleet}", name=NAME)

    read = re.findall(r"^# code object from '?(.+?)'?$", processes.log(NAME).read_text(), re.MULTILINE)
    assert any("/webhook/server/" in path for path in read)
    assert [path for path in read if not path.endswith(".pyc")] == []


def test_it_decides(webhook: Webhook, processes: Processes, tmp_path: Path) -> None:
    pool = urllib3.PoolManager(ca_cert_data=webhook.ca.decode(), retries=False, timeout=5)
    answer = pool.request("POST", f"https://127.0.0.1:{webhook.port}/admit/pin", json=admission_review())

    assert answer.json()["response"]["patchType"] == "JSONPatch"
    processes.stop(NAME, grace_s=10)
    assert json.loads(processes.log(NAME).read_text().splitlines()[-1])["verdict"] == "Pin"
