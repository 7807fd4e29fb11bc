"""Public models by name: their layer counts, from which memory is computed (models.yaml)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, Literal, TypeVar

import yaml
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from webhook.catalog.sizing import Interval

_CONFIG = ConfigDict(alias_generator=to_camel, extra="forbid")
_Count = Annotated[int, Field(gt=0)]
_Some = Annotated[int, Field(ge=0)]
_LONGEST = 200
_One = TypeVar("_One")
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d{1,4}(?:\.\d{1,3})?)\s?([bm])(?![A-Za-z0-9])", re.IGNORECASE)
_SMALLEST, _LARGEST = 10e6, 2e12


class Family(StrEnum):
    """What the layers are: one stack with a language head, one without, or two stacks."""

    DECODER = "Decoder"
    ENCODER = "Encoder"
    ENCODER_DECODER = "EncoderDecoder"


@dataclass(frozen=True, slots=True)
class Style:
    """How the layers of a family of models are built.

    `norm`: RMS has a scale, Layer scale and shift, Scale a layer norm without shift; `norms` counts them in one layer.
    `qk_norm`: one more RMS norm over each head of queries and keys. `attention_bias` says which projections have one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    family: Family = Family.DECODER
    gated: bool = True
    norm: Literal["RMS", "Layer", "Scale"] = "RMS"
    norms: _Count = 2
    qk_norm: bool = False
    attention_bias: Literal["None", "QKV", "All"] = "None"
    mlp_bias: bool = False
    head_bias: bool = False
    embedding_norm: bool = False
    pooler: bool = False
    dropout: bool = False
    relative_positions: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of the MLP: `ffn` is the width of one, `shared` that of what every token passes.

    `dense` layers at the beginning have the plain MLP; else every `every`-th layer has experts.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    count: _Count
    per_token: _Count
    ffn: _Count
    shared: _Some = 0
    dense: _Some = 0
    every: _Count = 1


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); `q_rank` 0: queries are not compressed."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    kv_rank: _Count
    nope: _Count
    rope: _Count
    value: _Count
    q_rank: _Some = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Parameters of a model, counted from its layers.

    `embedding` is the token table, `head` the language head where it is not tied to it; `layer` is the largest layer,
    `linear` all matrices of all layers (what quantization reaches), `widest` the largest of them.
    """

    total: int
    embedding: int
    head: int
    layer: int
    linear: int
    widest: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One public model. `parameters` is the published count, `vocab` the rows of the embedding as padded.

    `query` and `key_value` are the widths that attention works on; `counts` is computed when the spec is made, because
    an estimate is made inside a request. `guess`: the shape was guessed from a size in a name.
    """

    name: str
    style: Style
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False
    positions: int = 0
    token_types: int = 0
    max_positions: int = 0
    encoder_layers: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    parameters: int = 0
    source: str = ""
    guess: bool = False
    query: int = field(init=False)
    key_value: int = field(init=False)
    counts: Counts = field(init=False)

    def __post_init__(self) -> None:
        width = self.latent.nope + self.latent.rope if self.latent else self.head_dim
        object.__setattr__(self, "query", self.heads * width)
        object.__setattr__(self, "key_value", (self.heads if self.latent else self.kv_heads) * width)
        object.__setattr__(self, "counts", _counts(self))


@dataclass(frozen=True, slots=True)
class Measured:
    """What training took in somebody's published measurements, in MiB as `nvidia-smi` shows it: `fixed` whatever the
    micro-batch, `per_sample` for each sample. `how` says what was trained: input, precision, optimizer."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    precision: Literal["mixed", "fp32"]
    how: str
    fixed: Interval
    per_sample: Interval


@dataclass(frozen=True, slots=True)
class OtherModel:
    """A vision, speech or diffusion model: its layers are not known, only its parameters, and for some what training
    them took."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    what: str
    parameters: _Count
    source: str
    aliases: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Guess:
    """A model of which something is guessed (`because`): the leanest, likeliest and heaviest that it may be."""

    name: str
    low: ModelSpec
    likely: ModelSpec
    high: ModelSpec
    because: str = "is guessed from the size in its name"


