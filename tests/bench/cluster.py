"""What our mutating call adds to the creation of a job, through a real API server: beside a null webhook in Go, which
answers with the same patch without a look at the job, and no webhook at all. `python -m tests.bench.cluster`.

The null webhook is registered twice: bare, and like ours, with the conditions by which the API server leaves out what
is none of our business. It evaluates those itself, and for a Job they cost it about a third of a bare null webhook.

Once for a Job, and once for a PyTorchJob, of which the API server makes more work. The fleet has 10,000 nodes of which
no two are alike. Dry-run creates, one at a time, in rounds in which all take turns, so that ratios hold on a
noisy machine. A round in which a job comes back other than it should is void.
"""

import base64
import json
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from controlplane.build import ControlPlaneError, artifact
from controlplane.nodes import hard_fleet
from controlplane.rig import ControlPlane
from demo.serving import start_webhook
from demo.submission import Submitter
from tests.bench.review import sized_job
from tests.samples import Json
from webhook.server.certificates import self_signed

NODES = 10_000
JOB_BYTES = 6 << 10
ROUNDS = 5
TURNS = 40
CREATES_A_TURN = 5
GOAL = 1.8

NONE, BARE, NULL, OURS = "no webhook", "null, bare", "null, like ours", "samestep"
NAMESPACES = {NONE: "bench-none", BARE: "bench-bare", NULL: "bench-null", OURS: "bench-ours"}
BARE_KEYS = ("name", "rules", "admissionReviewVersions", "sideEffects", "failurePolicy")
"""What a webhook has to say, and no more."""
PLURALS = {"Job": "jobs", "PyTorchJob": "pytorchjobs"}

Round: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Void:
    """A round that does not count: for which of them a job was not as it should be."""

    what: str


def main() -> int:
    jobs = [batch_job(JOB_BYTES), sized_job(JOB_BYTES)]
    try:
        with TemporaryDirectory(prefix="samestep-bench-") as folder, ControlPlane(Path(folder)) as cluster:
            prepare(cluster, Path(folder), jobs)
            failed = [report(job["kind"], [measured(cluster, job) for _ in range(ROUNDS)]) for job in jobs]
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    return int(any(failed))


def batch_job(nbytes: int) -> Json:
    """A Job of so many bytes: one role of a PyTorchJob of twice the size."""
    whole = sized_job(2 * nbytes)
    role = whole["spec"]["pytorchReplicaSpecs"]["Worker"]
    spec = {"parallelism": role["replicas"], "completions": role["replicas"], "completionMode": "Indexed"}
    spec["template"] = role["template"]
    spec["template"]["spec"]["restartPolicy"] = "Never"
    return whole | {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


def prepare(cluster: ControlPlane, folder: Path, jobs: list[Json]) -> None:
    """A namespace for each of the three, whose jobs go to one webhook or to none."""
    cluster.install_crds("pytorchjobs.yaml")
    for namespace in NAMESPACES.values():
        cluster.create_namespace(namespace)
    fleet = folder / "fleet.json"
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(hard_fleet(NODES))}))
    webhook = start_webhook(cluster.processes, folder, f"--fleet={fleet}")
    ours, _ = webhook.configurations()
    submitter = Submitter(webhook)
    nulls = [null_webhook(cluster, folder, job, submitter.create(job).operations) for job in jobs]
    bare = [{key: hook[key] for key in BARE_KEYS} | null for hook, null in zip(ours["webhooks"], nulls, strict=True)]
    like = [hook | null for hook, null in zip(ours["webhooks"], nulls, strict=True)]
    cluster.apply(
        only_in(NAMESPACES[OURS], ours),
        only_in(NAMESPACES[BARE], {**ours, "metadata": {"name": "bare"}, "webhooks": bare}),
        only_in(NAMESPACES[NULL], {**ours, "metadata": {"name": "null"}, "webhooks": like}),
    )
    for job in jobs:
        for what in NAMESPACES:
            cluster.processes.wait("kube-apiserver", partial(create, cluster, job, what))


def null_webhook(cluster: ControlPlane, folder: Path, job: Json, patch: list[Json]) -> Json:
    """A null webhook for this kind of job, started, as what an entry of a configuration says of its server."""
    plural = PLURALS[job["kind"]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ca, *pair = self_signed(["127.0.0.1"])
    cert, key = folder / f"null-{plural}.crt", folder / f"null-{plural}.key"
    for file, content in zip((cert, key), pair, strict=True):
        file.write_bytes(content)
    options = (f"-address={address}", f"-cert={cert}", f"-key={key}", f"-patch={json.dumps(patch)}")
    cluster.processes.start(f"null-{plural}", [artifact("nullwebhook"), *options])
    return {"clientConfig": {"url": f"https://{address}/", "caBundle": base64.b64encode(ca).decode()}}


def only_in(namespace: str, configuration: Json) -> Json:
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return configuration | {"webhooks": [hook | selector for hook in configuration["webhooks"]]}


def measured(cluster: ControlPlane, job: Json) -> Round | Void:
    """The median seconds of a create, for each of the three."""
    seconds: dict[str, list[float]] = {what: [] for what in NAMESPACES}
    order = list(NAMESPACES)
    for turn in range(TURNS):
        for what in order[turn % len(order) :] + order[: turn % len(order)]:
            for _ in range(CREATES_A_TURN):
                start = time.perf_counter()
                as_it_should_be = create(cluster, job, what)
                seconds[what].append(time.perf_counter() - start)
                if not as_it_should_be:
                    return Void(what)
    return {what: statistics.median(taken) for what, taken in seconds.items()}


def create(cluster: ControlPlane, job: Json, what: str) -> bool:
    """Whether the job came back pinned where there is a webhook, and not where there is none."""
    namespace = NAMESPACES[what]
    path = f"/apis/{job['apiVersion']}/namespaces/{namespace}/{PLURALS[job['kind']]}?dryRun=All"
    obj = job | {"metadata": job["metadata"] | {"namespace": namespace}}
    spec = cluster.api.request("POST", path, obj)["spec"]
    pinned = [
        "nodeSelector" in role["template"]["spec"] for role in spec.get("pytorchReplicaSpecs", {"": spec}).values()
    ]
    return all(pinned) if what != NONE else not any(pinned)


def report(kind: str, rounds: list[Round | Void]) -> bool:
    """Prints the tables; whether no round counts."""
    table = Table(kind, *NAMESPACES, *(f"samestep ÷ {null}" for null in (BARE, NULL)), box=None)
    ratios: dict[str, list[float]] = {BARE: [], NULL: []}
    for number, one in enumerate(rounds, 1):
        if isinstance(one, Void):
            table.add_row(f"round {number}", f"void: {one.what}")
            continue
        added = {what: seconds - one[NONE] for what, seconds in one.items()}
        for null, found in ratios.items():
            found.append(added[OURS] / added[null])
        figures = (f"{1000 * seconds:.2f} ms" for seconds in one.values())
        table.add_row(f"round {number}", *figures, *(f"{found[-1]:.2f}" for found in ratios.values()))
    console = Console(width=120)
    console.print(table)
    for null, found in ratios.items():
        if found:
            console.print(
                f"added latency against {null}, median of {len(found)} rounds: {statistics.median(found):.2f}"
            )
    console.print(f"goal: {GOAL}\n")
    return not ratios[NULL]


if __name__ == "__main__":
    sys.exit(main())
