"""Estimates against published peaks: what issue 6 must hold, on measured-peaks.csv beside this file."""

import pytest

from tests.sizing.report import FITTED, OTHERS, PAGE, Summary, left_out_errors, page, summary
from tests.sizing.rows import Row, rows
from webhook.sizing.estimate import largest_micro_batch
from webhook.sizing.training import Training

_FITTED = rows(FITTED)
_BOTH = _FITTED + rows(OTHERS)
_RAN = [row for row in _BOTH if row.training is not None and row.measured_mib is not None]
_OUT = [row for row in _BOTH if row.training is not None and row.measured_mib is None]


@pytest.fixture(scope="module", params=[FITTED, OTHERS])
def figures(request: pytest.FixtureRequest) -> Summary:
    return summary(rows(request.param))


def test_nine_in_ten_lie_inside_their_interval(figures: Summary) -> None:
    assert figures.inside >= 0.9


def test_intervals_are_narrow(figures: Summary) -> None:
    assert figures.median_ratio <= 1.5
    assert figures.within_2_5 >= 0.95


def test_intervals_of_all_in_memory_are_narrow_too() -> None:
    ratios = sorted(row.estimate.high_mib / row.estimate.low_mib for row in _FITTED if row.training is not None)
    assert ratios[len(ratios) // 2] <= 1.5


def test_for_half_of_the_rows_the_low_end_is_six_tenths_of_the_measurement(figures: Summary) -> None:
    assert figures.low_over_0_6 >= 0.5


def test_the_likely_figure_errs_by_a_tenth_at_most(figures: Summary) -> None:
    assert figures.median_error <= 0.1


@pytest.mark.parametrize("row", _RAN, ids=lambda row: row.id)
def test_nothing_that_ran_would_have_been_denied(row: Row) -> None:
    assert row.estimate.low_mib <= row.usable_mib


@pytest.mark.parametrize("row", _OUT, ids=lambda row: row.id)
def test_what_ran_out_of_memory_was_a_risk(row: Row) -> None:
    assert row.estimate.high_mib * 1.05 > row.usable_mib
    assert largest_micro_batch(_training(row), row.usable_mib) < _training(row).micro_batch


def test_rows_without_a_batch_are_listed_and_not_counted() -> None:
    assert [row.id for row in _FITTED if row.training is None] == [
        "peft-t0-full",
        "peft-t0-LoRA",
        "peft-t0-LoRA + DeepSpeed CPU offload",
    ]


def test_no_source_carries_the_calibration_alone() -> None:
    errors = sorted(map(abs, left_out_errors(_FITTED).values()))
    assert errors[len(errors) // 2] <= 0.1


def test_the_page_is_what_the_estimates_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.sizing.report`"


def _training(row: Row) -> Training:
    assert row.training is not None
    return row.training
