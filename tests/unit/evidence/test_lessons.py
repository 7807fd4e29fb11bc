"""Each rule of what runs teach, and where it ends."""

from dataclasses import replace

import pytest

from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000, Card
from tests.profiles import DAY_S, NOW, known, large, profile, seen, small
from webhook.catalog.accelerators import accelerators
from webhook.evidence.lessons import lessons_of
from webhook.model.demand import DemandSource
from webhook.model.profile import KEPT_S, NO_LESSONS, Allocator, Lessons, Observation, OutOfMemory, Profile, Recipe

SMALL, LARGE, A100 = (accelerators().canonical(one.product) for one in (RTX_5090, RTX_PRO_6000, A100_80GB))
MINE = Recipe("mine", "family", 32, Allocator.CACHING)
CARD_GIB = RTX_5090.memory_mib / 1024


def lessons(*observations: Observation, allocator: Allocator = Allocator.CACHING) -> Lessons:
    recipe = Recipe("mine", "family", None, allocator)
    return lessons_of(recipe, known(profile(recipe, *observations)), "team-a", NOW)


def neighbour(batch: int, *observations: Observation, allocator: Allocator = Allocator.CACHING) -> Profile:
    return profile(Recipe(f"batch-{batch}", "family", batch, allocator), *observations, name=f"batch-{batch}")


def beside(*profiles: Profile, batch: int = 32) -> Lessons:
    recipe = Recipe("mine", "family", batch, Allocator.CACHING)
    return lessons_of(recipe, known(*profiles), "team-a", NOW)


def test_nothing_is_taught_where_nothing_was_seen() -> None:
    assert lessons_of(MINE, known(), "team-a", NOW) == NO_LESSONS
    assert lessons_of(MINE, known(profile(MINE, small(good=1))), "team-b", NOW) == NO_LESSONS
    assert lessons_of(MINE, known(profile(Recipe("other", "other"), small(good=1))), "team-a", NOW) == NO_LESSONS


def test_a_run_that_ended_well_on_a_model_fits_there() -> None:
    found = lessons(small(runs=3, good=2), large())
    assert (found.fits[SMALL].runs, found.fits[SMALL].at, found.fits[SMALL].profile) == (3, NOW - 2 * DAY_S, "ddp-1f0a")
    assert (list(found.fits), found.out, found.demand) == ([SMALL], {}, None)


@pytest.mark.parametrize(
    ("seen_there", "expected"),
    [
        ({"out": 1}, "out"),
        ({"out": 30}, "out"),
        ({"out": 30.01}, "nothing"),
        ({"out": -0.001}, "out"),
        ({"out": -1}, "nothing"),
        ({"out": 1, "good": 2}, "fits"),
        ({"out": 1, "good": 2, "times": 2}, "out"),
        ({"out": 1, "good": 1, "times": 2}, "fits"),
        ({"out": 2, "good": 1, "times": 9}, "fits"),
        ({"out": 31, "good": 40, "times": 2}, "fits"),
        ({"out": 1, "good": 400, "times": 2}, "out"),
        ({"good": 400}, "fits"),
        ({"good": -1}, "nothing"),
    ],
)
def test_devices_that_ran_out_put_the_model_out_while_no_run_ended_well_since(
    seen_there: dict[str, float], expected: str
) -> None:
    """For 30 days; twice in a row where one ever did; a clock that is minutes ahead is forgiven, days are not."""
    found = lessons(small(**seen_there))
    assert ("out" if SMALL in found.out else "fits" if SMALL in found.fits else "nothing") == expected
    assert LARGE not in {**found.out, **found.fits}


def test_what_was_seen_last_ninety_days_ago_counts_for_nothing() -> None:
    old = replace(small(runs=3, good=91), seen_at=NOW - KEPT_S)
    assert lessons(old) == NO_LESSONS
    assert beside(neighbour(8, old), neighbour(64, old)) == NO_LESSONS
    assert SMALL in lessons(replace(old, seen_at=NOW - KEPT_S + 1)).fits


def test_running_out_once_since_a_run_ended_well_is_told_as_a_doubt() -> None:
    since = lessons(small(out=1, good=2)).fits[SMALL].since
    assert since is not None
    assert (since.at, since.job) == (NOW - DAY_S, "ddp-7")
    assert lessons(small(out=2, good=1)).fits[SMALL].since is None


def test_models_are_the_same_in_all_spellings() -> None:
    spelled = Observation(RTX_5090.product.removeprefix("NVIDIA-").replace("-", " "), 32_607, 1, NOW, seen_at=NOW)
    assert SMALL in lessons(spelled).fits


def test_a_peak_is_a_high_end_and_nothing_else() -> None:
    demand = lessons(large(runs=1, peak_gib=40)).demand
    assert demand is not None
    assert (demand.low_mib, demand.likely_mib, demand.high_mib) == (None, None, 40 * 1024)
    assert (demand.source, demand.may_deny) == (DemandSource.OBSERVED, False)


