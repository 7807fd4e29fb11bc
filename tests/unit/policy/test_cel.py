"""Conditions in CEL: what they can say, what they may not cost, and what is said of one that is no good."""

import time
from typing import Any

import pytest

from webhook.policy.cel import LONGEST, CelError, Conditions, check

JOB: dict[str, Any] = {
    "metadata": {"name": "ddp", "labels": {"app": "train"}},
    "spec": {"list": [{"name": "a", "tags": ["x", "y"]}, {"name": "b", "tags": []}], "n": 3},
}


def holds(expression: str, obj: Any = JOB, **others: object) -> bool:  # noqa: ANN401 - JSON
    return Conditions({"object": obj, "job": {"devices": 16}, **others}).hold(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("object.metadata.?labels['app'].orValue('') != 'notebook'", True),
        ("object.metadata.?annotations['app'].orValue('none') == 'none'", True),
        ("job.devices > 8 && object.spec.n == 3", True),
        ("oldObject == null", True),
        ("object.spec.list.exists(one, one.name == 'b')", True),
        ("object.spec.list.all(one, one.tags.all(tag, tag != 'y'))", False),
        ("object.spec.list.exists(one, one.name in ['b', \"object\"] && job.devices == 16)", True),
        ("object.spec.list.exists(one, one.?tags.optMap(tags, tags.exists(t, t == 'y')).orValue(false))", True),
        ("object.spec.list.exists(one, one.object == 1 || one.name == 'a') // object", True),
        ("has(job.batch)", False),
        ("object.metadata.name.matches('^d+p$')", True),
    ],
)
def test_a_condition_is_true_or_false(expression: str, expected: bool) -> None:
    assert holds(expression) is expected


@pytest.mark.parametrize(
    ("expression", "line", "column", "problem"),
    [
        ("object.", 1, 8, "Syntax error"),
        ("true &&\n  nobody == 1", 2, 3, "undeclared reference to 'nobody'"),
        ("1 < 'a'", 1, 3, "no matching overload"),
        ("'a'", 0, 0, "is a string, not a bool"),
        ("1 + 1 == 2", 1, 3, "there is no +"),
        ("object.spec.list.filter(x, true).size() > 1", 1, 25, "undeclared reference"),
        ("object.spec.list.all(x, x == object)", 1, 30, "a loop may name only its own variable"),
        ("object.spec.list.all(x, .object == x)", 1, 26, "not object"),
        ("object.spec.list.all(x, x.tags.all(y, y == x.name))", 1, 44, "not x"),
        ("object.spec.list.all(x, [x, x].all(y, y != 1))", 1, 26, "not x"),
        ("object.?spec.optMap(s, s.list.all(x, s.list != x)).orValue(true)", 1, 38, "not s"),
        ("object.spec.list.all(x, {'a': x} != {})", 1, 31, "not x"),
        ("true" + " || true" * LONGEST, 0, 0, "longer than"),
        ("(" * 200 + "true" + ")" * 200, 0, 0, "recursion limit"),
        ("'\ud800' == ''", 0, 0, "surrogates"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(expression: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(CelError) as fault:
        check(expression)
    assert problem in fault.value.problem
    assert (fault.value.line, fault.value.column) == (line, column)
    assert not line or f"line {line}, column {column}" in str(fault.value)
    with pytest.raises(CelError):
        holds(expression)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("object.metadata.labels['nobody'] == 'x'", 'Key not found in map : "nobody"'),
        ("object.metadata.name > 1", "No matching overloads"),
        ("object.spec.n", "is a int, not a bool"),
        ("object.spec.n / 0 == 1", "divide by zero"),
        ("object.spec.list[7] == 1", "Index error"),
    ],
)
def test_a_condition_without_an_answer_says_which_and_why(expression: str, problem: str) -> None:
    with pytest.raises(CelError) as fault:
        holds(expression)
    assert problem in fault.value.problem
    assert expression in str(fault.value)


def deep(levels: int) -> dict[str, Any]:
    obj: dict[str, Any] = {}
    for _ in range(levels):
        obj = {"a": obj}
    return obj


@pytest.mark.parametrize("obj", [deep(50_000), {"a": "\ud800"}, {"a": 10**30}, {"a": {1: 2}}, {"a": object()}])
def test_an_object_that_cel_cannot_hold_is_an_error_and_no_crash(obj: Any) -> None:  # noqa: ANN401
    with pytest.raises(CelError, match="not plain JSON"):
        holds("object == object", obj)


def test_what_is_not_looked_at_is_not_converted() -> None:
    conditions = Conditions({"object": {"a": float("nan"), "b": [{}] * 10}, "job": {"devices": 2}})
    assert conditions.hold("job.devices == 2")


def test_the_most_that_a_loop_may_do_takes_about_as_long_for_each_byte_of_the_object() -> None:
    """The worst allowed: a regular expression over every string, in a loop in a loop. Were it not linear, eight times
    the object would take 64 times as long."""
    expression = "object.l.all(x, x.m.all(y, !y.matches('(a|b)*c$')))"

    def seconds(rows: int) -> float:
        obj = {"l": [{"m": ["a" * 100] * 16} for _ in range(rows)]}
        taken = []
        for _ in range(5):
            conditions = Conditions({"object": obj})
            start = time.perf_counter()
            assert conditions.hold(expression)
            taken.append(time.perf_counter() - start)
        return min(taken)

    seconds(64)
    assert seconds(512) < 24 * seconds(64)


def test_a_loop_of_too_many_rounds_ends_in_an_error() -> None:
    with pytest.raises(CelError, match="budget"):
        holds("object.all(x, x >= 0)", [1] * 20_000)
