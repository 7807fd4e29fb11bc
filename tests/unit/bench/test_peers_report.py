"""That the page says what was measured: ratios, goals, pooled latencies, and what does not count."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.bench.engines import GATEKEEPER, KYVERNO, KYVERNO_TYPED, NONE, NULL, NULL_LIKE, OURS
from tests.bench.peers_report import Goal, Ratio, bars, goals, page, tables
from tests.bench.record import BESIDES, CHANGES, CHECKS, Record, Turn, load, quantile

ROUNDS = 3
MS = 1e-3
ADDED_MS = {NONE: 0, NULL: 1.25, NULL_LIKE: 3, GATEKEEPER: 10, KYVERNO: 20, OURS: 2.5}


def turn(
    engine: str,
    number: int,
    took_ms: Sequence[float],
    *,
    calls: str = CHANGES,
    size: str = "6 KiB",
    workers: int = 1,
    seconds: float = 1,
    cpu_s: float = 0,
) -> Turn:
    return Turn(engine, calls, size, workers, number, [MS * one for one in took_ms], seconds, cpu_s, cpu_s)


def of(*turns: Turn) -> Record:
    return Record(engines=list(dict.fromkeys(one.engine for one in turns)), turns=list(turns))


def record(*more: Turn) -> Record:
    """Rounds in which a create takes 1, 2 or 3 ms without a webhook, and what each engine adds on top."""
    turns = [
        turn(name, number, [1 + number + added] * 50) for name, added in ADDED_MS.items() for number in range(ROUNDS)
    ]
    found = of(*turns, *more)
    found.resident_mib = {NULL: 10, GATEKEEPER: 140, KYVERNO: 300, OURS: 70}
    found.ready_s = {KYVERNO: 6, OURS: 2}
    return found


def goal(record: Record, what: str) -> Goal:
    [found] = [one for one in goals(record) if one.what == what]
    return found


@pytest.mark.parametrize(
    ("what", "value", "met"),
    [
        ("added median latency ÷ Gatekeeper's", 0.25, True),
        ("added median latency ÷ Kyverno's, ClusterPolicy", 0.125, True),
        ("added median latency ÷ null webhook's", 2, False),
        ("p99 ÷ null webhook's", 5.5 / 4.25, True),
        ("resident memory ÷ the smaller peer's", 0.5, True),
        ("time to ready ÷ Kyverno's", 1 / 3, True),
    ],
)
def test_goals_are_ratios_of_what_was_found(what: str, value: float, met: bool) -> None:
    found = goal(record(), what)
    assert found.found is not None
    assert found.found.value == pytest.approx(value)
    assert found.met is met


def test_a_goal_that_was_not_measured_is_not_met() -> None:
    found = goal(record(), "added median latency ÷ Kyverno's, MutatingPolicy")
    assert (found.found, found.met) == (None, False)
    assert "| not measured |" in tables(record())


def test_more_creates_a_second_are_better() -> None:
    rates = [turn(name, 0, [1] * count, workers=32) for name, count in ((OURS, 40), (GATEKEEPER, 20))]
    found = goal(record(*rates), "creates a second, 32 at a time ÷ Gatekeeper's")
    assert found.found == Ratio(2, 2, 2)
    assert found.met


def test_a_ratio_is_of_medians_over_the_rounds_and_tells_its_range() -> None:
    one = of(*(turn(NONE, number, [1 + number] * 3) for number in range(3)))
    for number, (ours, theirs) in enumerate(((1, 10), (2, 4), (9, 30))):
        one.turns += [turn(OURS, number, [1 + number + ours]), turn(GATEKEEPER, number, [1 + number + theirs])]
    found = goal(one, "added median latency ÷ Gatekeeper's").found
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2 / 10, 1 / 10, 2 / 4))


def test_only_rounds_in_which_both_took_a_turn_that_counts_are_compared() -> None:
    whole = record()
    before = goal(whole, "added median latency ÷ Gatekeeper's").found
    lone = turn(OURS, ROUNDS, [1_000] * 50), turn(NONE, ROUNDS, [1] * 50)
    void = Turn(GATEKEEPER, CHANGES, "6 KiB", 1, ROUNDS, void="came back without a model")
    assert goal(record(*lone, void), "added median latency ÷ Gatekeeper's").found == before


def test_an_engine_with_rounds_of_its_own_is_compared_in_those() -> None:
    own = [turn(NONE, 9, [1] * 50), turn(OURS, 9, [2] * 50), turn(KYVERNO_TYPED, 9, [11] * 50)]
    found = goal(record(*own), "added median latency ÷ Kyverno's, MutatingPolicy").found
    assert found is not None
    assert found.value == pytest.approx(0.1)


def test_a_tail_is_of_the_creates_of_all_rounds_together() -> None:
    calm, rough = turn(OURS, 0, [1] * 90), turn(OURS, 1, [1] * 5 + [100] * 5)
    assert quantile((calm, rough), 50) == pytest.approx(1 * MS)
    assert quantile((calm, rough), 99) == pytest.approx(100 * MS)


def test_fewer_than_a_hundred_creates_have_no_tail() -> None:
    assert quantile([turn(OURS, 0, [1] * 99)], 95) is None
    few = of(turn(NONE, 0, [1] * 10), turn(OURS, 0, [3] * 10))
    assert "| samestep | 3.00 | 2.00 | – | – | 10 | 10 |" in tables(few)


def test_a_table_has_what_is_added_and_how_many_were_measured() -> None:
    assert "| samestep | 4.50 | 2.50 | 2.50 | 2.50 | 50 | 150 |" in tables(record())


def test_cpu_seconds_are_for_a_thousand_creates() -> None:
    used = turn(NULL, 7, [1] * 99, cpu_s=0.3), turn(NULL, 7, [1] * 49, calls=CHECKS, cpu_s=0.3)
    alone = of(turn(NONE, 7, [1]), *used)
    alone.resident_mib, alone.resting_cores = {NULL: 10}, {NULL: 0}
    assert "| null webhook | 10.00 | – | – | 0.00 | 3.00 | 6.00 | 3.00 | 6.00 |" in tables(alone)


def test_what_is_none_of_its_business_is_a_ratio_with_its_spread() -> None:
    turns = [
        turn(name, number, [took], calls=BESIDES, size="CPU pod")
        for number, (none, ours) in enumerate(((4, 4), (4, 5), (5, 6)))
        for name, took in ((NONE, none), (OURS, ours))
    ]
    text = tables(record(*turns)).partition("## What is none of its business")[2]
    assert "| CPU pod | samestep | 5.00 | 1.25 | 1.00 to 1.25 | 0.00 |" in text


def test_void_turns_are_told_with_what_came_back() -> None:
    void = Turn(KYVERNO, CHECKS, "100 KiB", 32, 0, void="context deadline exceeded")
    text = page(record(void))
    assert (
        "| Kyverno ClusterPolicy | changes and checks | 100 KiB, 32 at a time | 1 | `context deadline exceeded` |"
        in text
    )
    assert "Void turns" not in page(record())


def test_the_longest_bar_is_the_slowest_engine() -> None:
    found = bars(record())
    assert [line.split("█")[0].strip() for line in found][:2] == [KYVERNO, GATEKEEPER]
    assert found[0].endswith("20.00 ms")
    assert len({line.index("█") for line in found}) == 1


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "peers.json"
    file.write_text(json.dumps(asdict(record())))
    assert load(file) == record()
