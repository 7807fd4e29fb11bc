"""What is assumed of a training run where it does not say, at each end of the estimate."""

from typing import NamedTuple

from webhook.catalog.models import Guess, ModelSpec
from webhook.catalog.sizing import Sizing
from webhook.sizing.terms import LIKELY, LOW
from webhook.sizing.training import (
    EVERY_TARGET,
    QUERY_AND_VALUE,
    Attention,
    Checkpointing,
    Loss,
    Method,
    Optimizer,
    Parallel,
    Precision,
    Target,
    Training,
)

_PRECISION = (Precision.PURE, Precision.MIXED, Precision.FP32)
# bitsandbytes computes in 16 bits, and PEFT turns recompute on where it prepares a quantized model for training.
_QUANTIZED_PRECISION = (Precision.PURE, Precision.MIXED, Precision.MIXED)
_QUANTIZED_CHECKPOINTING = (Checkpointing.FULL, Checkpointing.FULL, Checkpointing.NONE)
_OPTIMIZER = (Optimizer.ADAFACTOR, Optimizer.ADAMW, Optimizer.ADAMW)
_CHECKPOINTING = (Checkpointing.FULL, Checkpointing.NONE, Checkpointing.NONE)
_ATTENTION = (Attention.FLASH, Attention.SDPA, Attention.SDPA)
# Newer releases of trainers compute cross entropy over chunks (TRL, SFTConfig.loss_type; torchtitan).
_LOSS = (Loss.CHUNKED, Loss.WHOLE, Loss.WHOLE)
_TARGETS = (QUERY_AND_VALUE, EVERY_TARGET, EVERY_TARGET)
_IN_EXPERTS = frozenset({Target.GATE, Target.UP, Target.DOWN})


class Setting(NamedTuple):
    """A training run with nothing left open, at one end.

    `tokens` are those of one device in one pass; `engine` says that 16-bit weights are trained beside 32-bit masters
    (DeepSpeed, Megatron) rather than under autocast; `compute` and `residual` are bytes of an activation and of the
    residual stream. `parameters`, those of them in the layers' matrices (`linear`), and `trainable` are what tensor and
    pipeline parallelism leave to one rank.
    """

    end: int
    model: ModelSpec
    precision: Precision
    optimizer: Optimizer
    checkpointing: Checkpointing
    attention: Attention
    loss: Loss
    compiled: bool
    accumulates: bool
    sequence_parallel: bool
    targets: frozenset[Target]
    rank: float
    seq_len: float
    tokens: float
    engine: bool
    sharing: int
    compute: int
    residual: int
    parameters: float
    linear: float
    trainable: float
    training: Training
    known: Sizing


def resolve(training: Training, end: int, known: Sizing) -> Setting:
    """The run as the estimate takes it at this end."""
    model = training.model
    if isinstance(model, Guess):
        model = (model.low, model.likely, model.high)[end]
    quantized = training.method is Method.QLORA
    precision = training.precision or (_QUANTIZED_PRECISION if quantized else _PRECISION)[end]
    checkpointing = _QUANTIZED_CHECKPOINTING if quantized else _CHECKPOINTING
    frozen = training.method is not Method.FULL
    zero = training.parallel in (Parallel.ZERO1, Parallel.ZERO2, Parallel.ZERO3)
    megatron = training.tensor_parallel * training.pipeline_parallel > 1 and training.parallel is not Parallel.FSDP
    engine = precision is Precision.MIXED and (zero or megatron)
    if training.seq_len is None:
        seq_len = min(known.unknown_length.ends[end], model.max_positions or known.unknown_length.high)
    else:
        seq_len = training.seq_len * (1.0 if training.packed else known.unpacked.ends[end])
    rank = training.adapter_rank or known.adapter_rank.ends[end]
    targets = training.adapter_targets if training.adapter_targets is not None else _TARGETS[end]
    compute = 4 if precision is Precision.FP32 else 2
    autocast = precision is Precision.MIXED and not engine and not frozen
    # FSDP and fully_shard compute in 16 bits throughout; under plain autocast the residual stream stays in 32.
    residual = 4 if autocast and training.parallel is not Parallel.FSDP else compute
    parameters = _on_one_rank(training, model, end)
    split = training.tensor_parallel * training.pipeline_parallel
    trainable = parameters
    if frozen:
        layers = model.layers + model.encoder_layers
        trainable = rank * _adapter_widths(model, targets, every_expert=end > LOW) * layers / split
    return Setting(
        end=end,
        model=model,
        precision=precision,
        optimizer=training.optimizer or _OPTIMIZER[end],
        checkpointing=training.checkpointing or checkpointing[end],
        attention=training.attention or _ATTENTION[end],
        loss=training.loss or _LOSS[end],
        compiled=end == LOW if training.compiled is None else training.compiled,
        accumulates=end > LIKELY if training.accumulation is None else training.accumulation > 1,
        sequence_parallel=end < LIKELY if training.sequence_parallel is None else training.sequence_parallel,
        targets=targets,
        rank=rank,
        seq_len=seq_len,
        tokens=training.micro_batch * seq_len / training.context_parallel,
        engine=engine,
        sharing=training.sharing,
        compute=compute,
        residual=residual,
        parameters=parameters,
        linear=model.counts.linear / split,
        trainable=trainable,
        training=training,
        known=known,
    )


def _on_one_rank(training: Training, model: ModelSpec, end: int) -> float:
    """Parameters that tensor and pipeline parallelism leave to the fullest rank: the first and the last pipeline stage
    hold a table each beside their layers."""
    counts, tensor, pipeline = model.counts, training.tensor_parallel, training.pipeline_parallel
    if pipeline == 1 or end == LOW:
        return counts.total / (tensor * pipeline)
    tables = counts.embedding + counts.head
    return ((counts.total - tables) / pipeline + max(counts.embedding, counts.head)) / tensor


def _adapter_widths(model: ModelSpec, targets: frozenset[Target], *, every_expert: bool) -> int:
    """Inputs plus outputs of the adapted matrices of one layer; those of each expert where they are adapted too."""
    times = model.experts.count if model.experts is not None and every_expert else 1
    return sum(
        sum(shape) * (times if target in _IN_EXPERTS else 1) for target, shape in shapes(model) if target in targets
    )


def shapes(model: ModelSpec) -> list[tuple[Target, tuple[int, int]]]:
    """Inputs and outputs of each matrix of one layer, of its experts one."""
    hidden, query, key_value = model.hidden, model.query, model.key_value
    ffn = model.experts.ffn if model.experts else model.ffn
    matrices = [
        (Target.QUERY, (hidden, query)),
        (Target.KEY, (hidden, key_value)),
        (Target.VALUE, (hidden, key_value)),
        (Target.OUT, (query, hidden)),
        (Target.UP, (hidden, ffn)),
        (Target.DOWN, (ffn, hidden)),
    ]
    if model.style.gated:
        matrices.append((Target.GATE, (hidden, ffn)))
    return matrices
