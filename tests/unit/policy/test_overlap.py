"""What selectors have in common, against trying labels out."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from webhook.model.placement import Operator, Requirement
from webhook.model.policy import LabelSelector
from webhook.policy.matching import selects
from webhook.policy.overlap import never_meet, selects_all_of, selects_nothing

# Every value that requirements below name, one that none does, and none at all.
VALUES = ("a", "b", "c", "unheard-of", None)
EVERY = [{key: value for key, value in (("x", x), ("y", y)) if value is not None} for x, y in product(VALUES, repeat=2)]

_VALUED = st.builds(
    Requirement,
    st.sampled_from("xy"),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(st.sampled_from("abc"), max_size=3).map(tuple),
)
_BARE = st.builds(Requirement, st.sampled_from("xy"), st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]))
SELECTORS = st.lists(_VALUED | _BARE, max_size=4).map(tuple)


def selected(selector: LabelSelector) -> list[dict[str, str]]:
    return [labels for labels in EVERY if selects(selector, labels)]


@given(SELECTORS)
def test_a_selector_selects_nothing_where_no_labels_meet_it(selector: LabelSelector) -> None:
    assert selects_nothing(selector) == (not selected(selector))


@given(SELECTORS, SELECTORS)
def test_two_selectors_never_meet_where_no_labels_meet_both(one: LabelSelector, other: LabelSelector) -> None:
    assert never_meet(one, other) == (not any(labels in selected(other) for labels in selected(one)))


@given(SELECTORS, SELECTORS)
def test_one_selects_all_of_another_where_every_labels_of_it_meet_it(one: LabelSelector, other: LabelSelector) -> None:
    assert selects_all_of(one, other) == all(labels in selected(one) for labels in selected(other))