class Models:
    """The catalog with its look-ups; one instance serves the whole process and nothing changes it.

    A name is compared without regard to case, whole or by the patterns of fine-tunes in the catalog, and never by a
    part of it; of a path, the last element counts too ("/models/Llama-3.1-8B").
    """

    def __init__(self, specs: tuple["_Entry", ...], others: tuple[OtherModel, ...], styles: dict[str, Style]) -> None:
        self.specs = tuple(entry.spec(styles) for entry in specs)
        self.others = others
        self._names: dict[str, ModelSpec] = {}
        self._other_names: dict[str, OtherModel] = {}
        for entry, spec in zip(specs, self.specs, strict=True):
            for name in _spellings(entry.name, entry.aliases):
                _claim(self._names, name, spec)
        for other in others:
            for name in _spellings(other.name, other.aliases):
                _claim(self._other_names, name, other)
        self._patterns = [
            (_pattern(text), spec) for entry, spec in zip(specs, self.specs, strict=True) for text in entry.patterns
        ]
        self._other_patterns = [(_pattern(text), other) for other in others for text in other.patterns]
        dense = [one for one in self.specs if one.experts is None and one.style.family is Family.DECODER]
        self._dense = sorted(dense, key=lambda one: one.counts.total)

    def find(self, name: str) -> ModelSpec | None:
        """The model of this hub name, alias or fine-tune pattern."""
        return _find(name, self._names, self._patterns)

    def other(self, name: str) -> OtherModel | None:
        """The vision, speech or diffusion model of this name."""
        return _find(name, self._other_names, self._other_patterns)

    def guess(self, name: str) -> Guess | None:
        """What the size in a name ("…-7b…") tells: a wide guess at a dense decoder; None where no size is in it.

        The name rounds (Llama "7b" is 6.7e9, Qwen "7b" is 7.7e9), vocabularies go from 32,000 to 256,000 rows, and the
        shape is that of the dense decoder in the catalog that is nearest in size.
        """
        sizes = _SIZE.findall(name[:_LONGEST])
        if not sizes:
            return None
        number, unit = sizes[-1]
        stated = float(number) * (1e9 if unit in "bB" else 1e6)
        if not _SMALLEST <= stated <= _LARGEST:
            return None
        near = min(self._dense, key=lambda one: abs(one.counts.total - stated) / (one.counts.total + stated))
        low, likely, high = (
            _scaled(near, name, stated * factor, vocab)
            for factor, vocab in ((0.88, 32_000), (1, 128_256), (1.15, 256_000))
        )
        return Guess(name, low, likely, high)


def read_models(text: str) -> Models:
    """The catalog written in this YAML. Raises pydantic's ValidationError, or ValueError where two entries claim one
    name or a style is not there."""
    read = TypeAdapter(_File).validate_python(yaml.safe_load(text))
    return Models(read.models, read.others, read.styles)


