"""What sharing, quantization, autocast and the optimizer step take beside states and activations."""

from collections.abc import Iterator

from webhook.sizing.resolve import Setting
from webhook.sizing.states import SHARDED_STATES, trained_bytes
from webhook.sizing.terms import LOW, PartName, Stage, Term
from webhook.sizing.training import Method, Offload, Parallel

_ZERO = "DeepSpeed, runtime/zero and docs/_pages/config-json.md"
_FSDP = "PyTorch, torch.distributed.fsdp"
_AUTOCAST = "PyTorch, torch.autocast (weight cache)"
_UNPACKED = "bitsandbytes unpacks one matrix at a time; AutoGPTQ's product keeps a layer's unpacked"


def buffers(setting: Setting) -> Iterator[Term]:
    """Each of them, by the place where it is there."""
    training, known, end, trainable = setting.training, setting.known, setting.end, setting.trainable
    match training.parallel:
        case Parallel.DDP if training.world_size > 1:
            amount, factor = trainable * trained_bytes(setting), known.ddp_buckets.ends[end]
            text, source = "{:,.0f} B of gradients × {}", known.ddp_buckets.source
            yield Term(PartName.BUFFERS, Stage.ALWAYS, amount * factor, text, (amount, factor), source)
        case Parallel.ZERO1 | Parallel.ZERO2:
            bucket = min(known.bucket_elements.ends[end], trainable)
            text, source = "2 buckets × {:,.0f} × 2 B", known.bucket_elements.source
            yield Term(PartName.BUFFERS, Stage.ALWAYS, bucket * 4, text, (bucket,), source)
        case Parallel.ZERO3:
            yield _live(setting)
        case Parallel.FSDP:
            yield _gathered(setting)
    if training.method is Method.QLORA:
        counts = setting.model.counts
        unpacked = (counts.widest if end == LOW else counts.layer) / training.tensor_parallel
        text = "{:,.0f} weights unpacked × 2 B"
        yield Term(PartName.BUFFERS, Stage.RECOMPUTE, unpacked * 2, text, (unpacked,), _UNPACKED)
    if setting.residual > setting.compute:
        copied = setting.parameters
        text = "16-bit copies of {:,.0f} weights × 2 B"
        yield Term(PartName.BUFFERS, Stage.LOSS, copied * 2, text, (copied,), _AUTOCAST)
    if training.offload is Offload.NONE and not training.optimizer_in_backward:
        yield _step(setting)


def _live(setting: Setting) -> Term:
    """ZeRO 3: parameters gathered, and the largest matrix with its gradient."""
    counts, parallel = setting.model.counts, setting.training.tensor_parallel
    live = min(setting.known.live_elements.ends[setting.end], setting.parameters)
    largest = max(counts.embedding, counts.widest) / parallel
    text = "({:,.0f} gathered × 2 B + largest matrix {:,.0f} × 4 B)"
    return Term(PartName.BUFFERS, Stage.ALWAYS, live * 2 + largest * 4, text, (live, largest), _ZERO)


def _gathered(setting: Setting) -> Term:
    """FSDP: the layers at work, the tables, and one layer's gradients before they are reduced."""
    counts, layers = setting.model.counts, setting.known.gathered_layers.ends[setting.end]
    tables = max(counts.embedding, counts.head) if setting.end == LOW else counts.embedding + counts.head
    reduced = counts.layer if setting.training.method is Method.FULL else 0
    size, parallel = trained_bytes(setting), setting.training.tensor_parallel
    amount = ((counts.layer * layers + tables) * setting.compute + reduced * size) / parallel
    text = "(({} layers × {:,} + tables {:,}) × {} B + {:,} gradients × {} B) ÷ {}"
    numbers = (layers, counts.layer, tables, setting.compute, reduced, size, parallel)
    return Term(PartName.BUFFERS, Stage.ALWAYS, amount, text, numbers, _FSDP)


def _step(setting: Setting) -> Term:
    """The optimizer step: an engine makes 32-bit gradients for its masters, others may need scratch space."""
    training, known = setting.training, setting.known
    part = setting.trainable / (setting.sharing if training.parallel in SHARDED_STATES else 1)
    if setting.engine:
        if training.parallel is Parallel.ZERO3:
            part = min(part, known.sub_group_elements.ends[setting.end])
        return Term(PartName.BUFFERS, Stage.STEP, part * 4, "{:,.0f} gradients of the step × 4 B", (part,), _ZERO)
    size, factor = trained_bytes(setting), known.step_scratch.ends[setting.end]
    text, numbers = "{:,.0f} trained × {} B × {}", (part, size, factor)
    return Term(PartName.BUFFERS, Stage.STEP, part * size * factor, text, numbers, known.step_scratch.source)
