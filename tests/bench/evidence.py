"""What it costs an admission that 20,000 profiles are in memory: beside the same job with none.

Once for a job of which nothing is known, once for one whose own runs were seen, and once for one whose neighbours were,
with other micro-batches: deciding alone, and the whole admission, from the socket and back. All take turns, and it is
processor time that counts, so that ratios hold on a noisy machine.
`python -m tests.bench.evidence` (or `make bench`).
"""

import asyncio
import gc
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import orjson
from rich.console import Console
from rich.table import Table

from controlplane.processes import Processes
from tests.bench.recorded import held
from tests.bench.review import fleet_of, measure, sized_job
from tests.bench.served import cpu_s
from tests.profiles import NOW, known, large, profile, recipe, small
from tests.samples import Json
from tests.unit.server.conftest import running
from webhook.answer.evidence import used
from webhook.answer.response import admission_response
from webhook.cluster.world import Worlds
from webhook.intake.admission import read_request
from webhook.model.policy import Policy
from webhook.model.profile import Allocator, Profile, Recipe
from webhook.model.request import Stage
from webhook.model.verdict import Verdict
from webhook.model.world import World
from webhook.review import review

PROFILES = 20_000
GOAL = 1.2
BATCHES = range(1, 33)
"""A family with so many neighbours is a large one."""
NONE = "no profiles"
ROUNDS = 40
REQUESTS = 25


def untold(size: int) -> Json:
    """A job that declares nothing."""
    job = sized_job(size)
    job["metadata"]["annotations"] = {}
    return job


JOBS = {size: untold(size) for size in (6 << 10, 100 << 10)}


def main() -> int:
    bodies = {f"{size >> 10} KiB": orjson.dumps(asked(job)) for size, job in JOBS.items()}
    worlds = worlds_at(NOW)
    for body in bodies.values():
        request = read_request(orjson.loads(body), stage=Stage.MUTATE, now=NOW)
        outcomes = [review(request, world) for world in worlds.values()]
        assert all(one.verdict is Verdict.PIN for one in outcomes)
        assert [used(one) for one in outcomes] == [(), (), ("fits", "peak"), ("fits", "slope")]
    deciding = {
        size: measure({name: partial(admit, body, world) for name, world in worlds.items()})
        for size, body in bodies.items()
    }
    admitting = asyncio.run(served(bodies))
    table = Table("what", "decided: µs", "against none", "admitted: µs", "against none", box=None)
    ratios: dict[str, float] = {}
    worst = 0.0
    for size, decided in deciding.items():
        bases = decided[NONE], admitting[size][NONE]
        for name in worlds:
            costs = decided[name], admitting[size][name]
            ratio, whole = (cost / base for cost, base in zip(costs, bases, strict=True))
            table.add_row(
                f"{size}: {name}", f"{costs[0] * 1e6:.0f}", f"{ratio:.2f}", f"{costs[1] * 1e6:.0f}", f"{whole:.2f}"
            )
            if name != NONE:
                ratios[f"{size}: {name}"], worst = ratio, max(worst, whole)
    console = Console(width=110)
    console.print(table)
    console.print(f"admitted with profiles against none, the worst: {worst:.2f}; goal: {GOAL}")
    return int(not held("evidence", ratios) or worst > GOAL)


def worlds_at(now: float) -> dict[str, World]:
    """The same world with more and more in it that concerns the jobs; what runs showed was seen around `now`."""
    none = World(fleet_of(100), Policy())
    mine = [replace(recipe(job), allocator=Allocator.CACHING) for job in JOBS.values()]
    own = [
        profile(one, small(runs=3, peak_gib=20), large(runs=2, peak_gib=30), name=f"own-{number}")
        for number, one in enumerate(mine)
    ]
    near = [of for one in mine for of in neighbours(one)]
    worlds = {NONE: none}
    for name, more in (("none of this job", ()), ("its own", own), (f"{len(BATCHES)} neighbours", near)):
        profiles = known(*(seen_at(one, now) for one in (*others(), *more)))
        worlds[f"{PROFILES:,} profiles, {name}"] = replace(none, profiles=profiles)
    return worlds