def test_of_several_peaks_the_least_is_the_high_end() -> None:
    """A run ended well with it: what a larger card's allocator kept beside was not needed."""
    demand = lessons(large(runs=1, peak_gib=40), small(runs=1, peak_gib=20)).demand
    assert demand is not None
    assert (demand.likely_mib, demand.high_mib) == (None, 20 * 1024)


@pytest.mark.parametrize(
    ("allocator", "part", "counts"),
    [
        (Allocator.CACHING, 0.95, True),
        (Allocator.CACHING, 1.01, True),
        (Allocator.CACHING, 1.05, False),
        (Allocator.PREALLOCATING, 0.69, True),
        (Allocator.PREALLOCATING, 0.7001, False),
        (Allocator.PREALLOCATING, 0.75, False),
        (Allocator.UNKNOWN, 0.69, True),
        (Allocator.UNKNOWN, 0.7001, False),
    ],
)
def test_a_peak_that_the_card_made_says_nothing_but_that_it_fits(
    allocator: Allocator, part: float, counts: bool
) -> None:
    """Where an allocator takes its share of the card, or may; and what is more than the card has is in another unit."""
    found = lessons(small(runs=1, peak_gib=part * CARD_GIB), allocator=allocator)
    assert (found.demand is not None) is counts
    assert SMALL in found.fits


def test_a_peak_of_a_run_that_has_not_ended_well_is_no_bound_yet() -> None:
    assert lessons(small(peak_gib=10)).demand is None


@pytest.mark.parametrize(
    ("card", "peaks_gib", "likely"),
    [
        (RTX_PRO_6000, (18.0, 20.0), True),
        (RTX_PRO_6000, (17.9, 20.0), False),
        (RTX_PRO_6000, (20.0, 18.0), True),
        (Card("NVIDIA-Other", RTX_5090.memory_mib, "other", (9, 0)), (19.0, 20.0), False),
        (Card("NVIDIA-Other", round(RTX_5090.memory_mib * 1.02), "other", (9, 0)), (19.0, 20.0), False),
        (Card("NVIDIA-Other", round(RTX_5090.memory_mib * 1.03), "other", (9, 0)), (19.0, 20.0), True),
    ],
)
def test_two_sizes_of_card_that_agree_within_a_tenth_give_a_likely_figure(
    card: Card, peaks_gib: tuple[float, float], likely: bool
) -> None:
    first, second = peaks_gib
    demand = lessons(small(runs=1, peak_gib=first), seen(card, runs=1, peak_gib=second)).demand
    assert demand is not None
    assert demand.low_mib is None
    assert (demand.likely_mib is not None) is likely
    assert demand.high_mib == (max(peaks_gib) if likely else min(peaks_gib)) * 1024
    assert demand.likely_mib == (min(peaks_gib) * 1024 if likely else None)


def test_a_line_through_two_batches_gives_a_fixed_part_and_a_slope() -> None:
    found = beside(neighbour(8, large(runs=1, peak_gib=10)), neighbour(16, large(runs=1, peak_gib=14)))
    demand = found.demand
    assert demand is not None
    assert demand.likely_mib == pytest.approx(22 * 1024)
    assert demand.low_mib is not None
    assert demand.high_mib is not None
    assert 17 * 1024 < demand.low_mib < 21 * 1024
    assert 23 * 1024 < demand.high_mib < 27 * 1024
    assert (demand.source, demand.may_deny) == (DemandSource.OBSERVED, False)
    assert (found.batches, sorted(found.demand_from)) == ((8, 16), ["batch-16", "batch-8"])


def test_the_further_from_what_was_seen_the_less_certain() -> None:
    runs = (neighbour(8, large(runs=1, peak_gib=10)), neighbour(16, large(runs=1, peak_gib=14)))
    widths = []
    for batch in (12, 20, 32, 64):
        demand = beside(*runs, batch=batch).demand
        assert demand is not None
        assert demand.low_mib is not None
        assert demand.high_mib is not None
        widths.append(demand.high_mib - demand.low_mib)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1] / 3


def test_more_batches_that_lie_on_the_line_make_it_more_certain() -> None:
    two = [neighbour(batch, large(runs=1, peak_gib=6 + batch / 2)) for batch in (8, 16)]
    four = [*two, *(neighbour(batch, large(runs=1, peak_gib=6 + batch / 2)) for batch in (24, 28))]
    narrow, wide = beside(*four).demand, beside(*two).demand
    assert narrow is not None
    assert wide is not None
    assert narrow.likely_mib == pytest.approx(wide.likely_mib)
    assert (narrow.high_mib or 0) - (narrow.low_mib or 0) < (wide.high_mib or 0) - (wide.low_mib or 0)


def test_peaks_that_scatter_make_it_less_certain() -> None:
    scattered = [neighbour(b, large(runs=1, peak_gib=p)) for b, p in ((8, 10), (16, 16), (24, 15), (28, 22))]
    smooth = [neighbour(b, large(runs=1, peak_gib=p)) for b, p in ((8, 10), (16, 14), (24, 18), (28, 20))]
    one, other = beside(*scattered).demand, beside(*smooth).demand
    assert one is not None
    assert other is not None
    assert (one.high_mib or 0) - (one.low_mib or 0) > (other.high_mib or 0) - (other.low_mib or 0)


