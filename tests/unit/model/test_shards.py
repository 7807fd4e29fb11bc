from hypothesis import given
from hypothesis import strategies as st

from webhook.model.shards import Shards

KEYS = st.one_of(st.integers(-2000, 2000), st.text("ab", max_size=3), st.tuples(st.text("ab"), st.text("ab")))


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.lists(st.tuples(KEYS, st.none() | st.integers()))))
def test_it_is_a_dictionary_whatever_is_changed_and_what_it_was_before_stays(
    known: dict[object, int], rounds: list[list[tuple[object, int | None]]]
) -> None:
    shards = Shards(known.items())
    for changes in rounds:
        before, copy = shards, dict(known)
        shards = shards.changed(changes)
        for key, value in changes:
            if value is None:
                known.pop(key, None)
            else:
                known[key] = value
        assert dict(before) == copy
        assert dict(shards) == known
        assert len(shards) == len(known)
        assert all(shards.get(key) == known.get(key) for key, _ in changes)


def test_what_did_not_change_is_shared() -> None:
    values = [object() for _ in range(5000)]
    shards = Shards(enumerate(values))
    parts = {id(part) for part in shards._parts}
    changed = shards.changed([(7, object())])
    assert len(parts & {id(part) for part in changed._parts}) == len(parts) - 1
