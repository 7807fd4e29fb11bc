"""Public models: their counts add up, and names find them."""

import csv
from pathlib import Path

import pytest
from pydantic import ValidationError

from webhook.catalog.models import ModelSpec, models, read_models

_PEAKS = Path(__file__).parents[2] / "sizing" / "measured-peaks.csv"
_ONE = """
styles: {llama: {}}
models:
- {name: a/one, style: llama, hidden: 64, layers: 2, heads: 4, ffn: 128, vocab: 100, parameters: 1000, source: card}
others: []
"""


@pytest.mark.parametrize("spec", models().specs, ids=lambda spec: spec.name)
def test_computed_parameters_are_within_a_hundredth_of_those_in_the_catalog(spec: ModelSpec) -> None:
    assert spec.counts.total == pytest.approx(spec.parameters, rel=0.01)


@pytest.mark.parametrize("spec", models().specs, ids=lambda spec: spec.name)
def test_every_model_says_where_its_layers_and_its_count_were_looked_up(spec: ModelSpec) -> None:
    layers, _, count = spec.source.partition("; ")
    assert layers
    assert count.startswith(("count: ", "counted"))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("meta-llama/Llama-3.2-3B", 3_212_749_824),
        ("openai-community/gpt2", 124_439_808),
        ("google-bert/bert-base-uncased", 109_482_240),
        ("google-t5/t5-base", 222_903_552),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("google/gemma-3-4b-pt", 3_880_099_328),
    ],
)
def test_parameters_of_each_build_are_exact(name: str, parameters: int) -> None:
    spec = models().find(name)
    assert spec is not None
    assert spec.counts.total == parameters


def test_every_model_with_a_measured_peak_is_known() -> None:
    with _PEAKS.open(encoding="utf-8", newline="") as file:
        names = {record["model"] for record in csv.DictReader(file)}
    assert {name for name in names if models().find(name) is None} == set()


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("META-LLAMA/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B"),
        ("/models/Llama-3.1-8B/", "meta-llama/Llama-3.1-8B"),
        ("my-team/llama-3.1-8b-legal-v2", "meta-llama/Llama-3.1-8B"),
        ("Qwen/Qwen-7B-Chat-Int4", "Qwen/Qwen-7B"),
        ("gpt2", "openai-community/gpt2"),
        ("gpt2-xl", "openai-community/gpt2-xl"),
        ("glm-4-9b-chat-1m", "THUDM/glm-4-9b-chat-1m"),
    ],
)
def test_a_name_finds_its_model_whole_or_by_a_pattern_of_fine_tunes(written: str, found: str) -> None:
    spec = models().find(written)
    assert spec is not None
    assert spec.name == found


@pytest.mark.parametrize("written", ["", "llama", "not-llama-3.1-8b", "llama-3.1-8bx", "gpt2000", "x" * 10_000])
def test_a_part_of_a_name_finds_nothing(written: str) -> None:
    assert models().find(written) is None


def test_a_size_in_a_name_gives_a_wide_guess() -> None:
    guess = models().guess("someone/unheard-of-7b-chat")
    assert guess is not None
    totals = [one.counts.total for one in (guess.low, guess.likely, guess.high)]
    assert totals == sorted(totals)
    assert totals[0] < 6.8e9
    assert totals[2] > 7.8e9
    assert all(one.guess for one in (guess.low, guess.likely, guess.high))


@pytest.mark.parametrize("name", ["unheard-of", "v2b3", "model-9999999b", "model-0b", "b", "7bit"])
def test_a_name_without_a_size_gives_no_guess(name: str) -> None:
    assert models().guess(name) is None


@pytest.mark.parametrize("size", ["0.5b", "3b", "13b", "70b", "405b", "125m"])
def test_a_guess_comes_near_its_size(size: str) -> None:
    guess = models().guess(f"any-{size}")
    assert guess is not None
    stated = float(size[:-1]) * (1e9 if size.endswith("b") else 1e6)
    assert guess.low.counts.total < stated * 1.05
    assert guess.high.counts.total > stated * 0.95


def test_vision_and_diffusion_models_are_known_by_their_parameters_alone() -> None:
    other = models().other("runwayml/stable-diffusion-v1-5")
    assert other is not None
    assert other.what == "diffusion"
    assert models().find("runwayml/stable-diffusion-v1-5") is None


def test_two_models_may_not_claim_one_name() -> None:
    twice = _ONE.replace(
        "others",
        "- {name: b/one, style: llama, hidden: 8, layers: 1, heads: 1, ffn: 8, vocab: 8, "
        "parameters: 8, source: card}\nothers",
    )
    with pytest.raises(ValueError, match="'one'"):
        read_models(twice)


def test_a_style_must_be_there() -> None:
    with pytest.raises(ValueError, match="a/one: there is no style 'other'"):
        read_models(_ONE.replace("style: llama,", "style: other,"))


def test_a_count_must_be_above_zero() -> None:
    with pytest.raises(ValidationError, match="layers"):
        read_models(_ONE.replace("layers: 2", "layers: 0"))
