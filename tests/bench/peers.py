"""Samestep beside what a platform team would otherwise use, on one machine, in one run. `make bench-peers`.

All engines run at once, each for a namespace of its own, in front of one real API server with 10,000 nodes; they take
turns in rounds, so that ratios hold on a noisy machine. A turn begins once all are at rest, and ends after so many
creates or so many seconds. First each only changes a job, then it checks what came of it as well. Every answer is
looked at: a turn in which a job comes back other than it should is void. The figures go into a file, of which
`python -m tests.bench.peers_report FILE` makes tables, plots and the page; without --out the tables are printed.
"""

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from controlplane.build import ControlPlaneError, build
from controlplane.nodes import hard_fleet
from controlplane.peers import LOADER, versions
from controlplane.rig import ControlPlane
from tests.bench.engines import KEY, NONE, OURS, Engine, names, start_engines
from tests.bench.kinds import JOB, KINDS, Kind
from tests.bench.peers_report import tables
from tests.bench.record import BESIDES, CHANGES, CHECKS, Record, Turn
from tests.samples import Json

NODES = 10_000
ROUNDS = 5
SIZES = {"6 KiB": 6 << 10, "100 KiB": 100 << 10}
TURNS = {
    "6 KiB": {1: (500, 3.0), 8: (200, 0.5), 32: (400, 0.7)},
    "100 KiB": {1: (24, 0.8), 8: (32, 0.7), 32: (64, 0.6)},
}
"""By how many at a time: after how many creates a turn ends, and after how many seconds. The p99 is that of one at a
time: of 750 creates, it was anything from 2.8 to 20 ms for what is the same null webhook."""
_BESIDES = {
    "ConfigMap": ("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}}),
    "CPU pod": (
        "pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {},
            "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}]},
        },
    ),
}
_BESIDES_TURN = (200, 0.5)
_WARMING = 20
"""Creates of the small job before the first turn of a pass, which are not counted."""
_TRIES = {"100 KiB": 1}
"""How often an engine may fail at the same in a pass before it is not asked for it again (else: twice). What of the
large jobs the API server has given up keeps some busy for a minute."""
_PATIENCE_S = 60
_RESTING_S, _RESTLESS_S = 0.1, 180
"""Who has used no processor time for so long is at rest (the system tells hundredths of a second); and how long that is
waited for."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a turn sends: so many creates of `body`, so many at a time, and no more after `limit_s` (0: never)."""

    what: str
    path: str
    """With a place for the namespace."""
    body: Path
    workers: int
    count: int
    limit_s: float = 0
    to_change: bool = True


@dataclass(frozen=True, slots=True)
class Works:
    """What is sent in a round: jobs, and in the second pass what is none of an engine's business. `warming` is sent
    before the first."""

    small: Sequence[Work]
    large: Sequence[Work]
    besides: Sequence[Work]
    warming: Work


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    options.add_argument("--out", type=Path)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--nodes", type=int, default=NODES)
    options.add_argument("--engines", default="", help="names, separated by commas; without, all of them")
    options.add_argument("--kind", choices=list(KINDS), default=JOB.name)
    given = options.parse_args()
    chosen = [name.strip() for name in given.engines.split(",") if name.strip()]
    known = names(KINDS[given.kind])
    if unknown := [name for name in chosen if name not in known]:
        options.error(f"for a {given.kind} there is no engine {', '.join(unknown)}; there are: {', '.join(known)}")
    record = Record()
    try:
        with TemporaryDirectory(prefix="samestep-peers-") as folder, ControlPlane(Path(folder)) as cluster:
            for record in run(cluster, Path(folder), chosen, KINDS[given.kind], rounds=given.rounds, nodes=given.nodes):
                if given.out:
                    given.out.write_text(json.dumps(asdict(record)))  # what is there, should the rest fail
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    if given.out:
        print(f"written to {given.out}")
    else:
        print(tables(record))
    return 0


