"""Profiles by recipe and family, as they come, change and go."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from webhook.evidence.index import changed, index_of, living, not_expired
from webhook.model.profile import KEPT_S, NO_PROFILES, Observation, Profile, Profiles, Recipe

NOW = 1_800_000_000.0
PROFILES = st.builds(
    lambda namespace, name, digest, family, batch: Profile(namespace, name, Recipe(digest, family, batch)),
    st.sampled_from("ab"),
    st.sampled_from("nmo"),
    st.sampled_from(("d1", "d2")),
    st.sampled_from(("f1", "f2")),
    st.integers(1, 3),
)


def contents(profiles: Profiles) -> tuple[dict[tuple[str, str], Sequence[Profile]], ...]:
    return dict(profiles.by_digest), dict(profiles.by_family)


@given(st.lists(st.tuples(PROFILES, st.booleans()), max_size=40))
def test_change_by_change_it_is_as_if_made_anew(steps: list[tuple[Profile, bool]]) -> None:
    there: dict[tuple[str, str], Profile] = {}
    index = NO_PROFILES
    for profile, gone in steps:
        key = (profile.namespace, profile.name)
        before, now = there.get(key), None if gone else profile
        snapshot, earlier = contents(index), index
        index = changed(index, before, now)
        assert contents(earlier) == snapshot
        if now is None:
            there.pop(key, None)
        else:
            there[key] = now
        assert contents(index) == contents(index_of(there.values()))
    assert bool(index) == bool(there)


def test_neighbours_are_found_in_their_own_namespace_alone() -> None:
    one, other = (Profile("a", f"recipe-{batch}", Recipe(f"d{batch}", "f", batch)) for batch in (8, 16))
    elsewhere = Profile("b", "recipe-8", Recipe("d8", "f", 8))
    index = index_of([other, elsewhere, one])
    assert index.by_family["a", "f"] == (other, one) == tuple(sorted((one, other), key=lambda each: each.name))
    assert index.by_digest["b", "d8"] == (elsewhere,)
    assert ("b", "d16") not in index.by_digest


def test_what_was_seen_too_long_ago_no_longer_counts() -> None:
    old, new = (Observation(name, 1000, seen_at=NOW - age) for name, age in (("a", KEPT_S), ("b", KEPT_S - 1)))
    profile = Profile("a", "p", Recipe("d", "f"), (old, new))
    left = not_expired(profile, NOW)
    assert left is not None
    assert left.observations == (new,)
    assert not_expired(left, NOW) is left
    assert not_expired(profile, NOW + 1) is None
    assert living((profile, left), NOW) == (left, left)
    assert living((profile, left), NOW + 1) == ()
