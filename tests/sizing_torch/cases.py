"""What is measured with PyTorch, and what the formulas say of it; needs no PyTorch."""

from dataclasses import replace
from typing import NamedTuple

from webhook.catalog.models import ModelSpec, models
from webhook.catalog.sizing import sizing
from webhook.sizing.activations import layer
from webhook.sizing.resolve import Setting, resolve
from webhook.sizing.states import states
from webhook.sizing.terms import LIKELY, PartName
from webhook.sizing.training import Attention, Checkpointing, Optimizer, Precision, Training

BATCH, LENGTH = 2, 128


def _small(name: str, *, kv_heads: int, ffn: int, positions: int) -> ModelSpec:
    """A small model built as the public one of this name is."""
    spec = models().find(name)
    assert spec is not None
    shape = replace(spec, layers=2, vocab=512, hidden=128, heads=4, head_dim=32)
    return replace(shape, kv_heads=kv_heads, ffn=ffn, positions=positions)


SPECS = {
    "gpt2": _small("gpt2", kv_heads=4, ffn=512, positions=128),
    "llama": _small("meta-llama/Llama-3.1-8B", kv_heads=2, ffn=448, positions=0),
    "bert": _small("bert-base-uncased", kv_heads=4, ffn=512, positions=128),
}


class Case(NamedTuple):
    """One block, how it attends, and in which precision it computes."""

    model: str
    attention: Attention
    precision: Precision

    @property
    def name(self) -> str:
        return f"{self.model}, {self.attention.value}, {self.precision.value}"

    @property
    def setting(self) -> Setting:
        return resolve(
            Training(
                SPECS[self.model],
                BATCH,
                LENGTH,
                precision=self.precision,
                optimizer=Optimizer.ADAMW,
                checkpointing=Checkpointing.NONE,
                attention=self.attention,
                compiled=False,
                accumulation=2,
            ),
            LIKELY,
            sizing(),
        )

    @property
    def saved_bytes(self) -> float:
        """What the formulas say that one block saves."""
        one = layer(self.setting)
        return self.setting.tokens * (one.replicated + one.split + one.scores * LENGTH)

    @property
    def input_bytes(self) -> float:
        """What is left of it under recompute."""
        return self.setting.tokens * self.setting.model.hidden * self.setting.residual


CASES = tuple(
    Case(model, attention, precision)
    for model in SPECS
    for attention in (Attention.SDPA, Attention.EAGER)
    for precision in (Precision.FP32, Precision.PURE)
)


def state_bytes(model: str, precision: Precision) -> dict[str, int]:
    """Bytes of parameters, gradients and optimizer states of a small model, as the formulas say."""
    setting = Case(model, Attention.SDPA, precision).setting
    parts = {PartName.WEIGHTS: 0.0, PartName.GRADIENTS: 0.0, PartName.OPTIMIZER: 0.0}
    for term in states(setting):
        if term.part in parts:
            parts[term.part] += term.bytes
    return {name.value: round(amount) for name, amount in parts.items()}