def run(
    cluster: ControlPlane, folder: Path, chosen: Collection[str], kind: Kind, *, rounds: int, nodes: int
) -> Iterator[Record]:
    """The chosen engines, all rounds: the record after each of the passes. Raises ControlPlaneError."""
    loader = Loader(cluster, folder)
    cluster.create_namespace("bench")  # the controllers run then, and outlive the restart that follows
    cluster.add_settled_nodes(hard_fleet(nodes))
    if kind is not JOB:
        cluster.install_crds("pytorchjobs.yaml")
    engines = start_engines(cluster, folder, chosen, kind)
    record = Record(engines=[one.name for one in engines])
    record.machine = machine(nodes) | versions() | {"Samestep": version("samestep")}
    ours = next((one for one in engines if one.name == OURS), None)
    record.machine |= {"Samestep runs in": loader.program(ours)} if ours else {}
    record.ready_s = {one.name: one.ready_s for one in engines if one.ready_s is not None}
    works = _works(loader, kind)
    groups = _groups(engines, rounds)
    for calls in (CHANGES, CHECKS):
        for first, group in groups:
            for engine in group:
                engine.prepare(calls == CHECKS)
            for engine in group:
                loader.await_in_force(engine, works.warming)
            for number in range(first, first + rounds):
                _round(loader, record, group, works, calls, number)
                _say(f"{calls}: round {number + 1} of {first + rounds}")
            for engine in group:
                if engine.processes:
                    record.resting_cores[engine.name] = loader.resting_cores(engine)
                    record.last_resident_mib[engine.name] = loader.resident_mib(engine)
            last = groups[-1][1]
            for engine in group if calls == CHECKS else ():
                if (group is last or engine not in last) and not loader.refuses(engine, works.warming):
                    _void(record, engine, "once it changed nothing, its check refused nothing")
            yield record


def _works(loader: "Loader", kind: Kind) -> Works:
    bodies = {size: loader.body(size.replace(" ", ""), kind.sized(nbytes)) for size, nbytes in SIZES.items()}
    small, large = (
        [Work(size, kind.path("{}"), bodies[size], workers, *turn) for workers, turn in turns.items()]
        for size, turns in TURNS.items()
    )
    besides = [
        Work(what, f"/api/v1/namespaces/{{}}/{plural}", loader.body(plural, obj), 1, *_BESIDES_TURN, to_change=False)
        for what, (plural, obj) in _BESIDES.items()
    ]
    return Works(small, large, besides, replace(small[0], count=_WARMING, limit_s=0))


def _groups(engines: Sequence[Engine], rounds: int) -> list[tuple[int, list[Engine]]]:
    """Who takes turns together, and the number of their first round."""
    together = [one for one in engines if not one.alone]
    alone = [one for one in engines if one.alone or one.name in (NONE, OURS)]
    return [(0, together), (rounds, alone)] if any(one.alone for one in engines) else [(0, together)]


def _void(record: Record, engine: Engine, why: str) -> None:
    for one in record.turns:
        if one.engine == engine.name and one.calls == CHECKS:
            one.void = one.void or why


def _round(loader: "Loader", record: Record, group: Sequence[Engine], works: Works, calls: str, number: int) -> None:
    record.turns.extend(_turns(loader, record, group, works.small, calls, number))
    if not record.resident_mib:
        record.resident_mib = {one.name: loader.resident_mib(one) for one in group if one.processes}
    record.turns.extend(_turns(loader, record, group, works.large, calls, number))
    if calls == CHECKS:
        record.turns.extend(_turns(loader, record, group, works.besides, BESIDES, number))


def _turns(
    loader: "Loader", record: Record, group: Sequence[Engine], works: Iterable[Work], calls: str, number: int
) -> Iterator[Turn]:
    order = random.Random(f"{calls} {number}")  # nobody always comes after the same
    failed = Counter((one.engine, one.size, one.workers) for one in record.turns if one.calls == calls and one.void)
    for work in works:
        for engine in order.sample(group, len(group)):
            if failed[engine.name, work.what, work.workers] < _TRIES.get(work.what, 2):
                yield loader.turn(engine, work, calls, number, group)


