"""`make soak`: two replicas of `samestep serve` behind one Service, on a real control plane of 1,000 nodes, are sent
dry-run creates at half the rate at which a null webhook saturates this machine, while one thing after the other goes
wrong.

Every answer is looked at. Exit code 1 where a line does not hold, or where it cannot be run.
"""

import argparse
import json
import math
import platform
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from controlplane.build import ControlPlaneError
from controlplane.nodes import hard_fleet
from controlplane.rig import ControlPlane
from tests.bench.engines import null_engine
from tests.bench.kinds import JOB
from tests.bench.peers import Loader, Work, machine
from tests.samples import job
from tests.soak.faults import FAULTS, OF_THE_REPLICAS, Site
from tests.soak.judged import AFTER_S, Line, Outcome, Run, Verdict
from tests.soak.load import SMALL_FIRST, Load, creates, padded, policy
from tests.soak.site import SERVER_FLAGS, Endpoints, Memory, start_replicas

NODES = 1_000
SECONDS = 300
SATURATING, NULL_CREATES, NULL_ROUNDS = 32, 600, 3
"""How many creates the null webhook is sent, how many at a time, and how often."""
_BETWEEN_S = AFTER_S + 3
_FIRST_S = 5


@dataclass(frozen=True, slots=True)
class Soaked:
    """A run, and the rates that it was made at: creates a second."""

    run: Run
    null_rates: list[float]
    rate: float


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=SECONDS, help="how long, at least (%(default)s)")
    options.add_argument(
        "--faults", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT", help=f"of: {', '.join(FAULTS)}"
    )
    options.add_argument("--rate", type=float, help="creates a second, in place of half of what saturates")
    options.add_argument("--out", type=Path, help="where to write what was seen, as JSON")
    options.add_argument("--keep", type=Path, help="an empty folder in which logs and answers are left behind")
    given = options.parse_args()
    try:
        with TemporaryDirectory(prefix="samestep-soak-") as scratch:
            folder = given.keep or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with ControlPlane(folder) as cluster:
                soaked = soak(cluster, folder, given.seconds, given.faults, given.rate)
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    lines = soaked.run.lines(given.faults)
    report(soaked, lines)
    if given.out is not None:
        given.out.write_text(json.dumps(written(soaked, lines), indent=1))
    return int(not all(line.holds for line in lines))


def soak(cluster: ControlPlane, folder: Path, seconds: float, faults: Sequence[str], rate: float | None) -> Soaked:
    """All of it. Raises ControlPlaneError."""
    nodes = list(hard_fleet(NODES))
    cluster.install_crds("pytorchjobs.yaml")
    cluster.add_settled_nodes(nodes)
    cluster.restart_apiserver(*SERVER_FLAGS)
    null_rates = saturation(cluster, folder)
    rate = rate or statistics.median(null_rates) / 2
    tell(f"null webhook: {statistics.median(null_rates):.0f} creates/s; from here on {rate:.0f}")
    replicas = start_replicas(cluster, folder)
    with Endpoints(cluster, replicas) as endpoints:
        site = Site(cluster, replicas, endpoints, nodes)
        cluster.apply(policy(SMALL_FIRST))
        site.edits.append((0, SMALL_FIRST))
        settle(cluster, folder, site)
        with Memory(replicas) as memory, Load(cluster, folder, rate) as load:
            start = time.time()
            suffer(site, faults, start, seconds)
            time.sleep(max(0, start + seconds - time.time()))
            end = time.time()
    run = Run(
        start,
        end,
        load.outcomes(),
        site.windows,
        {shape.name: shape for shape, *_ in creates()},
        site.edits,
        memory.samples,
    )
    return Soaked(run, null_rates, rate)


def saturation(cluster: ControlPlane, folder: Path) -> list[float]:
    """Creates a second that the null webhook answers, as fast as it can, in each of some rounds."""
    loader = Loader(cluster, folder)
    [engine] = null_engine(cluster, folder)
    engine.prepare(True)
    work = Work("null", JOB.path("{}"), loader.body("null", padded(job())), SATURATING, NULL_CREATES)
    loader.await_in_force(engine, work)
    turns = [loader.turn(engine, work) for _ in range(NULL_ROUNDS)]
    if void := next((turn.void for turn in turns if turn.void), ""):
        raise ControlPlaneError(f"the null webhook: {void}")
    for kind in ("mutating", "validating"):
        cluster.kubectl("delete", f"{kind}webhookconfiguration", "null")
    for process in engine.processes:
        cluster.processes.stop(process, grace_s=0)
    return [turn.rate for turn in turns]


def settle(cluster: ControlPlane, folder: Path, site: Site) -> None:
    """Until every sort of create is answered as it should be, by both replicas. Raises ProcessError."""
    shapes = {shape.name: shape for shape, *_ in creates()}

    def right() -> bool:
        with Load(cluster, folder, 40) as load:
            time.sleep(1)
        outcomes = load.outcomes()
        run = Run(0, 0, outcomes, (), shapes, site.edits, ())
        return bool(outcomes) and all(run.verdict(one) is Verdict.RIGHT for one in outcomes)

    site.until(lambda: all(map(site.endpoints.told, site.replicas)))
    site.until(right)


