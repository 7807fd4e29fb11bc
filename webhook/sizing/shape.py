"""The shape of a decoder that flags give instead of a name, with the defaults of Megatron-LM's parser.

Source: NVIDIA/Megatron-LM, megatron/training/arguments.py (`validate_args`: width of the MLP, channels of a head) and
megatron/core/transformer/transformer_config.py; megatron/core/tokenizers/utils/build_tokenizer.py pads the vocabulary.
"""

from collections.abc import Mapping

from webhook.catalog.models import Experts, Guess, ModelSpec, Style, models
from webhook.model.job import Said

_PADDED_TO = 128
_UNKNOWN_VOCABULARY = (32_000, 128_256, 256_000)
_MOST = 1 << 20
_NAME = "of the shape that flags give"


def shape_of(settings: Mapping[str, Said], tensor_parallel: int) -> ModelSpec | Guess | None:
    """The decoder that these settings describe; where they tell no vocabulary, the leanest, likeliest and heaviest of
    the usual ones. None where a part of the shape is missing, is no number, or is not that of a decoder."""
    layers, hidden, heads = (_number(settings, name) for name in ("layers", "hidden", "heads"))
    if not (layers and hidden and heads) or "layout" in settings:
        return None
    gated = "gated" in settings
    ffn = _number(settings, "ffn") or (hidden * 8 // 3 // 64 * 64 if gated else 4 * hidden)
    grouped = _number(settings, "kvHeads") if "grouped" in settings else None
    experts = _number(settings, "experts")
    learned = _value(settings, "positions", "learned_absolute") == "learned_absolute"
    to = (_number(settings, "vocabPadding") or _PADDED_TO) * tensor_parallel

    def with_vocabulary(vocab: int) -> ModelSpec:
        return ModelSpec(
            name=_NAME,
            style=_style(settings, gated=gated),
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=min(grouped or heads, heads),
            head_dim=_number(settings, "headDim") or max(1, hidden // heads),
            ffn=ffn,
            vocab=-(-vocab // to) * to,
            tied="untied" not in settings,
            positions=(_number(settings, "maxPositions") or 0) if learned else 0,
            max_positions=_number(settings, "maxPositions") or 0,
            experts=_experts(settings, experts, ffn) if experts else None,
        )

    vocab = _vocabulary(settings)
    if vocab is not None:
        return with_vocabulary(vocab)
    low, likely, high = map(with_vocabulary, _UNKNOWN_VOCABULARY)
    return Guess(_NAME, low, likely, high, because="has a vocabulary that no flag tells")


def _vocabulary(settings: Mapping[str, Said]) -> int | None:
    """Its rows, before padding: as told, or those of the model whose tokenizer is named."""
    told = _number(settings, "vocab")
    if told is not None:
        return told
    known = models().find(_value(settings, "tokenizer"))
    return known.vocab if known else None


def _style(settings: Mapping[str, Said], *, gated: bool) -> Style:
    biased = "unbiased" not in settings
    return Style(
        gated=gated,
        norm="RMS" if _value(settings, "norm") == "RMSNorm" else "Layer",
        qk_norm="qkNorm" in settings,
        attention_bias="All" if biased else "QKV" if "qkvBias" in settings else "None",
        mlp_bias=biased,
        dropout=any(_value(settings, name, "0.1").strip("0.") for name in ("hiddenDropout", "attentionDropout")),
    )


def _experts(settings: Mapping[str, Said], count: int, ffn: int) -> Experts:
    return Experts(
        count=count,
        per_token=_number(settings, "expertsPerToken") or 2,
        ffn=_number(settings, "expertFfn") or ffn,
        shared=_number(settings, "sharedExpertFfn") or 0,
        every=_number(settings, "expertsEvery") or 1,
    )


def _value(settings: Mapping[str, Said], name: str, otherwise: str = "") -> str:
    said = settings.get(name)
    return said.value if said else otherwise


def _number(settings: Mapping[str, Said], name: str) -> int | None:
    value = _value(settings, name)
    if not (value.isascii() and value.isdigit() and len(value) < 9):
        return None
    return int(value) if 0 < int(value) <= _MOST else None
