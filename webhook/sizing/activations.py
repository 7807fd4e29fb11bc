"""What the forward pass saves for the backward pass, and what the logits take."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.catalog.models import Family
from webhook.catalog.sizing import Interval
from webhook.sizing.resolve import Setting, shapes
from webhook.sizing.terms import LIKELY, LOW, PartName, Stage, Term
from webhook.sizing.training import EVERY_TARGET, Attention, Checkpointing, Loss, Method, Precision, Target

_KORTHIKANTI = (
    "Korthikanti et al., Reducing Activation Recomputation (arXiv 2205.05198), generalised; tests/sizing_torch"
)
_INTO_ATTENTION = frozenset({Target.QUERY, Target.KEY, Target.VALUE})
_INTO_MLP = frozenset({Target.GATE, Target.UP})


class Saved(NamedTuple):
    """Bytes that one layer saves for one token: `replicated` on every tensor-parallel rank unless the sequence is split
    too, `split` over them, and `scores` for each other token that it attends to."""

    replicated: float
    split: float
    scores: float


def activations(setting: Setting) -> Iterator[Term]:
    """Saved activations and logits, by the place where they are there."""
    model, training, tokens = setting.model, setting.training, setting.tokens
    factor = setting.known.activations.ends[setting.end]
    recompute = setting.checkpointing is not Checkpointing.NONE
    whole = _per_token(setting, layer(setting)) * factor
    kept = _stored(setting) * factor if recompute else whole
    layers, outside = (model.layers + model.encoder_layers) / training.pipeline_parallel, _outside(setting)
    # The last pipeline stage has the logits and one micro-batch of its layers.
    text, numbers = "{:,.0f} tokens × ({:g} layers × {:,.0f} B + {:,.0f} B)", (tokens, layers, kept, outside)
    saved = tokens * (layers * kept + outside)
    yield Term(PartName.ACTIVATIONS, Stage.LOSS, saved, text, numbers, _KORTHIKANTI)
    yield _logits(setting)
    flying = _in_flight(setting)
    if recompute or flying > 1:
        again = whole if recompute else 0
        text = "{:,.0f} tokens × ({:g} layers × {} micro-batches × {:,.0f} B + {:,.0f} B + a layer of {:,.0f} B)"
        amount = tokens * (layers * flying * kept + outside + again)
        all_of_it = (tokens, layers, flying, kept, outside, again)
        yield Term(PartName.ACTIVATIONS, Stage.RECOMPUTE, amount, text, all_of_it, _KORTHIKANTI)
    text = "{:,.0f} tokens × {:,.0f} B of the first layer, the last to go"
    yield Term(PartName.ACTIVATIONS, Stage.STEP, tokens * whole, text, (tokens, whole), _KORTHIKANTI)


def _in_flight(setting: Setting) -> int:
    """Micro-batches that the first pipeline stage holds at once (1F1B): as many as there are stages, or passes."""
    training = setting.training
    if training.accumulation is not None:
        return min(training.pipeline_parallel, training.accumulation)
    return 1 if setting.end == LOW else training.pipeline_parallel


def layer(setting: Setting) -> Saved:
    """What one layer saves for one token, with nothing recomputed."""
    model, style, compute = setting.model, setting.model.style, setting.compute
    hidden, frozen = model.hidden, setting.training.method is not Method.FULL
    targets = setting.targets if frozen else EVERY_TARGET
    replicated = style.norms * _norm(setting, frozen=frozen)
    # bitsandbytes 0.41, autograd/_functions.py: a 4-bit product saves its input though its weight is frozen.
    saves = EVERY_TARGET if setting.training.method is Method.QLORA and setting.end > LOW else targets
    replicated += compute * hidden * (not saves.isdisjoint(_INTO_ATTENTION))
    replicated += compute * hidden * (not saves.isdisjoint(_INTO_MLP))
    if style.dropout:
        replicated += 2 * hidden
    split, scores = _attention(setting)
    split += _mlp(setting, kept=Target.DOWN in saves)
    if frozen:
        extra = _adapter_input(setting)
        if extra:
            replicated += extra * sum(width for target, (width, _) in shapes(model) if target in targets)
    if style.family is Family.ENCODER_DECODER:
        # A decoder layer attends twice.
        split, replicated = split + _attention(setting)[0] / 2, replicated * 1.25
    return Saved(replicated, split, scores)


def _per_token(setting: Setting, one: Saved) -> float:
    """Bytes of one layer for one token on this rank."""
    training = setting.training
    parallel = training.tensor_parallel
    replicated = one.replicated / parallel if setting.sequence_parallel else one.replicated
    return replicated + one.split / parallel + one.scores * setting.seq_len / training.context_parallel / parallel


def _adapter_input(setting: Setting) -> float:
    """Bytes that an adapted matrix saves for each element of its input, beside the input itself."""
    dropout = setting.training.adapter_dropout
    if dropout is None:
        return setting.known.adapter_input_bytes.ends[setting.end]
    cast = 4 if setting.precision is Precision.MIXED and setting.end > LOW else 0
    return (cast or 2) + 1 if dropout else cast


def _norm(setting: Setting, *, frozen: bool) -> float:
    """Bytes of one norm. An RMS norm written out keeps its input in 32 bits and, to train its scale, its output; a
    fused one, a compiled one and a layer norm keep their input."""
    hidden, style = setting.model.hidden, setting.model.style
    if style.norm != "RMS" or setting.compiled:
        return setting.residual * hidden
    if setting.compute == 4:
        return 4 * hidden * (1 if frozen else 2)
    return 4 * hidden + (0 if frozen else setting.compute * hidden)


def _attention(setting: Setting) -> tuple[float, float]:
    """Queries, keys, values, output and statistics; for each other token, the scores where they are saved."""
    model, compute = setting.model, setting.compute
    grouped = setting.attention is Attention.FLASH or setting.compiled
    key_value = model.key_value if grouped else model.query
    value = model.heads * model.latent.value if model.latent else key_value
    out = model.heads * model.latent.value if model.latent else model.query
    tensors = compute * (model.query + key_value + value + out)
    if setting.attention is not Attention.EAGER:
        return tensors + 4 * model.heads, 0
    # The softmax's output, in 32 bits under autocast and where a model asks for it; what goes into the product with the
    # values; the mask of dropout.
    softmax = compute if setting.residual == compute and model.style.norm != "RMS" else 4
    product = compute if softmax != compute or model.style.dropout else 0
    return tensors, (softmax + product + model.style.dropout) * model.heads


def _mlp(setting: Setting, *, kept: bool) -> float:
    """`kept`: the input of the down-projection is saved, because it or its adapter is trained."""
    model, compute = setting.model, setting.compute
    tensors = (2 if setting.compiled else 3) if model.style.gated else 1
    wide = compute * (tensors + kept)
    if model.experts is None:
        return wide * model.ffn
    experts = model.experts
    routed = experts.per_token * (wide * experts.ffn + compute * model.hidden)
    sparse = routed + wide * experts.shared
    share = (model.layers - experts.dense) / model.layers / experts.every
    return sparse * share + wide * model.ffn * (1 - share)


def _stored(setting: Setting) -> float:
    """Bytes of one layer for one token that recompute keeps: its input, and every other matrix product and attention's
    output where it is selective (torchtitan, op-level selective activation checkpointing)."""
    model, training = setting.model, setting.training
    parallel = training.tensor_parallel
    inputs = setting.residual * model.hidden / (parallel if setting.sequence_parallel else 1)
    if setting.checkpointing is Checkpointing.FULL:
        return 0 if training.activation_offload else inputs
    products = setting.compute * (2 * model.query + model.key_value + _width(setting) + model.hidden)
    return inputs + (products + 4 * model.heads) / parallel


def _width(setting: Setting) -> float:
    experts = setting.model.experts
    return setting.model.ffn if experts is None else experts.per_token * experts.ffn + experts.shared


def _outside(setting: Setting) -> float:
    """Embedding output, final norm and the head's input, for one token."""
    return setting.model.hidden * (2 * setting.residual + setting.compute)


def _logits(setting: Setting) -> Term:
    training, model = setting.training, setting.model
    interval = _logit_bytes(setting)
    each = interval.ends[setting.end]
    if model.style.family is Family.ENCODER and setting.end <= LIKELY:
        # Fine-tuned encoders mostly have a small head; masked language models have the whole vocabulary.
        each = 0
    split = training.tensor_parallel
    amount = setting.tokens * model.vocab * each / split
    return Term(
        PartName.LOGITS,
        Stage.LOSS,
        amount,
        "{:,.0f} tokens × {:,} of vocabulary × {} B ÷ {}",
        (setting.tokens, model.vocab, each, split),
        interval.source,
    )


def _logit_bytes(setting: Setting) -> Interval:
    known = setting.known.logit_bytes
    match setting.loss:
        case Loss.CHUNKED:
            return known.chunked
        case Loss.FUSED:
            return known.fused
        case Loss.WHOLE:
            return known.half if setting.engine or setting.precision is Precision.PURE else known.upcast
