"""What it costs an admission that 20,000 profiles are in memory: beside the same job with none.

Once for a job of which nothing is known, once for one whose own runs were seen, and once for one whose neighbours were,
with other micro-batches. All are measured interleaved in one process, so that ratios hold on a noisy machine.
`python -m tests.bench.evidence` (or `make bench`).
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import orjson
from rich.console import Console
from rich.table import Table

from tests.bench.recorded import held
from tests.bench.review import fleet_of, measure, sized_job
from tests.profiles import NOW, known, large, profile, recipe, small
from tests.samples import Json
from webhook.answer.evidence import used
from webhook.answer.response import admission_response
from webhook.intake.admission import read_request
from webhook.model.policy import Policy
from webhook.model.profile import Allocator, Profile, Recipe
from webhook.model.request import Kind, Request, Stage, User
from webhook.model.verdict import Verdict
from webhook.model.world import World
from webhook.review import review

PROFILES = 20_000
GOAL = 1.2
BATCHES = range(1, 33)
"""A family with so many neighbours is a large one."""


def main() -> int:
    fleet = fleet_of(100)
    none = World(fleet, Policy())
    failed, ratios = False, dict[str, float]()
    table = Table("what", "µs", "against none", box=None)
    for size in (6 << 10, 100 << 10):
        job = sized_job(size)
        job["metadata"]["annotations"] = {}
        mine = replace(recipe(job), allocator=Allocator.CACHING)
        worlds = {
            "no profiles": none,
            f"{PROFILES:,} profiles, none of this job": replace(none, profiles=known(*others())),
            f"{PROFILES:,} profiles, its own among them": replace(
                none, profiles=known(*others(), profile(mine, small(runs=3, peak_gib=20), large(runs=2, peak_gib=30)))
            ),
            f"{PROFILES:,} profiles, {len(BATCHES)} neighbours among them": replace(
                none, profiles=known(*others(), *neighbours(mine))
            ),
        }
        kind = Kind("kubeflow.org", "v1", "PyTorchJob")
        request = Request(kind, "CREATE", job, namespace="team-a", user=User("u"), now=NOW)
        outcomes = [review(request, world) for world in worlds.values()]
        assert all(one.verdict is Verdict.PIN for one in outcomes)
        assert [used(one) for one in outcomes] == [(), (), ("fits", "peak"), ("fits", "slope")]
        body = orjson.dumps(asked(job))
        costs = measure({name: partial(admit, body, world) for name, world in worlds.items()})
        base = costs["no profiles"]
        ratios |= {f"{size >> 10} KiB: {name}": cost / base for name, cost in costs.items() if cost != base}
        for name, cost in costs.items():
            ratio = cost / base
            failed |= ratio > GOAL
            table.add_row(f"{size >> 10} KiB: {name}", f"{cost * 1e6:.0f}", f"{ratio:.2f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"goal: {GOAL}")
    return int(not held("evidence", ratios) or failed)


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
    sys.exit(main())
