"""Vision and diffusion models: what others measured."""

import pytest

from webhook.answer.wording import phrase
from webhook.catalog.models import OtherModel, models
from webhook.sizing.measured import MeasuredRun, measured_run
from webhook.sizing.training import Precision

# Single points of the source that the catalog names (mila-iqia/milabench, config/scaling): model, precision,
# micro-batch, MiB by nvidia-smi.
POINTS = [
    ("resnet50", Precision.MIXED, 128, 7669),
    ("resnet50", Precision.MIXED, 1680, 81421),
    ("resnet152", Precision.MIXED, 56, 7115),
    ("resnet152", Precision.MIXED, 816, 80919),
    ("convnext_large", Precision.MIXED, 24, 7345),
    ("convnext_large", Precision.MIXED, 736, 143542),
    ("convnext_large", Precision.FP32, 64, 24989),
    ("convnext_large", Precision.FP32, 400, 142652),
    ("regnet_y_128gf", Precision.MIXED, 64, 29541),
    ("regnet_y_128gf", Precision.MIXED, 136, 70673),
    ("stabilityai/stable-diffusion-2-1", Precision.MIXED, 1, 18823),
    ("stabilityai/stable-diffusion-2-1", Precision.MIXED, 80, 115558),
]


def other(name: str) -> OtherModel:
    found = models().other(name)
    assert found is not None
    return found


def run(name: str, micro_batch: int, precision: Precision | None = None) -> MeasuredRun:
    found = measured_run(other(name), micro_batch, precision)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "precision", "micro_batch", "mib"), POINTS)
def test_a_published_point_lies_inside_and_near(name: str, precision: Precision, micro_batch: int, mib: float) -> None:
    found = run(name, micro_batch, precision).estimate()
    assert found.low_mib <= mib <= found.high_mib
    assert found.likely_mib == pytest.approx(mib, rel=0.3)


def test_a_precision_that_is_not_told_spans_all_that_were_measured() -> None:
    both = run("convnext_large", 64).estimate()
    assert both.low_mib == run("convnext_large", 64, Precision.MIXED).estimate().low_mib
    assert both.high_mib == run("convnext_large", 64, Precision.FP32).estimate().high_mib
    assert len(run("convnext_large", 64).assumptions) == 2


def test_it_says_what_was_measured_and_never_denies() -> None:
    found = run("resnet50", 64)
    assert (*map(phrase, found.assumptions),) == ("measured by others: 224 pixels, fp16 autocast, SGD, channels last",)
    assert not found.may_deny


@pytest.mark.parametrize(
    ("name", "precision"), [("resnet50", Precision.FP32), ("google/vit-base-patch16-224", None), ("resnet18", None)]
)
def test_what_nobody_measured_is_not_made_up(name: str, precision: Precision | None) -> None:
    assert measured_run(other(name), 64, precision) is None