@pytest.mark.parametrize(
    "runs",
    [
        (neighbour(8, large(runs=1, peak_gib=10)),),
        (neighbour(8, large(runs=1, peak_gib=14)), neighbour(16, large(runs=1, peak_gib=10))),
        (neighbour(8, large(runs=1, peak_gib=10)), neighbour(16, large(runs=1, peak_gib=10))),
        (neighbour(8, large(runs=1, peak_gib=4)), neighbour(16, large(runs=1, peak_gib=40))),
        (neighbour(8, large(runs=1, peak_gib=10)), neighbour(16, small(runs=1, peak_gib=14))),
        (neighbour(8, large(peak_gib=10)), neighbour(16, large(peak_gib=14))),
        (
            neighbour(8, large(runs=1, peak_gib=70), allocator=Allocator.PREALLOCATING),
            neighbour(16, large(runs=1, peak_gib=71), allocator=Allocator.PREALLOCATING),
        ),
    ],
    ids=["one batch", "falls", "level", "starts far below nothing", "two cards", "no good run", "preallocated"],
)
def test_no_line_is_drawn_through(runs: tuple[Profile, ...]) -> None:
    assert beside(*runs).demand is None


def test_what_was_enough_for_more_samples_is_enough_for_fewer() -> None:
    runs = [neighbour(batch, large(runs=1, peak_gib=peak)) for batch, peak in ((8, 10), (16, 14), (64, 20))]
    demand = beside(*runs, batch=32).demand
    assert demand is not None
    assert demand.low_mib is not None
    assert demand.likely_mib is not None
    assert demand.high_mib is not None
    assert demand.low_mib <= demand.likely_mib <= demand.high_mib <= 20 * 1024


def test_its_own_peak_goes_before_the_line() -> None:
    runs = [neighbour(8, large(runs=1, peak_gib=10)), neighbour(16, large(runs=1, peak_gib=14))]
    demand = beside(*runs, profile(MINE, large(runs=1, peak_gib=30))).demand
    assert demand is not None
    assert (demand.likely_mib, demand.high_mib) == (None, 30 * 1024)


def test_without_a_batch_there_are_no_neighbours() -> None:
    runs = [neighbour(8, large(good=1, peak_gib=10)), neighbour(16, large(good=1, peak_gib=14))]
    assert lessons_of(Recipe("mine", "family", None), known(*runs), "team-a", NOW) == NO_LESSONS


@pytest.mark.parametrize(
    ("batch", "there", "expected"),
    [
        (16, {"out": 1}, "out"),
        (64, {"out": 1}, "nothing"),
        (16, {"good": 1}, "nothing"),
        (64, {"good": 1}, "fits"),
    ],
)
def test_a_neighbour_speaks_for_more_samples_where_it_ran_out_and_for_fewer_where_it_ended_well(
    batch: int, there: dict[str, float], expected: str
) -> None:
    found = beside(neighbour(batch, small(**there)))
    assert ("out" if SMALL in found.out else "fits" if SMALL in found.fits else "nothing") == expected
    fact = found.out.get(SMALL) or found.fits.get(SMALL)
    assert fact is None or fact.micro_batch == batch


def test_its_own_runs_go_before_its_neighbours() -> None:
    found = beside(neighbour(16, small(out=1, times=5)), profile(MINE, small(good=3)))
    assert found.fits[SMALL].micro_batch is None
    found = beside(neighbour(64, small(good=1)), profile(MINE, small(out=3)))
    assert found.out[SMALL].micro_batch is None


def test_what_ranks_waited_is_of_its_own_runs() -> None:
    found = beside(profile(MINE, small(imbalance=0), large(imbalance=0.31)), neighbour(16, large(imbalance=0.9)))
    assert found.mixed == {SMALL: 0, LARGE: 0.31}
    assert lessons(large(imbalance=1.2), small(imbalance=float("nan"))).mixed == {}


def test_a_profile_may_hold_anything() -> None:
    strange = (float("nan"), float("inf"), -1.0, 0.0, 1e300)
    for one in strange:
        for other in strange:
            observation = Observation(
                "NVIDIA-X" * 100, one, 1, other, one, other, OutOfMemory(one, "", 1 << 80), imbalance=other
            )
            for batch in (0, -1, 8, 1 << 70):
                lessons_of(MINE, known(neighbour(batch, observation), neighbour(9, observation)), "team-a", NOW)
                lessons_of(MINE, known(profile(MINE, observation)), "team-a", other)


def test_no_line_goes_through_peaks_that_no_card_has() -> None:
    strange = replace(small(good=1, peak_gib=10), memory_mib=1e300, peak_mib=1e300)
    found = beside(
        neighbour(2, strange), neighbour(16, small(good=1, peak_gib=10)), neighbour(64, small(good=1, peak_gib=20))
    )
    assert found.demand is not None
    assert found.batches == (16, 64)
