"""How much device memory one rank of a training run needs: an interval with its parts."""

from collections.abc import Sequence

from webhook.catalog.models import Guess
from webhook.catalog.sizing import Sizing, sizing
from webhook.model.frozen import frozen
from webhook.sizing.activations import activations
from webhook.sizing.buffers import buffers
from webhook.sizing.largest import largest
from webhook.sizing.resolve import Setting, resolve
from webhook.sizing.states import states
from webhook.sizing.terms import HIGH, LIKELY, LOW, PartName, Stage, Term, at_peak
from webhook.sizing.training import Training

_MIB = 1 << 20
_PARTS = tuple(PartName)
_ALL = (LOW, LIKELY, HIGH)


@frozen
class Part:
    """One part of the memory at the peak, in MiB."""

    name: PartName
    low_mib: float
    likely_mib: float
    high_mib: float


@frozen
class Estimate:
    """Device memory of one rank in MiB, all in as `nvidia-smi` would show it; the parts add up to it. `guessed`: the
    model is known by a size in its name alone."""

    low_mib: float
    likely_mib: float
    high_mib: float
    parts: tuple[Part, ...]
    guessed: bool = False

    def end(self, end: int) -> float:
        """The figure at one of the three ends."""
        return (self.low_mib, self.likely_mib, self.high_mib)[end]

    def without(self, names: Sequence[str]) -> tuple[float, float, float]:
        """Low, likely and high less these parts: what a figure counts that leaves them out."""
        left = [part for part in self.parts if not part.name.startswith(tuple(names))] if names else self.parts
        return (
            sum(part.low_mib for part in left),
            sum(part.likely_mib for part in left),
            sum(part.high_mib for part in left),
        )


def estimate(training: Training, known: Sizing | None = None) -> Estimate:
    """The memory that one rank needs at the peak of a training step; `known` stands in for the catalog's constants.

    Monotone in micro-batch and sequence length at every end.
    """
    low, likely, high = _ends(training, known or sizing())
    parts = tuple(Part(name, low[name], likely[name], high[name]) for name in _PARTS)
    return Estimate(
        sum(low.values()), sum(likely.values()), sum(high.values()), parts, isinstance(training.model, Guess)
    )


def explain(training: Training) -> tuple[Term, ...]:
    """The terms of the likely estimate: bytes, formula with its numbers, and source."""
    return tuple(_at(training, LIKELY, sizing()))


def largest_micro_batch(training: Training, usable_mib: float, end: int = HIGH) -> int:
    """The largest micro-batch whose memory, at this end of the estimate, is at most `usable_mib`; 0 where none is.

    Exact: the next larger one needs more (2^20 is the largest that is looked at). What the run says of its micro-batch
    does not count.
    """
    fixed = {name: getattr(training, name) for name in Training.__slots__}

    def fits(micro_batch: int) -> bool:
        one = Training(**{**fixed, "micro_batch": micro_batch})
        return sum(_ends(one, sizing())[end].values()) <= usable_mib

    return largest(fits)


def parameter_bound_mib(parameters: float, shards: int) -> float:
    """The least that parameters alone take on each of `shards` devices, at half a byte each (4 bits)."""
    return parameters * 0.5 / max(1, shards) / _MIB


def _ends(training: Training, known: Sizing) -> list[dict[PartName, float]]:
    """MiB of each part at each end, by what they add up to: where nothing is told, the heaviest precision may save less
    of some things than the leanest (in 32 bits no copy of the softmax is cast)."""
    return sorted((_by_part(_at(training, end, known)) for end in _ALL), key=lambda parts: sum(parts.values()))


def _at(training: Training, end: int, known: Sizing) -> list[Term]:
    """The terms that are there at the peak, at one end, with what the process takes beside the allocator."""
    setting = resolve(training, end, known)
    terms = at_peak((*states(setting), *buffers(setting), *activations(setting)))
    return [*terms, *_process(setting, sum([term.bytes for term in terms]))]


def _process(setting: Setting, allocated: float) -> list[Term]:
    known, end = setting.known, setting.end
    slack = known.engine_slack if setting.engine else known.slack
    share = slack.ends[end]
    context = Term(
        PartName.CONTEXT,
        Stage.ALWAYS,
        known.context_mib.ends[end] * _MIB,
        "{:.0f} MiB",
        (known.context_mib.ends[end],),
        known.context_mib.source,
    )
    terms = [
        context,
        Term(
            PartName.FRAGMENTATION, Stage.ALWAYS, allocated * share, "{:,.0f} B × {}", (allocated, share), slack.source
        ),
    ]
    if setting.training.world_size > 1:
        mib = known.nccl_mib.ends[end]
        terms.append(
            Term(PartName.CONTEXT, Stage.ALWAYS, mib * _MIB, "{:.0f} MiB for NCCL", (mib,), known.nccl_mib.source)
        )
    return terms


def _by_part(terms: list[Term]) -> dict[PartName, float]:
    """MiB of each part."""
    parts = dict.fromkeys(_PARTS, 0.0)
    for term in terms:
        parts[term.part] += term.bytes / _MIB
    return parts
