"""The pieces an estimate is made of: bytes, when they are there, and the formula that gave them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

LOW, LIKELY, HIGH = 0, 1, 2
"""The ends of an estimate: leanest, likely, heaviest. Constants are tuples indexed by them."""


class PartName(StrEnum):
    """What a person reads the memory as."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer states"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    BUFFERS = "buffers"
    CONTEXT = "context and communication"
    FRAGMENTATION = "fragmentation"


class Stage(StrEnum):
    """When the bytes are there.

    A step peaks in one of three places: where the loss meets the backward pass, with all that was saved and the
    logits; where there are no logits (any more), at the first layer that is computed again or on the first pipeline
    stage; or at the end, with all gradients and the optimizer's scratch space. torchtune's ladder of 3B figures shows
    the peak moving from one to the next.
    """

    ALWAYS = "always"
    LOSS = "at the loss"
    RECOMPUTE = "in the backward pass"
    STEP = "at the step"


class Term(NamedTuple):
    """`text` is the formula with `numbers` to put in; it is put together only where somebody asks."""

    part: PartName
    stage: Stage
    bytes: float
    text: str
    numbers: tuple[object, ...]
    source: str

    @property
    def formula(self) -> str:
        """The formula with its numbers."""
        return self.text.format(*self.numbers)


def at_peak(terms: Iterable[Term]) -> list[Term]:
    """The terms that are there where they add up to most."""
    terms = list(terms)
    stages = dict.fromkeys(_STAGES, 0.0)
    for term in terms:
        stages[term.stage] += term.bytes
    peak = max(_PEAKS, key=stages.__getitem__)
    return [term for term in terms if term.stage is peak or term.stage is Stage.ALWAYS]


_STAGES = tuple(Stage)
_PEAKS = (Stage.LOSS, Stage.RECOMPUTE, Stage.STEP)
