"""How long the first list of 10,000 nodes with 60 labels each takes from a real API server, and what memory it takes;
and how long it is from the start of `samestep serve` until it is ready.

`python -m tests.bench.first_sync` (or `make bench-cluster`). The best of three runs counts: whatever else the machine
does only adds to the time.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from controlplane.rig import ControlPlane
from demo.serving import start_webhook
from tests.bench.fleet import labelled_fleet

NODES = 10_000

# A process of its own, so that what it takes is what following the cluster takes.
MEASURED = """
import asyncio, gc, json, re, sys, time
from pathlib import Path
from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy

def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

async def main():
    access = Access(Path(sys.argv[1]))
    async with access.client() as client:
        await client.get("/version")
    worlds = Worlds(Policy())
    following = Following(access.client, worlds)
    gc.collect()
    before = peak_mib()
    started, computed, seen, stall = time.perf_counter(), time.process_time(), time.perf_counter(), 0.0
    following.start()
    while not worlds.synced:
        await asyncio.sleep(0.005)
        stall, seen = max(stall, time.perf_counter() - seen), time.perf_counter()
    figures = {
        "nodes": len(worlds.current.fleet.nodes),
        "seconds": seen - started,
        "processor_seconds": time.process_time() - computed,
        "stall_seconds": stall,
        "peak_mib": peak_mib() - before,
    }
    await following.stop()
    print(json.dumps(figures))

asyncio.run(main())
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, ControlPlane(Path(directory)) as large:
        large.add_settled_nodes(labelled_fleet(NODES))
        command = [sys.executable, "-c", MEASURED, str(large.kubeconfig)]
        runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)]
        for run in runs:
            run |= _until_ready(large, Path(directory))
    if {run["nodes"] for run in runs} != {NODES}:
        raise SystemExit(f"void: not all nodes were seen: {runs}")
    table = Table("first list of 10,000 nodes", "best of three", "goal", box=None)
    for name, best, goal in (
        ("seconds", min, "5"),
        ("processor_seconds", min, ""),
        ("stall_seconds", min, ""),
        ("peak_mib", max, "64"),
        ("ready_seconds", min, "15"),
        ("ready_processor_seconds", min, ""),
    ):
        table.add_row(name, f"{best(run[name] for run in runs):.3g}", goal)
    Console(width=100).print(table)


def _until_ready(large: ControlPlane, folder: Path) -> dict[str, float]:
    """Of the whole process: its imports, kopf, the policies, and the nodes."""
    computed, started = _computed_by_children(), time.perf_counter()
    start_webhook(large.processes, folder, f"--kubeconfig={large.kubeconfig}")
    seconds = time.perf_counter() - started
    large.processes.stop("samestep", grace_s=10)
    return {"ready_seconds": seconds, "ready_processor_seconds": _computed_by_children() - computed}


def _computed_by_children() -> float:
    """By those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
