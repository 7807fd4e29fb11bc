"""The constants behind estimates are intervals with a source."""

from importlib.resources import files

import pytest
from pydantic import ValidationError

from webhook.catalog.sizing import read_sizing, sizing

_TEXT = files("webhook.catalog").joinpath("sizing.yaml").read_text(encoding="utf-8")


def test_the_context_is_what_was_measured_in_public() -> None:
    context = sizing().context_mib
    assert context.ends == (274, 750, 1343)
    assert "pytorch/pytorch#86509" in context.source


def test_kinds_of_figure_say_what_they_leave_out() -> None:
    assert {name: figure.leaves_out for name, figure in sizing().figures.items()} == {
        "allocated": ("context", "fragmentation"),
        "reserved": ("context",),
        "device": (),
    }


def test_ends_must_rise() -> None:
    with pytest.raises(ValidationError, match="low, likely and high must rise"):
        read_sizing(_TEXT.replace("low: 274", "low: 5000"))


def test_a_constant_needs_a_source() -> None:
    with pytest.raises(ValidationError, match=r"gatheredLayers\.source"):
        read_sizing(_TEXT.replace("source: PyTorch FSDP (forward_prefetch", "sauce: PyTorch FSDP (forward_prefetch"))