class Loader:
    """Sends creates to the API server, as dry runs, and reads what the engines use."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._program = build(LOADER) / "loader"
        self._trees: dict[int, list[psutil.Process]] = {}

    def body(self, name: str, obj: Json) -> Path:
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(obj | {"metadata": {"generateName": "bench-"} | _without_names(obj["metadata"])}))
        return path

    def await_in_force(self, engine: Engine, work: Work) -> None:
        """Until jobs come back as this engine should make them. Raises ControlPlaneError."""
        process = engine.processes[0] if engine.processes else "kube-apiserver"
        self._cluster.processes.wait(
            process, lambda: not self._sent(engine, work).get("wrong", 1), timeout_s=_PATIENCE_S
        )

    def refuses(self, engine: Engine, work: Work) -> bool:
        """Whether its check refuses jobs, once what changes them is deleted: so the check was in force. True of who has
        nothing to refuse."""
        if engine.change is None:
            return True
        self._cluster.kubectl("delete", *engine.change)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if "denied" in str(self._sent(engine, work).get("example")):
                return True
            time.sleep(1)
        return False

    def turn(self, engine: Engine, work: Work, calls: str = "", number: int = 0, others: Sequence[Engine] = ()) -> Turn:
        """One engine's turn, once it and the others are at rest."""
        turn = Turn(engine.name, calls, work.what, work.workers, number)
        if restless := self._restless([engine, *others]):
            turn.void = f"not begun: {restless} did not come to rest"
            return turn
        before, server = self._cpu_s(engine.processes), self._cpu_s(("kube-apiserver",))
        found = self._sent(engine, work)
        if found["wrong"]:
            turn.void = _why(found["example"])
            return turn
        turn.latencies = [round(one, 6) for one in found["latencies"]]
        turn.seconds = found["seconds"]
        turn.cpu_s = self._cpu_s(engine.processes) - before
        turn.server_cpu_s = self._cpu_s(("kube-apiserver",)) - server
        return turn

    def resident_mib(self, engine: Engine) -> float:
        return sum(one.memory_info().rss for name in engine.processes for one in self._tree(name)) / 2**20

    def program(self, engine: Engine) -> str:
        """What its process executes."""
        return Path(self._tree(engine.processes[0])[0].exe()).name

    def resting_cores(self, engine: Engine, window_s: float = 1) -> float:
        """How much of a core it uses while nobody asks it for anything, once it has done what it was asked."""
        self._restless([engine])
        before, started = self._cpu_s(engine.processes), time.monotonic()
        time.sleep(window_s)
        return (self._cpu_s(engine.processes) - before) / (time.monotonic() - started)

    def _restless(self, engines: Iterable[Engine]) -> str:
        """Who does not come to rest, and uses the processor that the next turn needs."""
        names = {name for engine in engines for name in engine.processes}
        deadline = time.monotonic() + _RESTLESS_S
        while True:
            before = {name: self._cpu_s((name,)) for name in names}
            time.sleep(_RESTING_S)
            busy = [name for name in names if self._cpu_s((name,)) > before[name]]
            if not busy or time.monotonic() > deadline:
                return ", ".join(sorted(busy))

    def _sent(self, engine: Engine, work: Work) -> Json:
        url = f"{self._cluster.url}{work.path.format(engine.namespace)}?dryRun=All"
        changed = work.to_change and engine.name != NONE
        options = (
            f"-url={url}",
            f"-ca={self._cluster.ca_file}",
            f"-body={work.body}",
            f"-workers={work.workers}",
            f"-count={work.count}",
            f"-limit={work.limit_s}s",
            f'-{"expect" if changed else "absent"}="{KEY}":"',
        )
        environment = os.environ | {"LOADER_TOKEN": "admin-token"}
        done = subprocess.run([self._program, *options], env=environment, capture_output=True, text=True)
        if done.returncode:
            return {"wrong": 1, "example": done.stderr.strip()}
        found: Json = json.loads(done.stdout)
        return found

    def _cpu_s(self, names: Iterable[str]) -> float:
        """What processes and their children have used."""
        return sum(sum(one.cpu_times()[:2]) for name in names for one in self._tree(name))

    def _tree(self, name: str) -> list[psutil.Process]:
        pid = self._cluster.processes.pid(name)
        if pid not in self._trees:  # to look for children takes longer than the turn of some
            root = psutil.Process(pid)
            self._trees[pid] = [root, *root.children(recursive=True)]
        return self._trees[pid]


def _why(answer: str) -> str:
    """What a wrong answer says, the beginning of which is told: the API server's message, or that it was a job."""
    if '"status":"Failure"' in answer and (message := re.search(r'"message":"((?:[^"\\]|\\.)*)', answer)):
        return message[1].replace('\\"', "'")
    return "the object came back other than it should" if '"kind"' in answer else answer


def _without_names(metadata: Json) -> Json:
    return {key: value for key, value in metadata.items() if key not in ("name", "namespace", "generateName")}


def machine(nodes: int) -> dict[str, str]:
    """What it was measured on."""
    memory = psutil.virtual_memory().total / 2**30
    return {
        "day": time.strftime("%Y-%m-%d"),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "nodes": f"{nodes:,}",
    }


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