@cache
def models() -> Models:
    """The catalog that comes with the package."""
    return read_models(files(__package__).joinpath("models.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class _Entry:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    style: str
    hidden: _Count
    layers: _Count
    heads: _Count
    ffn: _Count
    vocab: _Count
    parameters: _Count
    source: str
    kv_heads: _Count | None = None
    head_dim: _Count | None = None
    tied: bool = False
    positions: _Some = 0
    token_types: _Some = 0
    max_positions: _Some = 0
    encoder_layers: _Some = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    aliases: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def spec(self, styles: dict[str, Style]) -> ModelSpec:
        if self.style not in styles:
            raise ValueError(f"{self.name}: there is no style {self.style!r}")
        return ModelSpec(
            name=self.name,
            style=styles[self.style],
            hidden=self.hidden,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads or self.heads,
            head_dim=self.head_dim or self.hidden // self.heads,
            ffn=self.ffn,
            vocab=self.vocab,
            tied=self.tied,
            positions=self.positions,
            token_types=self.token_types,
            max_positions=self.max_positions,
            encoder_layers=self.encoder_layers,
            experts=self.experts,
            latent=self.latent,
            parameters=self.parameters,
            source=self.source,
        )


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    styles: dict[str, Style]
    models: tuple[_Entry, ...]
    others: tuple[OtherModel, ...]


def _counts(spec: ModelSpec) -> Counts:
    style, hidden = spec.style, spec.hidden
    norm = hidden * (2 if style.norm == "Layer" else 1)
    attention, attention_rest, attention_widest = _attention(spec)
    mlp, mlp_rest = _mlp(spec, spec.ffn)
    layer = attention + attention_rest + mlp + mlp_rest + style.norms * norm
    layers, linear, widest = (
        [layer] * spec.layers,
        (attention + mlp) * spec.layers,
        max(attention_widest, hidden * spec.ffn),
    )
    if spec.experts is not None:
        layers, linear = _with_experts(spec, attention, layer, mlp + mlp_rest, mlp)
    if style.family is Family.ENCODER_DECODER:
        # A decoder layer attends twice; the encoder's layers are like a plain decoder's.
        across = attention + attention_rest + norm
        layers = [layer + across] * spec.layers + [layer] * spec.encoder_layers
        linear = (2 * attention + mlp) * spec.layers + (attention + mlp) * spec.encoder_layers
    embedding = spec.vocab * hidden
    head = 0 if spec.tied or style.family is Family.ENCODER else embedding
    # Post-norm encoders end with a layer's own norm.
    final = {Family.DECODER: norm, Family.ENCODER: 0, Family.ENCODER_DECODER: 2 * norm}[style.family]
    rest = (spec.positions + spec.token_types) * hidden + final + (spec.vocab if style.head_bias else 0)
    rest += (norm if style.embedding_norm else 0) + (hidden * hidden + hidden if style.pooler else 0)
    rest += 2 * 32 * spec.heads if style.relative_positions else 0
    return Counts(sum(layers) + embedding + head + rest, embedding, head, max(layers), linear, widest)


def _attention(spec: ModelSpec) -> tuple[int, int, int]:
    """Matrices, the rest, and the widest matrix of one attention."""
    hidden, style = spec.hidden, spec.style
    if spec.latent is not None:
        latent = spec.latent
        query = hidden * latent.q_rank + latent.q_rank * spec.query if latent.q_rank else hidden * spec.query
        key_value = hidden * (latent.kv_rank + latent.rope)
        key_value += latent.kv_rank * spec.heads * (latent.nope + latent.value)
        out = spec.heads * latent.value * hidden
        return query + key_value + out, latent.q_rank + latent.kv_rank, max(out, latent.q_rank * spec.query)
    query, key_value = spec.query, spec.key_value
    bias = {"None": 0, "QKV": query + 2 * key_value, "All": query + 2 * key_value + hidden}[style.attention_bias]
    return hidden * (2 * query + 2 * key_value), bias + (2 * spec.head_dim if style.qk_norm else 0), hidden * query


def _mlp(spec: ModelSpec, ffn: int) -> tuple[int, int]:
    """Matrices and biases of one MLP of this width."""
    ups = 2 if spec.style.gated else 1
    return (ups + 1) * spec.hidden * ffn, ups * ffn + spec.hidden if spec.style.mlp_bias else 0


def _with_experts(spec: ModelSpec, attention: int, layer: int, mlp: int, mlp_linear: int) -> tuple[list[int], int]:
    """The parameters of each layer, and all matrices, where some layers have experts in place of the MLP."""
    experts = spec.experts
    assert experts is not None
    one, _ = _mlp(spec, experts.ffn)
    shared, _ = _mlp(spec, experts.shared)
    routed = one * experts.count + shared
    sparse = layer - mlp + routed + spec.hidden * experts.count
    layers = [
        sparse if index >= experts.dense and (index + 1) % experts.every == 0 else layer for index in range(spec.layers)
    ]
    many = layers.count(sparse)
    return layers, attention * spec.layers + routed * many + mlp_linear * (spec.layers - many)


def _scaled(near: ModelSpec, name: str, parameters: float, vocab: int) -> ModelSpec:
    """A dense decoder of the shape of `near` with about so many parameters: as many layers as that takes."""
    outside = 2 * vocab * near.hidden
    layers = max(1, round((parameters - outside) / near.counts.layer))
    return replace(near, name=name, layers=layers, vocab=vocab, tied=False, parameters=round(parameters), guess=True)


def _find(name: str, names: Mapping[str, _One], patterns: Sequence[tuple[re.Pattern[str], _One]]) -> _One | None:
    if not name or len(name) > _LONGEST:
        return None
    folded = name.casefold().rstrip("/")
    last = folded.rsplit("/", 1)[-1]
    found = names.get(folded) or names.get(last)
    return found or next((one for pattern, one in patterns if pattern.fullmatch(last)), None)


def _spellings(name: str, aliases: tuple[str, ...]) -> set[str]:
    """A hub name counts with and without its owner."""
    return {text.casefold() for text in (name, name.rsplit("/", 1)[-1], *aliases)}


def _claim(names: dict[str, _One], name: str, one: _One) -> None:
    if name in names:
        raise ValueError(f"two models claim the name {name!r}")
    names[name] = one


def _pattern(text: str) -> re.Pattern[str]:
    """A shell-like pattern in which * stands for anything."""
    return re.compile(".*".join(re.escape(part) for part in text.casefold().split("*")))
