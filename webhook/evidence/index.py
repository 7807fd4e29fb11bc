"""Profiles, to be looked up by recipe and by family, as one of them changes and as they grow old."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from webhook.model.profile import KEPT_S, Profile, Profiles
from webhook.model.shards import Shards

_Key: TypeAlias = tuple[str, str]
_Index: TypeAlias = Mapping[_Key, Sequence[Profile]]


def index_of(profiles: Iterable[Profile]) -> Profiles:
    """All of these; of two with one name in one namespace the last."""
    by_digest: dict[_Key, tuple[Profile, ...]] = {}
    by_family: dict[_Key, tuple[Profile, ...]] = {}
    for one in {(one.namespace, one.name): one for one in profiles}.values():
        _add(by_digest, _digest(one), one)
        _add(by_family, _family(one), one)
    return Profiles(Shards(_in_order(by_digest)), Shards(_in_order(by_family)))


def changed(profiles: Profiles, before: Profile | None, now: Profile | None) -> Profiles:
    """What `index_of` made, where `before` (None: it was not there) has become `now` (None: it is gone). Costs the same
    however many there are."""
    return Profiles(
        _changed(profiles.by_digest, _digest, before, now), _changed(profiles.by_family, _family, before, now)
    )


def not_expired(profile: Profile, now: float) -> Profile | None:
    """The profile without what was seen too long ago; None where nothing is left. `now` is in seconds since the
    epoch."""
    kept = tuple(one for one in profile.observations if one.seen_at > now - KEPT_S)
    if len(kept) == len(profile.observations):
        return profile if kept else None
    return replace(profile, observations=kept) if kept else None


def _digest(one: Profile) -> _Key:
    return one.namespace, one.recipe.digest


def _family(one: Profile) -> _Key:
    return one.namespace, one.recipe.family


def living(profiles: Iterable[Profile], now: float, most: int | None = None) -> tuple[Profile, ...]:
    """These without what was seen too long ago, the first `most` of what is left. What is in memory, or came of a file,
    grows old without a change of the object, so whoever looks profiles up asks for this."""
    return tuple(islice((left for one in profiles if (left := not_expired(one, now)) is not None), most))


def _add(index: dict[_Key, tuple[Profile, ...]], key: _Key, one: Profile) -> None:
    there = index.get(key)
    index[key] = (one,) if there is None else (*there, one)


def _changed(
    index: _Index,
    key_of: Callable[[Profile], _Key],
    before: Profile | None,
    now: Profile | None,
) -> Shards[_Key, Sequence[Profile]]:
    changes: dict[_Key, tuple[Profile, ...]] = {}
    if before is not None:
        key = key_of(before)
        changes[key] = tuple(one for one in index.get(key, ()) if one.name != before.name)
    if now is not None:
        key = key_of(now)
        changes.setdefault(key, tuple(index.get(key, ())))
        _add(changes, key, now)
    shards = index if isinstance(index, Shards) else Shards(index.items())
    return shards.changed((key, value or None) for key, value in _in_order(changes))


def _in_order(found: Mapping[_Key, tuple[Profile, ...]]) -> Iterator[tuple[_Key, Sequence[Profile]]]:
    """The order in which they came makes no difference."""
    for key, several in found.items():
        yield key, several if len(several) < 2 else tuple(sorted(several, key=_name))


def _name(one: Profile) -> str:
    return one.name
