"""The creates: which sorts there are, what has to become of each, and the program that sends them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from controlplane.build import build
from controlplane.nodes import A100_80GB, H100, L40S, RTX_5090
from controlplane.peers import LOADER
from controlplane.rig import ControlPlane
from tests.bench.engines import KEY
from tests.samples import Json, job, pod, pytorchjob
from tests.soak.judged import Outcome, Shape, Want
from tests.soak.site import CLOSED, OPEN, UNPINNED

SMALL_FIRST, DATACENTER_FIRST = "small first", "data centre first"
POLICIES = {
    SMALL_FIRST: (RTX_5090, A100_80GB),
    DATACENTER_FIRST: (L40S, H100),
}
"""The first models of each policy's order. A job that needs 60 GiB does not fit the first of either."""
JOB_BYTES = 6 << 10

_WORKERS = 128
_PLURALS = {"Job": "apis/batch/v1", "PyTorchJob": "apis/kubeflow.org/v1"}


def policy(name: str) -> Json:
    """The policy of the cluster, in one of its two states. Its condition holds for every job: the CEL runtime, which is
    loaded with the first condition, is there from the start."""
    return {
        "apiVersion": "samestep.dev/v1alpha1",
        "kind": "TrainingPolicy",
        "metadata": {"name": "soak"},
        "spec": {
            "match": {"matchConditions": [{"name": "created", "expression": "request.operation == 'CREATE'"}]},
            "pin": {"strategy": "Ordered", "order": [card.product for card in POLICIES[name]]},
        },
    }


def broken_policy() -> Json:
    """One that the API server takes and we cannot: what was there before stays in force."""
    found = policy(SMALL_FIRST)
    found["spec"]["match"] = {"matchConditions": [{"name": "some", "expression": "1 +"}]}
    return found


def creates() -> Iterator[tuple[Shape, str, Json]]:
    """Each sort, with the namespace that it is created in and the object."""
    small = {name: cards[0].product for name, cards in POLICIES.items()}
    large = {name: cards[1].product for name, cards in POLICIES.items()}
    for namespace, closed in ((OPEN, False), (CLOSED, True)):
        named = "fail-closed" if closed else "base"
        yield Shape(f"Job, {named}", Want.PINNED, small, closed=closed), namespace, job()
        sized = pytorchjob(memory_per_device="60Gi")
        yield Shape(f"PyTorchJob of 60 GiB, {named}", Want.PINNED, large, closed=closed), namespace, sized
        too_large = job(memory_per_device="256Gi")
        yield Shape(f"Job of 256 GiB, {named}", Want.DENIED, told="SST201", closed=closed), namespace, too_large
    yield Shape("Job that was not pinned, fail-closed", Want.DENIED, told="SST302"), UNPINNED, job()
    yield Shape("Job without devices", Want.UNTOUCHED), CLOSED, job(pod(gpus=0))


class Load:
    """Sends all sorts in turn, so many a second, while in its `with`; then `outcomes` can be read."""

    def __init__(self, cluster: ControlPlane, folder: Path, rate: float) -> None:
        plan = folder / "plan.json"
        plan.write_text(json.dumps([_planned(cluster, *one) for one in creates()]))
        self._out = folder / "outcomes.jsonl"
        self._command: list[str | Path] = [
            build(LOADER) / "loader",
            f"-plan={plan}",
            f"-ca={cluster.ca_file}",
            f"-rate={rate}",
            f"-workers={_WORKERS}",
            f'-find="{KEY}":"([^"]+)"',
        ]

    def __enter__(self) -> Self:
        with self._out.open("wb") as out:
            environment = os.environ | {"LOADER_TOKEN": "admin-token"}
            self._process = subprocess.Popen(self._command, stdout=out, env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def outcomes(self) -> list[Outcome]:
        return [Outcome(**json.loads(line)) for line in self._out.read_text().splitlines()]


def padded(obj: Json) -> Json:
    """As large as jobs are with all that people write into them."""
    note = "." * max(JOB_BYTES - len(json.dumps(obj)), 0)
    annotations = obj["metadata"].get("annotations", {}) | {"example.com/note": note}
    return obj | {"metadata": {"generateName": "soak-", "annotations": annotations}}


def _planned(cluster: ControlPlane, shape: Shape, namespace: str, obj: Json) -> Json:
    path = f"{_PLURALS[obj['kind']]}/namespaces/{namespace}/{obj['kind'].lower()}s"
    return {"name": shape.name, "url": f"{cluster.url}/{path}?dryRun=All", "body": padded(obj)}
