"""What a training run says of itself, as far as its memory depends on it."""

from dataclasses import dataclass
from enum import StrEnum

from webhook.catalog.models import Guess, ModelSpec


class Method(StrEnum):
    """Which parameters are trained: all of them, or adapters on a frozen model (QLoRA: frozen in 4 bits)."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


class Precision(StrEnum):
    """PURE: everything in 16 bits, states of the optimizer too. MIXED: 16-bit compute, 32-bit weights or masters.
    FP32: everything in 32 bits."""

    PURE = "pure"
    MIXED = "mixed"
    FP32 = "fp32"


class Optimizer(StrEnum):
    """How much the optimizer remembers of each parameter. PAGED states may be moved to the host by the driver."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw-8bit"
    PAGED_ADAMW = "paged-adamw"
    PAGED_ADAMW_8BIT = "paged-adamw-8bit"
    ADAFACTOR = "adafactor"
    MOMENTUM = "momentum"
    SGD = "sgd"


class Parallel(StrEnum):
    """How data-parallel ranks share weights, gradients and optimizer states."""

    SINGLE = "single"
    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    FSDP = "fsdp"


class Checkpointing(StrEnum):
    """What is saved for the backward pass: everything, every other matrix product (op-level selective activation
    checkpointing, PyTorch), or only each layer's input."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Attention(StrEnum):
    """FLASH keeps grouped keys and values as they are, SDPA may repeat them, EAGER saves the scores as well."""

    FLASH = "flash"
    SDPA = "sdpa"
    EAGER = "eager"


class Offload(StrEnum):
    """What lies in the host's memory between uses."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    ALL = "all"


class Loss(StrEnum):
    """Over which part of the logits cross entropy is computed at once; FUSED never makes them whole."""

    WHOLE = "whole"
    CHUNKED = "chunked"
    FUSED = "fused"


class Target(StrEnum):
    """A matrix of a layer that an adapter may sit on."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    OUT = "out"
    GATE = "gate"
    UP = "up"
    DOWN = "down"


EVERY_TARGET = frozenset(Target)
QUERY_AND_VALUE = frozenset({Target.QUERY, Target.VALUE})


@dataclass(frozen=True, slots=True)
class Training:
    """One rank's share of a training run.

    None means not known: the low end of the estimate then takes the leanest that is documented, the high end the
    heaviest that is usual. `world_size` counts all ranks; `shards` (FSDP, ZeRO) is how many of them share one copy,
    None for all that data parallelism leaves. `micro_batch` is samples on one device in one pass, `seq_len` tokens a
    sample; `packed` says whether samples fill it (False: it is a cap). `accumulation` counts passes before a step.
    `fp32_gradients`: gradients of 16-bit weights add up in 32 bits (Megatron's `--accumulate-allreduce-grads-in-fp32`,
    which bf16 turns on; DeepSpeed's `data_types.grad_accum_dtype`).
    """

    model: ModelSpec | Guess
    micro_batch: int
    seq_len: int | None
    method: Method = Method.FULL
    precision: Precision | None = None
    optimizer: Optimizer | None = None
    parallel: Parallel = Parallel.SINGLE
    world_size: int = 1
    shards: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    sequence_parallel: bool | None = None
    accumulation: int | None = None
    checkpointing: Checkpointing | None = None
    attention: Attention | None = None
    offload: Offload = Offload.NONE
    activation_offload: bool = False
    optimizer_in_backward: bool = False
    compiled: bool | None = None
    loss: Loss | None = Loss.WHOLE
    fp32_gradients: bool | None = None
    packed: bool | None = True
    adapter_rank: int | None = None
    adapter_targets: frozenset[Target] | None = None
    adapter_dropout: bool | None = None

    @property
    def data_parallel(self) -> int:
        """How many replicas of the model's shards there are to share states among."""
        return max(1, self.world_size // (self.tensor_parallel * self.pipeline_parallel * self.context_parallel))

    @property
    def sharing(self) -> int:
        """Ranks that share one copy. Context-parallel ranks hold the same weights, so they share too."""
        most = self.data_parallel * self.context_parallel
        return min(self.shards, most) if self.shards else most
