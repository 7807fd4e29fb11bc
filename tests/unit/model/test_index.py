"""The indexes answer as a walk over all nodes would."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.index import LabelIndex, ThresholdIndex, bits_of, int64, positions_of

SETS = st.sets(st.integers(0, 700))


def bits(positions: Iterable[int]) -> int:
    return sum(1 << position for position in set(positions))


@given(SETS)
def test_a_bitset_gives_its_positions_back_in_order(positions: set[int]) -> None:
    assert bits_of(positions) == bits(positions)
    assert list(positions_of(bits_of(positions))) == sorted(positions)


@st.composite
def amounts(draw: st.DrawFn) -> dict[int, int]:
    """Amounts by position: few or many distinct, on few or many nodes."""
    count, distinct, seed = draw(st.integers(0, 600)), draw(st.sampled_from([1, 3, 100, 10**6])), draw(st.integers())
    chance = random.Random(seed)
    return {position: chance.randrange(distinct) for position in chance.sample(range(700), count)}


@given(amounts(), st.integers(-1, 10**6), SETS)
def test_a_threshold_index_answers_as_a_walk_over_all_nodes(
    by_position: dict[int, int], any_amount: int, those: set[int]
) -> None:
    index = ThresholdIndex((amount, position) for position, amount in by_position.items())
    assert index.present == bits(by_position)
    for amount in (any_amount, *sorted(by_position.values())[:2], *sorted(by_position.values())[-2:]):
        assert index.at_least(amount) == bits(p for p, a in by_position.items() if a >= amount)
        assert index.above(amount) == bits(p for p, a in by_position.items() if a > amount)
        assert index.below(amount) == bits(p for p, a in by_position.items() if a < amount)
        assert index.at_most(amount) == bits(p for p, a in by_position.items() if a <= amount)
    here = [by_position[position] for position in those if position in by_position]
    assert index.least(bits(those)) == min(here, default=None)
    assert index.span(bits(those)) == ((min(here), max(here)) if here else None)
    assert index.total(bits(those)) == sum(here)


@given(amounts())
def test_the_value_of_a_node_is_the_one_given(by_position: dict[int, int]) -> None:
    index = ThresholdIndex((amount, position) for position, amount in by_position.items())
    assert {position: index.value(position) for position in by_position} == by_position


def test_a_node_without_a_value_has_none() -> None:
    with pytest.raises(KeyError):
        ThresholdIndex([(5, 0)]).value(1)


VALUES = st.sampled_from(["", "5", "-5", "+7", "007", "x", "9223372036854775807", "9223372036854775808"])


@given(st.dictionaries(st.integers(0, 300), VALUES))
def test_a_label_index_answers_as_a_walk_over_all_nodes(by_position: dict[int, str]) -> None:
    index = labelled(by_position)
    assert index.present == bits(by_position)
    values = {*by_position.values()}
    assert dict(index.items()) == {value: bits(p for p, v in by_position.items() if v == value) for value in values}
    for value in (*values, "not there"):
        assert index.equal(value) == bits(p for p, v in by_position.items() if v == value)
    numbers = {p: number for p, v in by_position.items() if (number := int64(v)) is not None}
    for bound in (-6, -5, 0, 5, 7, (1 << 63) - 1, -(1 << 63)):
        assert index.above(bound) == bits(p for p, number in numbers.items() if number > bound)
        assert index.below(bound) == bits(p for p, number in numbers.items() if number < bound)


@given(
    st.dictionaries(st.integers(0, 300), VALUES),
    st.dictionaries(st.integers(0, 300), st.none() | VALUES),
)
def test_a_changed_label_index_is_the_one_made_anew(before: dict[int, str], changes: dict[int, str | None]) -> None:
    after = {p: v for p, v in {**before, **changes}.items() if v is not None}
    old = labelled(before)
    gone = [(before[p], p) for p in changes if p in before]
    come = [(value, p) for p, value in changes.items() if value is not None]
    changed = old.changed(gone, come)
    assert changed == labelled(after)
    assert changed.present == bits(after)
    assert old == labelled(before)


@given(amounts(), st.dictionaries(st.integers(0, 700), st.none() | st.integers(0, 10**7)))
def test_a_changed_threshold_index_is_the_one_made_anew(before: dict[int, int], changes: dict[int, int | None]) -> None:
    after = {p: a for p, a in {**before, **changes}.items() if a is not None}
    old = ThresholdIndex((amount, position) for position, amount in before.items())
    assert old.changed(changes) == ThresholdIndex((amount, position) for position, amount in after.items())
    assert old == ThresholdIndex((amount, position) for position, amount in before.items())


def labelled(by_position: dict[int, str]) -> LabelIndex:
    positions_by_value: dict[str, list[int]] = {}
    for position, value in by_position.items():
        positions_by_value.setdefault(value, []).append(position)
    return LabelIndex(positions_by_value)


def test_indexes_are_equal_by_what_they_hold() -> None:
    assert LabelIndex({"a": [0, 1], "b": [2]}) == LabelIndex({"b": 2, "a": (1, 0)})
    assert LabelIndex({"a": [0]}) != LabelIndex({"a": [1]})
    assert ThresholdIndex([(1, 0), (2, 1)]) == ThresholdIndex(iter([(1, 0), (2, 1)]))
    assert ThresholdIndex([(1, 0)]) != ThresholdIndex([(1, 0), (1, 1)])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-12", -12),
        ("+12", 12),
        ("0" * 40 + "7", 7),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("9223372036854775808", None),
        ("", None),
        ("+", None),
        ("+-5", None),
        ("1_000", None),
        (" 5", None),
        ("5\n", None),
        ("５", None),
        ("0x10", None),
        ("1e3", None),
        ("1.0", None),
        ("9" * 100_000, None),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert int64(text) == number
