"""That a soak run cannot pass what it should not."""

from dataclasses import replace

import pytest

from tests.soak.judged import Outcome, Run, Sample, Shape, Verdict, Want, Window

KILLED = Window("killed", 100, 102)
AWAY = Window("API server away", 150, 155, of_the_server=True)
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("closed", Want.PINNED, {"old": "A", "new": "B"}),
        Shape("open", Want.PINNED, {"old": "A", "new": "B"}, closed=False),
        Shape("too large", Want.DENIED, told="SST301"),
        Shape("too large, open", Want.DENIED, told="SST301", closed=False),
        Shape("no devices", Want.UNTOUCHED),
    )
}
RIGHT = (
    Outcome("closed", 10, 0.1, 201, "A"),
    Outcome("open", 10, 0.1, 201, "A"),
    Outcome("too large", 10, 0.1, 403, said="denied: SST301"),
    Outcome("too large, open", 10, 0.1, 403, said="denied: SST301"),
    Outcome("no devices", 10, 0.1, 201),
)
FLAT = tuple(Sample("one", at, 100.0) for at in range(300))
RUN = Run(0, 300, RIGHT, (KILLED, AWAY), SHAPES, ((0, "old"), (200, "new")), FLAT)


def of(*more: Outcome) -> Run:
    return replace(RUN, outcomes=(*RIGHT, *more))


def broken(run: Run) -> list[str]:
    return [line.what for line in run.lines(("killed", "API server away")) if not line.holds]


def test_a_run_without_fault_holds() -> None:
    assert broken(RUN) == []


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (Outcome("closed", 10, 0.1, 201, "B"), Verdict.WRONG),
        (Outcome("closed", 10, 0.1, 201), Verdict.WRONG),
        (Outcome("closed", 10, 0.1, 500), Verdict.FAILED),
        (Outcome("closed", 10, 0.1, 0), Verdict.FAILED),
        (Outcome("open", 10, 0.1, 201), Verdict.FAILED),
        (Outcome("open", 10, 0.1, 201, "B"), Verdict.WRONG),
        (Outcome("too large", 10, 0.1, 201, "A"), Verdict.WRONG),
        (Outcome("too large", 10, 0.1, 403, said="not ready"), Verdict.FAILED),
        (Outcome("too large, open", 10, 0.1, 201), Verdict.FAILED),
        (Outcome("no devices", 10, 0.1, 201, "A"), Verdict.WRONG),
        (Outcome("closed", 10, 0, -1), Verdict.UNSENT),
        # The policy is replaced at 200.
        (Outcome("closed", 198, 1.0, 201, "B"), Verdict.WRONG),
        (Outcome("closed", 198, 2.5, 201, "B"), Verdict.RIGHT),
        (Outcome("closed", 204, 0.1, 201, "A"), Verdict.RIGHT),
        (Outcome("closed", 206, 0.1, 201, "A"), Verdict.WRONG),
    ],
)
def test_each_answer_is_judged_by_what_it_may_be_at_that_moment(one: Outcome, verdict: Verdict) -> None:
    assert of(one).verdict(one) is verdict


def test_a_failure_is_excused_only_by_what_was_wrong_then() -> None:
    late = "failures only while something is wrong, and 5 s"
    assert broken(of(Outcome("closed", 99, 0.5, 500))) == [late]
    assert broken(of(Outcome("closed", 99, 1.5, 500))) == []
    assert broken(of(Outcome("closed", 107, 0.1, 500))) == []
    assert broken(of(Outcome("closed", 107.1, 0.1, 500))) == [late]
    assert broken(of(Outcome("no devices", 101, 0.1, 500))) == [late]
    assert broken(of(Outcome("no devices", 151, 0.1, 500))) == []


def test_a_wrong_answer_is_never_excused() -> None:
    assert broken(of(Outcome("closed", 101, 0.1, 201, "B"))) == ["no wrong answer"]
    assert broken(of(Outcome("too large", 151, 0.1, 201))) == ["no wrong answer"]


def test_nothing_may_wait_for_us_longer_than_we_are_allowed_to_take() -> None:
    assert broken(of(Outcome("open", 101, 6.1, 201, "A"))) == ["nothing waits longer than both webhooks may take"]
    assert broken(of(Outcome("open", 151, 6.1, 201, "A"))) == []


def test_what_was_not_tried_proves_nothing() -> None:
    assert broken(replace(RUN, windows=(KILLED,))) == ["every fault took place"]
    assert broken(replace(RUN, outcomes=RIGHT[1:])) == ["every sort of create was answered right"]
    assert broken(of(Outcome("closed", 11, 0, -1))) == ["the load was there when nothing was wrong"]
    assert broken(replace(RUN, memory=FLAT[:200])) == ["one: memory of the last minute within 5 % of the second"]


@pytest.mark.parametrize(("last", "holds"), [(105.0, True), (105.1, False), (94.9, False)])
def test_memory_has_to_be_what_it_was(last: float, holds: bool) -> None:
    memory = [one if one.at < 240 else replace(one, resident_mib=last) for one in FLAT]
    assert (broken(replace(RUN, memory=memory)) == []) is holds
