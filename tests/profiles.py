"""Profiles for tests, as runs of a sample job would have left them."""

from dataclasses import replace

from controlplane.nodes import RTX_5090, RTX_PRO_6000, Card
from tests.samples import USER, Json
from webhook.evidence.index import index_of
from webhook.evidence.recipe import recipe_of
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.policy import Evidence
from webhook.model.profile import Allocator, Observation, OutOfMemory, Profile, Profiles, Recipe
from webhook.model.request import Kind

DAY_S = 24 * 3600
NOW = 1_800_000_000.0
"""The fifteenth of January 2027."""


def recipe(obj: Json, allocator: Allocator | None = None) -> Recipe:
    """The recipe of a sample job; its allocator is what the job shows where none is given."""
    group, _, version = obj["apiVersion"].rpartition("/")
    job = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=USER)
    assert isinstance(job, TrainingJob)
    found = recipe_of(job, Evidence())
    return found if allocator is None else replace(found, allocator=allocator)


def profile(of: Recipe, *observations: Observation, name: str = "ddp-1f0a", namespace: str = "team-a") -> Profile:
    return Profile(namespace, name, of, observations)


def seen(
    card: Card,
    *,
    runs: int = 0,
    good: float | None = None,
    peak_gib: float | None = None,
    out: float | None = None,
    times: int = 1,
    imbalance: float | None = None,
) -> Observation:
    """`good` and `out` are days before NOW. Runs without a day ended well an hour ago."""
    runs = runs or (good is not None)
    return Observation(
        card.product,
        card.memory_mib,
        runs=runs,
        good_at=NOW - (1 / 24 if good is None else good) * DAY_S if runs else None,
        peak_mib=None if peak_gib is None else peak_gib * 1024,
        seen_at=NOW,
        out_of_memory=None if out is None else OutOfMemory(NOW - out * DAY_S, "ddp-7", times),
        imbalance=imbalance,
    )


def known(*profiles: Profile) -> Profiles:
    return index_of(profiles)


def ran(obj: Json, *observations: Observation, allocator: Allocator | None = None) -> Profiles:
    """What is known where runs of this very job, and no others, were seen."""
    return known(profile(recipe(obj, allocator), *observations))


def small(**seen_there: float | None) -> Observation:
    return seen(RTX_5090, **seen_there)  # type: ignore[arg-type]


def large(**seen_there: float | None) -> Observation:
    return seen(RTX_PRO_6000, **seen_there)  # type: ignore[arg-type]