def suffer(site: Site, faults: Sequence[str], start: float, seconds: float) -> None:
    """One fault after the other. Those of the replicas first, in the first minute as far as it goes, so that the memory
    that is compared is that of the same processes; the others spread over the rest."""
    own = [name for name in faults if name in OF_THE_REPLICAS]
    others = [name for name in faults if name not in OF_THE_REPLICAS]
    first = start + (seconds / 5 if own else 0) + _FIRST_S
    gap = (start + seconds - first - _FIRST_S) / max(len(others), 1)
    due = [start + _FIRST_S] * len(own) + [first + number * gap for number in range(len(others))]
    for name, at in zip([*own, *others], due, strict=True):
        time.sleep(max(0, at - time.time()))
        tell(f"{time.time() - start:5.0f} s: {name}")
        try:
            FAULTS[name](site, name)
        except ControlPlaneError as error:
            tell(str(error))
            site.unfinished(name)
        time.sleep(_BETWEEN_S)


def report(soaked: Soaked, lines: Sequence[Line]) -> None:
    """Prints it all."""
    run = soaked.run
    console = Console(width=120)
    null = ", ".join(f"{rate:.0f}" for rate in soaked.null_rates)
    console.print(f"null webhook, {SATURATING} at a time: {null} creates/s; the soak: {soaked.rate:.0f} creates/s")
    console.print(f"{len(run.outcomes)} creates in {run.end - run.start:.0f} s\n")
    console.print(_windows(run))
    console.print(_shapes(run))
    console.print(_memory(run))
    table = Table("holds", "line", "seen", box=None)
    for line in lines:
        table.add_row("yes" if line.holds else "NO", line.what, line.seen)
    console.print(table)


def _windows(run: Run) -> Table:
    table = Table("fault", "from", "to", "creates", "failed", "wrong", "longest", "the most frequent failure", box=None)
    for window in run.windows:
        met = [one for one in run.outcomes if window.meets(one)]
        table.add_row(
            window.fault, *(f"{at - run.start:.1f} s" for at in (window.start, window.end)), *_counts(run, met)
        )
    calm = [one for one in run.outcomes if not any(window.meets(one) for window in run.windows)]
    table.add_row("none", "", "", *_counts(run, calm))
    return table


def _counts(run: Run, those: Sequence[Outcome]) -> list[str]:
    verdicts = [run.verdict(one) for one in those]
    failed = [one for one, verdict in zip(those, verdicts, strict=True) if verdict is Verdict.FAILED]
    often = Counter(_reason(one) for one in failed).most_common(1)
    longest = max((one.took for one in those), default=0)
    wrong = verdicts.count(Verdict.WRONG)
    return [str(len(those)), str(len(failed)), str(wrong), f"{longest:.2f} s", often[0][0] if often else ""]


def _reason(one: Outcome) -> str:
    if one.succeeded:
        return "let through unseen"
    # What was said may have been cut.
    found = re.search(r'"message":"(?:admission webhook \\"\S+ denied the request: )?(.{1,60})', one.said)
    return f"{one.status} {found[1] if found else one.said[:60]}"


def _shapes(run: Run) -> Table:
    table = Table("create", *(verdict.value for verdict in Verdict), "median", "99 %", box=None)
    for name in run.shapes:
        those = [one for one in run.outcomes if one.name == name]
        verdicts = Counter(map(run.verdict, those))
        calm = [one.took for one in those if not any(window.meets(one) for window in run.windows)]
        times = [math.nan, math.nan]
        if len(calm) > 1:
            cuts = statistics.quantiles(calm, n=100, method="inclusive")
            times = [cuts[49], cuts[98]]
        counts = (str(verdicts[verdict]) for verdict in Verdict)
        table.add_row(name, *counts, *(f"{1000 * took:.1f} ms" for took in times))
    return table


def _memory(run: Run) -> Table:
    table = Table("memory", *(f"{number}. minute" for number in range(1, 6)), box=None)
    for replica in dict.fromkeys(one.replica for one in run.memory):
        table.add_row(replica, *(f"{run.resident(replica, minute):.0f} MiB" for minute in range(5)))
    return table


def written(soaked: Soaked, lines: Sequence[Line]) -> dict[str, object]:
    """What goes into a file. Of the answers, those that were not right."""
    run = soaked.run
    return {
        "machine": machine(NODES) | {"Python": platform.python_version()},
        "null_rates": soaked.null_rates,
        "rate": soaked.rate,
        "start": run.start,
        "end": run.end,
        "creates": len(run.outcomes),
        "windows": [asdict(one) for one in run.windows],
        "lines": [asdict(one) for one in lines],
        "memory": [asdict(one) for one in run.memory],
        "not right": [asdict(one) for one in run.outcomes if run.verdict(one) is not Verdict.RIGHT],
    }


def tell(what: str) -> None:
    """Says how far it is."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
