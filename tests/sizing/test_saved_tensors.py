"""The formulas against what PyTorch saves, from the figures that `make test-sizing-torch` measures and checks in."""

import json
from pathlib import Path

import pytest

from tests.sizing_torch.cases import CASES, SPECS, Case, state_bytes
from webhook.sizing.training import Precision

_FIGURES = json.loads((Path(__file__).parents[1] / "sizing_torch" / "figures.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_block_saves_is_within_a_tenth(case: Case) -> None:
    assert case.saved_bytes == pytest.approx(_FIGURES["saved"][case.name], rel=0.1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_under_recompute_a_block_saves_its_input_and_no_more(case: Case) -> None:
    assert case.input_bytes == _FIGURES["recomputed"][case.name]


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.PURE])
@pytest.mark.parametrize("model", SPECS)
def test_parameters_gradients_and_optimizer_states_are_exact(model: str, precision: Precision) -> None:
    assert state_bytes(model, precision) == _FIGURES["states"][f"{model}, {precision.value}"]
