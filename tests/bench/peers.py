"""Samestep beside what a platform team would otherwise use, on one machine, in one run. `make bench-peers`.

All engines run at once, each for a namespace of its own, in front of one real API server with 10,000 nodes; they take
turns in rounds, so that ratios hold on a noisy machine. First each only changes a job, then it checks what came of it
as well. Every answer is looked at: a turn in which a job comes back other than it should is void. The figures go into
a file, which `python -m tests.bench.peers_report FILE` makes tables, plots and the page of.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from controlplane.build import ControlPlaneError, build
from controlplane.nodes import hard_fleet
from controlplane.peers import LOADER
from controlplane.rig import ControlPlane
from tests.bench.cluster import batch_job
from tests.bench.engines import KEY, NONE, Engine, start_engines
from tests.samples import Json, pod

NODES = 10_000
ROUNDS = 5
SIZES = {"6 KiB": 6 << 10, "100 KiB": 100 << 10}
COUNTS = {"6 KiB": {1: 150, 8: 200, 32: 400}, "100 KiB": {1: 16, 8: 24, 32: 48}}
"""How many creates a turn has, by how many at a time. Of a large job few: Kyverno takes up to a second for one."""
_PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Turn:
    """One engine's turn. Latencies in seconds; `cpu_s` of its processes for all `count` creates."""

    engine: str
    calls: str
    size: str
    workers: int
    round: int
    count: int
    median: float
    p95: float
    p99: float
    rate: float
    cpu_s: float
    void: str = ""


@dataclass(slots=True)
class Record:
    """Everything that a run has found."""

    machine: dict[str, str] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    resident_mib: dict[str, float] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    options.add_argument("--out", type=Path, default=Path("peers.json"))
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--nodes", type=int, default=NODES)
    given = options.parse_args()
    try:
        with TemporaryDirectory(prefix="samestep-peers-") as folder, ControlPlane(Path(folder)) as cluster:
            for record in run(cluster, Path(folder), rounds=given.rounds, nodes=given.nodes):
                given.out.write_text(json.dumps(asdict(record), indent=1))  # what is there, should the rest fail
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"written to {given.out}")
    return 0


def run(cluster: ControlPlane, folder: Path, *, rounds: int, nodes: int) -> Iterator[Record]:
    """All engines, all rounds: the record after each of the passes. Raises ControlPlaneError."""
    loader = Loader(cluster, folder)
    cluster.create_namespace("bench")  # the controllers run then, and outlive the restart that follows
    cluster.add_settled_nodes(hard_fleet(nodes))
    engines = start_engines(cluster, folder)
    record = Record(machine=machine(nodes))
    record.ready_s = {one.name: one.ready_s for one in engines if one.ready_s is not None}
    bodies = {size: loader.body(size.replace(" ", ""), batch_job(nbytes)) for size, nbytes in SIZES.items()}
    together = [one for one in engines if not one.alone]
    alone = [one for one in engines if one.alone or one.name in (NONE, "null webhook", "samestep")]
    for calls in ("changes", "changes and checks"):
        for first, group in ((0, together), (rounds, alone)):
            for engine in group:
                engine.prepare(calls != "changes")
            for engine in group:
                loader.await_in_force(engine, bodies["6 KiB"])
            for number in range(first, first + rounds):
                order = group[number % len(group) :] + group[: number % len(group)]
                for size, body in bodies.items():
                    for workers, count in COUNTS[size].items():
                        record.turns.extend(
                            loader.turn(engine, body, calls, size, workers, count, number) for engine in order
                        )
                print(f"{calls}: round {number + 1} of {2 * rounds}", file=sys.stderr, flush=True)
            record.resident_mib = _resident(cluster, engines)
            yield record
    record.turns.extend(loader.none_of_our_business(engines, rounds))
    yield record


def _resident(cluster: ControlPlane, engines: Iterable[Engine]) -> dict[str, float]:
    return {one.name: sum(resident_mib(cluster, name) for name in one.processes) for one in engines if one.processes}


