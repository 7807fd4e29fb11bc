"""The formulas against PyTorch itself: `make test-sizing-torch`. Without PyTorch this module is skipped; the figures it
measures are checked in, and tests/sizing holds the formulas against those."""

import json

import pytest

pytest.importorskip("torch")

from tests.sizing_torch.cases import CASES, SPECS, Case, state_bytes
from tests.sizing_torch.measure import FIGURES, figures, saved
from tests.sizing_torch.measure import state_bytes as measured_states
from webhook.sizing.training import Precision


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_block_saves_is_within_a_tenth(case: Case) -> None:
    assert case.saved_bytes == pytest.approx(saved(case), rel=0.1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_under_recompute_a_block_saves_its_input_and_no_more(case: Case) -> None:
    assert case.input_bytes == saved(case, recompute=True)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.PURE])
@pytest.mark.parametrize("model", SPECS)
def test_parameters_gradients_and_optimizer_states_are_exact(model: str, precision: Precision) -> None:
    assert state_bytes(model, precision) == measured_states(model, precision)


def test_the_figures_that_are_checked_in_are_those_of_today() -> None:
    assert json.loads(FIGURES.read_text("utf-8")) == figures()
