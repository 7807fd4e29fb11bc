"""What one admission request costs `samestep serve`, over a real socket: CPU time of the server, and latency.

An aiohttp client that keeps its TLS connections alive asks about jobs of 6 KiB and 100 KiB, one at a time and 32 at
once; the fleet has 10,000 nodes of which no two are alike. CPU time is the figure that holds on a noisy machine.
`python -m tests.bench.served`; with paths of other checkouts as arguments, their code takes turns with this one's.
"""

import asyncio
import json
import os
import ssl
import statistics
import sys
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import aiohttp
from rich.console import Console
from rich.table import Table

from controlplane.nodes import hard_fleet
from controlplane.processes import Processes
from demo.serving import ROOT, Webhook, start_webhook
from tests.bench.stages import review_of

NODES = 10_000
SIZES = (6 << 10, 100 << 10)
AT_ONCE = (1, 32)
ROUNDS = 6
REQUESTS = 320


class Load(NamedTuple):
    """Jobs of `size` bytes, so many of them `at_once`."""

    size: int
    at_once: int

    def __str__(self) -> str:
        return f"{self.size >> 10} KiB, {self.at_once} at once"


class Cost(NamedTuple):
    """Of one turn: seconds of CPU a request, and how long each took."""

    cpu_s: float
    latencies_s: list[float]


def main(checkouts: list[str]) -> None:
    with TemporaryDirectory(prefix="samestep-bench-") as folder:
        fleet = Path(folder, "fleet.json")
        fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(hard_fleet(NODES))}))
        processes = Processes(Path(folder))
        try:
            servers: dict[str, tuple[Webhook, int]] = {}
            for path in (str(ROOT), *checkouts):
                # Safe: without the folder that this runs in, which would come first and be the code of them all.
                os.environ |= {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
                webhook = start_webhook(processes, Path(folder), f"--fleet={fleet}", name=Path(path).name)
                servers[path] = webhook, processes.pid(Path(path).name)
            report(asyncio.run(measured(servers)))
        finally:
            processes.close()


async def measured(servers: dict[str, tuple[Webhook, int]]) -> dict[Load, dict[str, list[Cost]]]:
    found: dict[Load, dict[str, list[Cost]]] = defaultdict(lambda: defaultdict(list))
    for round_ in range(ROUNDS + 1):
        for size, at_once in product(SIZES, AT_ONCE):
            for path, (webhook, pid) in servers.items():
                cost = await turn(webhook, pid, Load(size, at_once))
                if round_:  # the first one warms up
                    found[Load(size, at_once)][path].append(cost)
    return found


async def turn(webhook: Webhook, pid: int, load: Load) -> Cost:
    body, latencies = review_of(load.size), list[float]()
    tls = ssl.create_default_context(cadata=webhook.ca.decode())
    url, waiting = f"https://127.0.0.1:{webhook.port}/admit/pin", iter(range(REQUESTS))

    async def client(session: aiohttp.ClientSession) -> None:
        for _ in waiting:
            started = time.perf_counter()
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
                told = await answer.json()
            latencies.append(time.perf_counter() - started)
            assert told["response"]["patch"]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=load.at_once)) as session:
        before = cpu_s(pid)
        await asyncio.gather(*(client(session) for _ in range(load.at_once)))
        return Cost((cpu_s(pid) - before) / REQUESTS, latencies)


def cpu_s(pid: int) -> float:
    """How long the threads of a process have run, to the nanosecond; proc(5) calls it schedstat."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def report(found: dict[Load, dict[str, list[Cost]]]) -> None:
    table = Table("what", "CPU µs", "median µs", "p99 µs", "CPU against the first", box=None)
    for load, costs in found.items():
        base = statistics.median(cost.cpu_s for cost in next(iter(costs.values())))
        for path, turns in costs.items():
            latencies = sorted(one for cost in turns for one in cost.latencies_s)
            spent = statistics.median(cost.cpu_s for cost in turns)
            figures = spent, statistics.median(latencies), latencies[len(latencies) * 99 // 100]
            row = [f"{1e6 * figure:.0f}" for figure in figures]
            table.add_row(f"{load}: {Path(path).name}", *row, f"{spent / base:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
