"""`samestep serve` as a child process, and its webhook configurations, for demos, benchmarks and cluster tests."""

import base64
import json
import os
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

from controlplane.api import ApiError
from controlplane.processes import Processes
from controlplane.rig import ControlPlane
from webhook.cluster.handlers import STAGES

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "manifests" / "base"
ACCOUNT = "system:serviceaccount:samestep-system:samestep"
"""Who the webhook is to the API server, by manifests/base/rbac.yaml."""

PROGRAM = shlex.split(os.environ.get("SAMESTEP_SERVER", "")) or [sys.executable, "-m", "webhook.cli"]
"""What is started as `samestep`: that of an image, say, instead of this checkout's."""

HANDLERS = {"MutatingWebhookConfiguration": "pin", "ValidatingWebhookConfiguration": "check"}
"""Which handler each of our configurations calls."""

Json = dict[str, Any]

_READY_S = 60


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that is ready. `ca` is the PEM of the authority that its certificate is from."""

    port: int
    probe_port: int
    metrics_port: int
    ca: bytes

    def configurations(self) -> list[Json]:
        """manifests/base/webhooks.yaml, with this webhook's address in place of the Service."""
        found: list[Json] = list(yaml.safe_load_all((MANIFESTS / "webhooks.yaml").read_text("utf-8")))
        for hook in (hook for configuration in found for hook in configuration["webhooks"]):
            path = hook["clientConfig"]["service"]["path"]
            bundle = base64.b64encode(self.ca).decode()
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": bundle}
        return found

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels, as the text format of Prometheus has them."""
        text = urllib3.request("GET", f"http://127.0.0.1:{self.metrics_port}/metrics").data.decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {sample: float(value) for sample, _, value in samples}

    def calls(self, handler: str) -> float:
        """How many requests `pin` or `check` has answered."""
        stage = STAGES[handler].value
        return self.metrics().get(f'samestep_review_duration_seconds_count{{stage="{stage}"}}', 0.0)


def start_webhook(
    processes: Processes,
    folder: Path,
    *options: str,
    name: str = "samestep",
    port: int = 0,
    probe_port: int = 0,
    metrics_port: int = 0,
) -> Webhook:
    """Starts `samestep serve OPTION…` under `name` and waits until it is ready; port 0 is any that is free.

    Its CA goes into `folder`, unless it is kept in the cluster by --own-certificates. Raises ProcessError.
    """
    own = "--own-certificates" in options
    ca_file = folder / f"{name}-ca.pem"
    log = processes.log(name)
    seen = log.stat().st_size if log.exists() else 0
    address = (
        "--host=127.0.0.1",
        f"--port={port}",
        f"--probe-port={probe_port}",
        f"--metrics-port={metrics_port}",
        *(() if own else (f"--ca-out={ca_file}",)),
    )
    processes.start(name, [*PROGRAM, "serve", *address, "--lame-duck=0", *options])
    ports: list[Json] = []

    def ready() -> bool:
        # It names its ports in the log, where an earlier one of this name may have left its own.
        ports.extend(_listening(log.read_bytes()[seen:]) if not ports else ())
        return bool(ports) and _is_ready(ports[0]["probe_port"])

    processes.wait(name, ready, timeout_s=_READY_S)
    told = ports[0]
    ca = b"" if own else ca_file.read_bytes()
    return Webhook(told["port"], told["probe_port"], told["metrics_port"], ca)


def register(cluster: ControlPlane, webhook: Webhook, kinds: Collection[str] = tuple(HANDLERS)) -> None:
    """Registers the configurations of these kinds, and waits until the API server goes by them. Raises KubectlError."""
    cluster.apply(*(each for each in webhook.configurations() if each["kind"] in kinds))
    await_calls(cluster, webhook, {HANDLERS[kind] for kind in kinds})


def unregister(cluster: ControlPlane, webhook: Webhook) -> None:
    """Deletes our configurations, and waits until the API server goes without them."""
    for kind in HANDLERS:
        cluster.kubectl("delete", "--ignore-not-found", kind, "samestep")
    await_calls(cluster, webhook, set())


def await_calls(cluster: ControlPlane, webhook: Webhook, handlers: Collection[str]) -> None:
    """Waits until the API server asks these handlers, and no others, when a job is created."""
    cluster.processes.wait("kube-apiserver", lambda: _asked(cluster, webhook) == set(handlers))


def _asked(cluster: ControlPlane, webhook: Webhook) -> set[str]:
    before = {handler: webhook.calls(handler) for handler in STAGES}
    with suppress(ApiError):
        cluster.api.request("POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All", _SOME_JOB)
    return {handler for handler, count in before.items() if webhook.calls(handler) > count}


_SOME_JOB: Json = {
    "metadata": {"generateName": "is-the-webhook-asked-"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "any", "image": "any", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            }
        }
    },
}


def _listening(log: bytes) -> Iterator[Json]:
    for line in log.splitlines():
        if b'"listening"' in line:
            yield json.loads(line)


def _is_ready(probe_port: int) -> bool:
    try:
        return urllib3.request("GET", f"http://127.0.0.1:{probe_port}/readyz", retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False