def seen_at(one: Profile, now: float) -> Profile:
    """The same as if what was seen around NOW had been seen around `now`."""
    later = now - NOW
    return replace(
        one,
        observations=tuple(
            replace(
                of,
                seen_at=of.seen_at + later,
                good_at=None if of.good_at is None else of.good_at + later,
                out_of_memory=of.out_of_memory and replace(of.out_of_memory, at=of.out_of_memory.at + later),
            )
            for of in one.observations
        ),
    )


async def served(bodies: dict[str, bytes]) -> dict[str, dict[str, float]]:
    """Seconds of the server's processor that one request takes, through kopf and over TLS, by size and world. Each
    world has a server, a process of its own."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with TemporaryDirectory(prefix="samestep-bench-") as folder:
        processes = Processes(Path(folder))
        servers = {name: start(processes, number) for number, name in enumerate(worlds_at(NOW))}
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as client:
                for round_, (size, body), (name, (url, pid)) in product(
                    range(ROUNDS + 1), bodies.items(), servers.items()
                ):
                    before = cpu_s(pid)
                    for _ in range(REQUESTS):
                        async with client.post(url, data=body) as answer:
                            assert (await answer.json())["response"]["patch"]
                    if round_:  # the first one warms up
                        found[size][name].append((cpu_s(pid) - before) / REQUESTS)
        finally:
            processes.close()
    return {size: {name: statistics.median(costs) for name, costs in by.items()} for size, by in found.items()}


def start(processes: Processes, number: int) -> tuple[str, int]:
    """The address and the process of a server with this world."""
    name = f"world-{number}"
    processes.start(name, [sys.executable, "-m", "tests.bench.evidence", "serve", str(number)])
    log = processes.log(name)
    processes.wait(name, lambda: log.exists() and "https://" in log.read_text())
    return next(word for word in log.read_text().split() if word.startswith("https://")), processes.pid(name)


async def serve(number: int) -> None:
    worlds = Worlds(Policy(), fleet_of(100))
    worlds.learn(list(worlds_at(time.time()).values())[number].profiles)
    gc.freeze()
    async with running(worlds=worlds) as serving:
        print(serving.url("/admit/pin"), flush=True)
        await asyncio.Event().wait()


def asked(job: Json) -> Json:
    """The AdmissionReview of a CREATE."""
    group, _, version = job["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": job["kind"]}
    resource = {"group": group, "version": version, "resource": "pytorchjobs"}
    request = {"uid": "u", "kind": kind, "resource": resource, "namespace": "team-a", "operation": "CREATE"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {**request, "userInfo": {"username": "u"}, "object": job},
    }


def admit(body: bytes, world: World) -> bytes:
    """From the body of a request to that of its answer; only HTTP itself is left out."""
    request = read_request(orjson.loads(body), stage=Stage.MUTATE, now=NOW)
    return orjson.dumps(admission_response(review(request, world)))


def others() -> Iterator[Profile]:
    """Profiles of other trainings, of many namespaces."""
    for number in range(PROFILES):
        of = Recipe(f"digest-{number}", f"family-{number // 4}", 8 << (number % 4), Allocator.CACHING)
        namespace = f"team-{'abcdefgh'[number % 8]}"
        yield profile(of, small(runs=1, peak_gib=12), large(out=2), name=f"p-{number}", namespace=namespace)


def neighbours(mine: Recipe) -> Iterator[Profile]:
    for number, batch in enumerate(BATCHES):
        batch += batch >= (mine.micro_batch or 0)
        of = replace(mine, digest=f"near-{number}", micro_batch=batch)
        yield profile(of, large(runs=1, peak_gib=4 + batch / 2), name=f"near-{number}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(int(sys.argv[2])))
    sys.exit(main())
