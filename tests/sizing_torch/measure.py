"""`python -m tests.sizing_torch.measure` measures the cases with PyTorch and writes figures.json beside it."""

# PyTorch is not among the project's dependencies, so there is nothing to check types against.
# mypy: ignore-errors

import json
from pathlib import Path

import torch

from tests.sizing_torch.blocks import Block, Model, saved_bytes
from tests.sizing_torch.cases import BATCH, CASES, LENGTH, SPECS, Case
from webhook.sizing.training import Precision

FIGURES = Path(__file__).parent / "figures.json"
_TYPES = {Precision.FP32: torch.float32, Precision.PURE: torch.bfloat16}


def saved(case: Case, *, recompute: bool = False) -> int:
    """Bytes that one block of this case keeps for the backward pass."""
    torch.manual_seed(0)
    dtype = _TYPES[case.precision]
    block = Block(SPECS[case.model], case.attention).to(dtype).train()
    x = torch.randn(BATCH, LENGTH, SPECS[case.model].hidden, dtype=dtype, requires_grad=True)
    return saved_bytes(block, x, recompute=recompute)


def state_bytes(model: str, precision: Precision) -> dict[str, int]:
    """Bytes of parameters, gradients and AdamW's states after one step; its step counters left out."""
    torch.manual_seed(0)
    network = Model(SPECS[model]).to(_TYPES[precision])
    optimizer = torch.optim.AdamW(network.parameters())
    ids = torch.randint(0, SPECS[model].vocab, (BATCH, LENGTH))
    network(ids).float().logsumexp(-1).mean().backward()
    optimizer.step()
    parameters = list(network.parameters())
    return {
        "weights": sum(one.nbytes for one in parameters),
        "gradients": sum(one.grad.nbytes for one in parameters if one.grad is not None),
        "optimizer states": sum(
            value.nbytes for state in optimizer.state.values() for name, value in state.items() if name != "step"
        ),
    }


def figures() -> dict[str, object]:
    """Everything that is measured."""
    return {
        "saved": {case.name: saved(case) for case in CASES},
        "recomputed": {case.name: saved(case, recompute=True) for case in CASES},
        "states": {
            f"{model}, {precision.value}": state_bytes(model, precision) for model in SPECS for precision in _TYPES
        },
    }


if __name__ == "__main__":
    FIGURES.write_text(json.dumps(figures(), indent=1) + "\n", "utf-8")
