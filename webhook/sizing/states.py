"""Weights, gradients and optimizer states: what is there whatever the micro-batch."""

from collections.abc import Iterator

from webhook.sizing.resolve import Setting
from webhook.sizing.terms import HIGH, LOW, PartName, Stage, Term
from webhook.sizing.training import Method, Offload, Optimizer, Parallel, Precision

_ZERO = "DeepSpeed, runtime/zero and docs/code-docs/source/memory.rst"
_MIXED = "Micikevicius et al., Mixed Precision Training (arXiv 1710.03740)"
_PEFT = "Hugging Face PEFT, tuners/lora"
_BNB = "bitsandbytes, optim (states in 8 bits, blocks of 256; embeddings stay in 32)"
_QLORA = "QLoRA (arXiv 2305.14314); PEFT casts what is not quantized to 32 bits (prepare_model_for_kbit_training)"
_8_BIT = (Optimizer.ADAMW_8BIT, Optimizer.PAGED_ADAMW_8BIT)
SHARDED_STATES = (Parallel.ZERO1, Parallel.ZERO2, Parallel.ZERO3, Parallel.FSDP)
SHARDED_GRADIENTS = (Parallel.ZERO2, Parallel.ZERO3, Parallel.FSDP)
SHARDED_WEIGHTS = (Parallel.ZERO3, Parallel.FSDP)


def states(setting: Setting) -> Iterator[Term]:
    """The three of them, as this rank holds them between steps; gradients only as long as they are there."""
    yield from _weights(setting)
    yield _gradients(setting)
    yield from _optimizer(setting)


def trained_bytes(setting: Setting) -> int:
    """Bytes of one trained weight, and of its gradient.

    An engine keeps 32-bit masters beside 16-bit weights; autocast and FSDP train 32-bit weights. Adapters under mixed
    precision: PEFT keeps them in 32 bits (autocast_adapter_dtype), older releases in those of the model.
    """
    if setting.precision is Precision.FP32:
        return 4
    if setting.precision is Precision.PURE or setting.engine:
        return 2
    return 2 if setting.training.method is not Method.FULL and setting.end == LOW else 4


def gradient_bytes(setting: Setting) -> int:
    """Bytes of the gradient of one trained weight, as it is kept. An engine may add up those of 16-bit weights in 32;
    DeepSpeed's ZeRO adds them up as they are, unless it is told otherwise."""
    told = setting.training.fp32_gradients
    if told is None:
        told = setting.end > LOW and setting.training.parallel not in SHARDED_STATES
    return 4 if setting.engine and told else trained_bytes(setting)


def _weights(setting: Setting) -> Iterator[Term]:
    training = setting.training
    share = setting.sharing if training.parallel in SHARDED_WEIGHTS else 1
    if training.offload is Offload.ALL and training.parallel in SHARDED_WEIGHTS:
        yield Term(PartName.WEIGHTS, Stage.ALWAYS, 0, "on the host between uses", (), _ZERO)
        return
    parameters, size = setting.parameters, trained_bytes(setting)
    if training.method is Method.FULL:
        text, numbers = "{:,.0f} parameters × {} B ÷ {}", (parameters, size, share)
        yield Term(PartName.WEIGHTS, Stage.ALWAYS, parameters * size / share, text, numbers, _MIXED)
        return
    wide = 4 if setting.precision is Precision.FP32 else 2
    if training.method is Method.LORA:
        text, numbers = "{:,.0f} frozen parameters × {} B ÷ {}", (parameters, wide, share)
        yield Term(PartName.WEIGHTS, Stage.ALWAYS, parameters * wide / share, text, numbers, _PEFT)
    else:
        bits, quantized = setting.known.nf4_bytes.ends[setting.end], setting.linear
        wide = 4 if setting.end == HIGH and not setting.engine else 2
        amount = (quantized * bits + (parameters - quantized) * wide) / share
        text = "({:,.0f} quantized × {} B + {:,.0f} others × {} B) ÷ {}"
        both = (quantized, bits, parameters - quantized, wide, share)
        yield Term(PartName.WEIGHTS, Stage.ALWAYS, amount, text, both, _QLORA)
    text, numbers = "{:,.0f} adapter parameters × {} B ÷ {}", (setting.trainable, size, share)
    yield Term(PartName.WEIGHTS, Stage.ALWAYS, setting.trainable * size / share, text, numbers, _PEFT)


