"""A shape that flags give instead of a name."""

import pytest

from webhook.catalog.models import Guess, ModelSpec, models
from webhook.model.job import Said
from webhook.sizing.shape import shape_of

LLAMA = {
    "layers": "32",
    "hidden": "4096",
    "heads": "32",
    "grouped": "true",
    "kvHeads": "8",
    "ffn": "14336",
    "gated": "true",
    "norm": "RMSNorm",
    "unbiased": "true",
    "untied": "true",
    "positions": "rope",
    "hiddenDropout": "0.0",
    "attentionDropout": "0",
    "vocab": "128256",
}
GPT3 = {"layers": "96", "hidden": "12288", "heads": "96", "maxPositions": "2048", "vocab": "50257"}


def shape(settings: dict[str, str], tensor_parallel: int = 1) -> ModelSpec | Guess | None:
    return shape_of({name: Said(value, name, "f") for name, value in settings.items()}, tensor_parallel)


def known(settings: dict[str, str], tensor_parallel: int = 1) -> ModelSpec:
    found = shape(settings, tensor_parallel)
    assert isinstance(found, ModelSpec)
    return found


def test_a_shape_has_the_counts_of_the_model_that_has_it() -> None:
    named = models().find("meta-llama/Llama-3.1-8B")
    assert named is not None
    assert known(LLAMA).counts == named.counts
    assert (known(LLAMA).style.gated, known(LLAMA).style.dropout) == (True, False)


def test_what_is_not_told_is_the_parsers_default() -> None:
    found = known(GPT3)
    assert found.ffn == 4 * 12288
    assert found.counts.total == pytest.approx(174.6e9, rel=0.01)  # Brown et al., arXiv 2005.14165, table 2.1
    assert (found.tied, found.positions, found.style.dropout, found.style.mlp_bias) == (True, 2048, True, True)
    assert known({**GPT3, "gated": "true"}).ffn == 4 * 12288 * 2 // 3 // 64 * 64


def test_query_groups_count_only_where_they_are_switched_on() -> None:
    assert known({**GPT3, "kvHeads": "8"}).kv_heads == 96
    assert known({**GPT3, "kvHeads": "8", "grouped": "true"}).kv_heads == 8


@pytest.mark.parametrize(("tensor_parallel", "vocab"), [(1, 50304), (8, 51200)])
def test_the_vocabulary_is_padded_for_each_rank(tensor_parallel: int, vocab: int) -> None:
    assert known(GPT3, tensor_parallel).vocab == vocab


def test_experts_take_the_place_of_the_mlp() -> None:
    found = known({**LLAMA, "vocab": "32000", "experts": "8"})
    named = models().find("mistralai/Mixtral-8x7B-v0.1")
    assert named is not None
    assert found.counts.total == named.counts.total


def test_a_vocabulary_that_no_flag_tells_is_that_of_a_known_tokenizer_or_open() -> None:
    without = {name: value for name, value in LLAMA.items() if name != "vocab"}
    assert known({**without, "tokenizer": "meta-llama/Llama-3.1-8B"}).vocab == 128256
    found = shape({**without, "tokenizer": "/data/tokenizer.model"})
    assert isinstance(found, Guess)
    assert found.low.vocab < found.likely.vocab < found.high.vocab


@pytest.mark.parametrize(
    "change", [{"layers": ""}, {"hidden": "big"}, {"heads": "0"}, {"hidden": "9" * 30}, {"layout": "other"}]
)
def test_no_decoder_is_made_of_a_part_of_one(change: dict[str, str]) -> None:
    assert shape({**LLAMA, **change}) is None
