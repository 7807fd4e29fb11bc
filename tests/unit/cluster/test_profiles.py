"""Profiles as they are followed: each by itself, and only what can be read and is not too old."""

import asyncio

from tests.samples import Json, demo_nodes, fleet
from webhook.cluster.profiles import Broken, ProfileFollower
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.model.profile import KEPT_S, Observation, Profile, Profiles, Recipe
from webhook.policy.training_profile import document_of, name_of

NOW = 1_800_000_000.0
DIGEST = "0" * 20
KEY = ("team-a", DIGEST)


def document(digest: str = DIGEST, *, runs: int = 1, seen_at: float = NOW, **spec: object) -> Json:
    recipe = Recipe(digest, "1" * 20, 8)
    seen = Observation("NVIDIA-L4", 23_034, runs, seen_at, 20_000, seen_at)
    written = document_of(Profile("team-a", name_of(recipe), recipe, (seen,)))
    written["spec"] |= spec
    return written


class Cluster:
    """What a reflector would do."""

    def __init__(self, *objects: Json) -> None:
        self.worlds = Worlds(Policy(), fleet(demo_nodes()))
        self.follower = ProfileFollower(self.worlds, lambda: NOW)
        self.items: dict[str, Profile | Broken] = {}
        for one in objects:
            self._take(one)
        asyncio.run(self.follower.listed(self.items))

    def put(self, obj: Json) -> None:
        before = self.items.get(key := self.follower.key(obj["metadata"]))
        self._take(obj)
        now = self.items.get(key)
        if now is not before:
            self.follower.changed(before, now)

    def remove(self, obj: Json) -> None:
        self.follower.changed(self.items.pop(self.follower.key(obj["metadata"]), None), None)

    def _take(self, obj: Json) -> None:
        key = self.follower.key(obj["metadata"])
        kept = self.follower.project(obj, self.items.get(key))
        if kept is None:
            self.items.pop(key, None)
        else:
            self.items[key] = kept

    @property
    def known(self) -> Profiles:
        assert self.worlds.current is not None
        return self.worlds.current.profiles

    @property
    def broken(self) -> list[str]:
        return [fault.partition(":")[0] for fault in self.worlds.faults["TrainingProfile"]]


def test_a_profile_is_in_the_world_as_it_comes_changes_and_goes() -> None:
    cluster = Cluster(document("2" * 20))
    cluster.put(document())
    world = cluster.worlds.current
    cluster.put(document(runs=2))
    assert [one.observations[0].runs for one in cluster.known.by_digest[KEY]] == [2]
    assert world is not None
    assert [one.observations[0].runs for one in world.profiles.by_digest[KEY]] == [1]
    assert len(cluster.known.by_family["team-a", "1" * 20]) == 2
    cluster.remove(document())
    assert KEY not in cluster.known.by_digest
    assert len(cluster.known.by_family["team-a", "1" * 20]) == 1


def test_a_change_of_its_status_makes_no_new_world() -> None:
    cluster = Cluster(document())
    world = cluster.worlds.current
    cluster.put(document() | {"status": {"conditions": [{"type": "Observed"}]}})
    assert cluster.worlds.current is world


def test_one_that_cannot_be_read_costs_itself_and_is_told_until_it_is_mended_or_gone() -> None:
    cluster = Cluster(document("2" * 20), document(policies="all"), document("3" * 20, more=1))
    assert cluster.broken == [f"team-a/recipe-{DIGEST}", f"team-a/recipe-{'3' * 20}"]
    assert [digest for _, digest in cluster.known.by_digest] == ["2" * 20]
    cluster.put(document())
    assert cluster.broken == [f"team-a/recipe-{'3' * 20}"]
    assert KEY in cluster.known.by_digest
    cluster.remove(document("3" * 20))
    cluster.put(document("2" * 20, policies="all"))
    assert cluster.broken == [f"team-a/recipe-{'2' * 20}"]
    assert [digest for _, digest in cluster.known.by_digest] == [DIGEST]


def test_what_was_seen_too_long_ago_is_not_taken_in() -> None:
    cluster = Cluster(document(), document("2" * 20, seen_at=NOW - KEPT_S))
    assert [digest for _, digest in cluster.known.by_digest] == [DIGEST]
    cluster.put(document(seen_at=NOW - KEPT_S - 1))
    assert not cluster.known
