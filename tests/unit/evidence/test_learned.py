"""What one more run makes of a profile."""

from dataclasses import replace

import pytest

from tests.unit.evidence.observed import LARGE, MEMORY_MIB, SMALL, on, profile, run
from webhook.evidence.learned import MOST_MODELS, learned
from webhook.model.profile import KEPT_S, Observation, OutOfMemory, Profile
from webhook.model.run import Ending, Run


def after(*runs: Run, before: Profile | None = None) -> dict[str, Observation]:
    known = before or profile()
    for one in runs:
        known = learned(known, one)
    return {one.product: one for one in known.observations}


def test_a_run_that_ended_well_is_counted_with_its_peak() -> None:
    found = after(run(on(well=True, peak_mib=20_000), at=100))[SMALL]
    assert found == Observation(SMALL, MEMORY_MIB[SMALL], runs=1, good_at=100, peak_mib=20_000, seen_at=100)


def test_the_highest_peak_is_kept() -> None:
    runs = [run(on(well=True, peak_mib=peak), at=at) for at, peak in ((100, 20_000), (200, 25_000), (300, 10_000))]
    found = after(*runs)[SMALL]
    assert (found.peak_mib, found.runs, found.good_at) == (25_000, 3, 300)


def test_a_run_that_goes_on_gives_a_peak_and_no_more() -> None:
    found = after(run(on(peak_mib=20_000), ending=Ending.GOES_ON))[SMALL]
    assert (found.peak_mib, found.runs, found.good_at) == (20_000, 0, None)


def test_the_peak_of_a_run_that_failed_says_nothing() -> None:
    assert after(run(on(peak_mib=32_000), ending=Ending.BADLY)) == {}
    found = after(run(on(peak_mib=32_000, out_of_memory_at=90), ending=Ending.GOES_ON))[SMALL]
    assert found.peak_mib is None


@pytest.mark.parametrize(
    "told",
    [
        run(on(well=True, peak_mib=20_000)),
        run(on(out_of_memory_at=90), ending=Ending.BADLY),
        run(on(peak_mib=20_000), on(LARGE, out_of_memory_at=90), ending=Ending.GOES_ON),
    ],
)
def test_told_twice_it_is_learned_once(told: Run) -> None:
    assert after(told) == after(told, told)


def test_runs_out_of_memory_in_a_row_are_counted_by_run() -> None:
    first = run(on(out_of_memory_at=50), began_at=0, ending=Ending.BADLY)
    same_again = run(on(out_of_memory_at=70), began_at=0, ending=Ending.BADLY)
    second = run(on(out_of_memory_at=150), began_at=100, ending=Ending.BADLY, job="b")
    assert after(first, same_again)[SMALL].out_of_memory == OutOfMemory(70, "a", 1)
    assert after(first, same_again, second)[SMALL].out_of_memory == OutOfMemory(150, "b", 2)


def test_a_good_run_ends_the_row() -> None:
    bad = run(on(out_of_memory_at=50), ending=Ending.BADLY)
    good = run(on(well=True), began_at=60, at=100)
    assert after(bad, good)[SMALL].out_of_memory is None
    again = run(on(out_of_memory_at=150), began_at=110, ending=Ending.BADLY, job="b")
    found = after(bad, good, again)[SMALL]
    assert (found.out_of_memory, found.good_at) == (OutOfMemory(150, "b", 1), 100)


def test_what_ran_out_before_a_good_run_and_is_told_after_it_is_old_news() -> None:
    good = run(on(well=True), at=100)
    assert after(good, run(on(out_of_memory_at=90), at=95, ending=Ending.BADLY))[SMALL].out_of_memory is None


def test_models_are_apart() -> None:
    found = after(run(on(out_of_memory_at=50), on(LARGE, peak_mib=40_000), ending=Ending.GOES_ON))
    assert found[SMALL].out_of_memory is not None
    assert found[LARGE].out_of_memory is None


def test_the_models_of_a_profile_are_bounded() -> None:
    many = tuple(replace(on(well=True), product=f"model-{index}") for index in range(MOST_MODELS + 5))
    known = profile()
    for at, shown in enumerate(many, 1):
        known = learned(known, run(shown, at=at))
    assert len(known.observations) == MOST_MODELS
    assert min(one.seen_at for one in known.observations) == 6


def test_what_was_seen_too_long_ago_goes() -> None:
    known = profile(Observation(LARGE, MEMORY_MIB[LARGE], runs=1, good_at=100, seen_at=100))
    assert after(run(on(well=True), at=KEPT_S + 99), before=known).keys() == {SMALL, LARGE}
    assert after(run(on(well=True), at=KEPT_S + 100), before=known).keys() == {SMALL}