class Loader:
    """Sends creates to the API server, as dry runs."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._program = build(LOADER) / "loader"

    def body(self, name: str, obj: Json) -> Path:
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(obj | {"metadata": {"generateName": "bench-"} | _without_names(obj["metadata"])}))
        return path

    def await_in_force(self, engine: Engine, body: Path) -> None:
        """Until jobs come back as this engine should make them. Raises ControlPlaneError."""
        process = engine.processes[0] if engine.processes else "kube-apiserver"
        self._cluster.processes.wait(process, lambda: self._is_right(engine, body), timeout_s=_PATIENCE_S)

    def _is_right(self, engine: Engine, body: Path) -> bool:
        return not self._send(engine, body, 1, 3).get("wrong", 1)

    def turn(self, engine: Engine, body: Path, calls: str, size: str, workers: int, count: int, number: int) -> Turn:
        before = self._cpu_s(engine)
        found = self._send(engine, body, workers, count)
        return _turn(found, engine.name, calls, size, workers, number, self._cpu_s(engine) - before)

    def none_of_our_business(self, engines: Iterable[Engine], rounds: int) -> Iterator[Turn]:
        """ConfigMaps, and pods without devices, where there is no webhook and where there is ours."""
        cpu_pod = pod(name="cpu")
        cpu_pod["spec"] = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}
        objects = {
            "ConfigMap": ("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}}),
            "CPU pod": ("pods", cpu_pod),
        }
        for number in range(rounds):
            for what, (plural, obj) in objects.items():
                body = self.body(plural, obj)
                for engine in (one for one in engines if one.name in (NONE, "samestep")):
                    before = self._cpu_s(engine)
                    path = f"/api/v1/namespaces/{engine.namespace}/{plural}"
                    found = self._sent(path, body, 1, 200, "-absent", KEY)
                    yield _turn(
                        found, engine.name, "none of its business", what, 1, number, self._cpu_s(engine) - before
                    )

    def _send(self, engine: Engine, body: Path, workers: int, count: int) -> Json:
        path = f"/apis/batch/v1/namespaces/{engine.namespace}/jobs"
        how = "-absent" if engine.name == NONE else "-expect"
        return self._sent(path, body, workers, count, how, f'"{KEY}":"')

    def _sent(self, path: str, body: Path, workers: int, count: int, how: str, text: str) -> Json:
        url = f"{self._cluster.url}{path}?dryRun=All"
        options = (f"-url={url}", f"-ca={self._cluster.ca_file}", f"-body={body}", f"-workers={workers}")
        done = subprocess.run(
            [self._program, *options, f"-count={count}", f"{how}={text}"],
            env=os.environ | {"LOADER_TOKEN": "admin-token"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return {"wrong": 1, "example": done.stderr.strip()}
        found: Json = json.loads(done.stdout)
        return found

    def _cpu_s(self, engine: Engine) -> float:
        return sum(cpu_s(self._cluster, name) for name in engine.processes)


def _turn(found: Json, engine: str, calls: str, size: str, workers: int, number: int, used_s: float) -> Turn:
    if found["wrong"]:
        return Turn(engine, calls, size, workers, number, 0, 0, 0, 0, 0, 0, void=str(found["example"])[:400])
    latencies = sorted(found["latencies"])
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    rate = len(latencies) / found["seconds"]
    return Turn(engine, calls, size, workers, number, len(latencies), cuts[49], cuts[94], cuts[98], rate, used_s)


def _without_names(metadata: Json) -> Json:
    return {key: value for key, value in metadata.items() if key not in ("name", "namespace", "generateName")}


def cpu_s(cluster: ControlPlane, name: str) -> float:
    """What a process and its children have used."""
    return sum(sum(one.cpu_times()[:2]) for one in _tree(cluster, name))


def resident_mib(cluster: ControlPlane, name: str) -> float:
    return sum(one.memory_info().rss for one in _tree(cluster, name)) / 2**20


def _tree(cluster: ControlPlane, name: str) -> list[psutil.Process]:
    root = psutil.Process(cluster.processes.pid(name))
    return [root, *root.children(recursive=True)]


def machine(nodes: int) -> dict[str, str]:
    """What it was measured on."""
    memory = psutil.virtual_memory().total / 2**30
    return {
        "day": time.strftime("%Y-%m-%d"),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "nodes": f"{nodes:,}",
    }


if __name__ == "__main__":
    sys.exit(main())
