"""Mappings that share their keys: they are what the dict is that they were made from."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.fleet.shared_keys import SharedKeys

DICTS = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 2))


@given(made=DICTS, other=DICTS)
def test_they_are_the_same_mapping_as_the_dict(made: dict[str, int], other: dict[str, int]) -> None:
    shared = SharedKeys(made)
    assert list(shared.items()) == list(made.items())
    assert [(key in shared, shared.get(key), shared.get(key, 7)) for key in "abcde"] == [
        (key in made, made.get(key), made.get(key, 7)) for key in "abcde"
    ]
    assert (list(shared), len(shared), {**shared}) == (list(made), len(made), made)
    assert (shared == other, shared == SharedKeys(other)) == (made == other, made == other)
    assert (other == shared) == (other == made)


def test_the_order_of_keys_makes_no_difference() -> None:
    assert SharedKeys({"a": 1, "b": 2}) == SharedKeys({"b": 2, "a": 1})


def test_a_key_that_is_not_there_is_an_error_as_in_a_dict() -> None:
    with pytest.raises(KeyError, match="b"):
        SharedKeys({"a": 1})["b"]


def test_with_the_same_keys_one_more_takes_little_beside_its_values() -> None:
    labels = {f"example.com/label-{number}": "value" for number in range(60)}
    first, second = SharedKeys(labels), SharedKeys(dict(labels))
    theirs = set(map(id, parts(first)))
    assert sum(sys.getsizeof(one) for one in parts(second) if id(one) not in theirs) < sys.getsizeof(labels) / 2


def parts(one: SharedKeys[str]) -> list[object]:
    """The mapping and what it is made of."""
    return [one, *(getattr(one, slot) for slot in SharedKeys.__slots__)]