def _gradients(setting: Setting) -> Term:
    training, counts = setting.training, setting.model.counts
    trainable, size = setting.trainable, trained_bytes(setting)
    if training.optimizer_in_backward:
        largest = min(trainable, max(counts.widest, counts.embedding)) * size
        text = "largest matrix, {:,.0f} B: each is freed once it is applied"
        return Term(PartName.GRADIENTS, Stage.ALWAYS, largest, text, (largest,), "torchtune, optimizer_in_bwd")
    share = setting.sharing if training.parallel in SHARDED_GRADIENTS else 1
    if training.offload is not Offload.NONE and training.parallel in SHARDED_GRADIENTS:
        return Term(PartName.GRADIENTS, Stage.ALWAYS, 0, "moved to the host, bucket by bucket", (), _ZERO)
    # Between steps gradients are None; they are there at the loss only where they add up over passes, or where an
    # engine keeps its own flat copy (Megatron's whenever it says in how many bits).
    flat = training.parallel in SHARDED_GRADIENTS or training.fp32_gradients is not None
    resident = setting.accumulates or (setting.engine and flat)
    stage = Stage.ALWAYS if resident else Stage.STEP
    size = gradient_bytes(setting)
    text, numbers = "{:,.0f} trained × {} B ÷ {}", (trainable, size, share)
    return Term(PartName.GRADIENTS, stage, trainable * size / share, text, numbers, _MIXED)


def _optimizer(setting: Setting) -> Iterator[Term]:
    training, trainable = setting.training, setting.trainable
    if training.offload is not Offload.NONE:
        yield Term(PartName.OPTIMIZER, Stage.ALWAYS, 0, "on the host", (), _ZERO)
        return
    share = setting.sharing if training.parallel in SHARDED_STATES else 1
    if setting.engine:
        text = "{:,.0f} master weights × 4 B ÷ {}"
        yield Term(PartName.OPTIMIZER, Stage.ALWAYS, trainable * 4 / share, text, (trainable, share), _ZERO)
    size = _state_bytes(setting)
    text, numbers = "{:,.0f} trained × {:.2f} B of {} ÷ {}", (trainable, size, setting.optimizer.value, share)
    source = _BNB if setting.optimizer in _8_BIT else _MIXED
    yield Term(PartName.OPTIMIZER, Stage.ALWAYS, trainable * size / share, text, numbers, source)


def _state_bytes(setting: Setting) -> float:
    """Bytes that the optimizer keeps of one trained parameter, masters aside. Paged states move to the host when room
    is short, so only the high end counts them."""
    one = 4 if setting.engine else trained_bytes(setting)
    match setting.optimizer:
        case Optimizer.ADAMW:
            return 2 * one
        case Optimizer.PAGED_ADAMW:
            return 2 * one if setting.end == HIGH else 0
        case Optimizer.ADAMW_8BIT:
            return _8_bit(setting, one)
        case Optimizer.PAGED_ADAMW_8BIT:
            return _8_bit(setting, one) if setting.end == HIGH else 0
        case Optimizer.ADAFACTOR:
            # Rows and columns instead of a matrix; high: with the step's own update.
            return (0.01, 0.02, one)[setting.end]
        case Optimizer.MOMENTUM:
            return one
        case Optimizer.SGD:
            return 0


def _8_bit(setting: Setting, one: int) -> float:
    counts = setting.model.counts
    tables = counts.embedding + counts.head if setting.training.method is Method.FULL and setting.end > LOW else 0
    wide = min(1.0, tables / setting.trainable)
    return (1 - wide) * 2.03 + wide * 2 * one
