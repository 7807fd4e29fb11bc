"""The profiles of a cluster, followed as they change."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from webhook.cluster.referred import place_of
from webhook.cluster.world import Worlds
from webhook.evidence.index import changed, index_of, not_expired
from webhook.model.profile import NO_PROFILES, Observation, Profile
from webhook.model.request import Object
from webhook.policy.training_profile import ProfileError, read_profile

KIND = "TrainingProfile"


@dataclass(frozen=True, slots=True)
class Broken:
    """A profile that cannot be read, and why."""

    place: str
    fault: str


_Kept: TypeAlias = Profile | Broken


class ProfileFollower:
    """Profiles into the world, each as it changes; the others are not touched. One that cannot be read counts for
    nothing and is told as broken; what was seen too long ago is not taken in. `now` tells the time in seconds since the
    epoch."""

    def __init__(self, worlds: Worlds, now: Callable[[], float] = time.time) -> None:
        self._worlds = worlds
        self._now = now
        self._profiles = NO_PROFILES
        self._broken: dict[str, str] = {}

    def key(self, metadata: Object) -> str:
        return place_of(metadata)

    def project(self, item: Object, before: _Kept | None, /) -> _Kept | None:
        read = _read(item, self.key(item["metadata"]))
        now = not_expired(read, self._now()) if isinstance(read, Profile) else read
        return before if before == now else now

    async def listed(self, items: Mapping[str, _Kept]) -> None:
        # Of 20,000 it takes a tenth of a second, in which requests are to be answered.
        self._profiles = await asyncio.to_thread(
            lambda: index_of(one for one in items.values() if isinstance(one, Profile))
        )
        self._broken = {one.place: one.fault for one in items.values() if isinstance(one, Broken)}
        self._worlds.learn(self._profiles)
        self._tell_broken()

    def changed(self, before: _Kept | None, now: _Kept | None, /) -> None:
        if isinstance(before, Profile) or isinstance(now, Profile):
            was, is_now = (one if isinstance(one, Profile) else None for one in (before, now))
            self._profiles = changed(self._profiles, was, is_now)
            self._worlds.learn(self._profiles)
        if isinstance(before, Broken) or isinstance(now, Broken):
            if isinstance(before, Broken):
                del self._broken[before.place]
            if isinstance(now, Broken):
                self._broken[now.place] = now.fault
            self._tell_broken()

    def confirmed(self, at: float) -> None:
        pass

    def _tell_broken(self) -> None:
        told = [f"{place}: {fault}" for place, fault in sorted(self._broken.items())]
        self._worlds.broken(KIND, tuple(told))


def _read(item: Object, place: str) -> _Kept:
    try:
        return _lean(read_profile(item))
    except ProfileError as error:
        return Broken(place, str(error))


def _lean(profile: Profile) -> Profile:
    """The same, with one copy of texts that many share."""
    observations = tuple(_lean_observation(one) for one in profile.observations)
    return replace(profile, namespace=sys.intern(profile.namespace), observations=observations)


def _lean_observation(one: Observation) -> Observation:
    return replace(one, product=sys.intern(one.product))
