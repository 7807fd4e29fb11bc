"""What earlier runs of a training teach about one job of it: facts of runs by model, and what their peaks come to.

Evidence is used with care, since most of it is weaker than it looks. An allocator keeps what it once got, so a peak is
an upper bound and no more; JAX takes 75 % of the card at once, TensorFlow nearly all of it, whatever they need
(https://docs.jax.dev/en/latest/gpu_memory_allocation.html). A run that ended well is a fact, and so is a device that
ran out of memory; but the latter may have had a neighbour on the card, and programs change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from operator import itemgetter
from typing import NamedTuple

from webhook.catalog.accelerators import canonical, short_name
from webhook.evidence.index import living
from webhook.model.demand import Demand, DemandSource
from webhook.model.finding import Phrase
from webhook.model.profile import (
    NO_LESSONS,
    Allocator,
    Fits,
    Lessons,
    Observation,
    OutOfMemory,
    Profile,
    Profiles,
    RanOut,
    Recipe,
)

OUT_FOR_S = 30 * 24 * 3600
"""Devices that ran out of memory put their model out for so long: programs, drivers and libraries change."""
AGREE_PERCENT = 10
"""Peaks on two sizes of card that differ by so much at the most were not made by the size of the card."""
FULL_PERCENT = 70
"""From here on, a peak of what preallocates is its share of the card: JAX takes 75 %."""
ONE_SIZE_PERCENT = 2
"""One product's memory differs by this much with ECC and drivers."""
LATEST_S = 300
"""Clocks differ: what was seen this much later than now was seen now; later than that, never."""
PEAK_PERCENT = 3
"""How far a peak is from its line at the least (one standard deviation): allocators take blocks of 2 to 20 MiB and
round up, and the monitoring samples."""
_MOST_SAMPLES = 2**31
_MOST_MIB = 2**43
"""The most that a quantity can say, 2^63 bytes."""
_MOST_NEIGHBOURS = 6


class _Seen(NamedTuple):
    """One profile's observation of a model; `neighbour` is the other micro-batch, where that is what it is of."""

    profile: Profile
    of: Observation
    neighbour: int | None = None


def lessons_of(recipe: Recipe, profiles: Profiles, namespace: str, now: float) -> Lessons:
    """What the profiles of this namespace teach about a job of this recipe, at `now` (seconds since the epoch). Pure;
    never raises, whatever stands in them.

    More samples need more memory, so a neighbour that ran out with a smaller micro-batch, or ended well with a larger
    one, says something of this job too, where its own runs say nothing: but less, since a neighbour may accumulate
    gradients otherwise, and keeps more or less besides.
    """
    own = living(profiles.by_digest.get((namespace, recipe.digest), ()), now)
    near = living(_neighbours(recipe, profiles.by_family.get((namespace, recipe.family), ())), now, _MOST_NEIGHBOURS)
    if not own and not near:
        return NO_LESSONS
    by_product: dict[str, list[_Seen]] = {}
    for one in _seen(own, near):
        by_product.setdefault(canonical(one.of.product), []).append(one)
    facts = {product: _fact(seen, recipe.micro_batch or 0, now) for product, seen in by_product.items()}
    line = None
    demand = _peaks(own)
    if demand is None and near and recipe.micro_batch is not None:
        line = _line(by_product, recipe.micro_batch)
        demand = line.demand if line is not None else None
    return Lessons(
        recipe=recipe,
        fits={product: fact for product, fact in facts.items() if isinstance(fact, Fits)},
        out={product: fact for product, fact in facts.items() if isinstance(fact, RanOut)},
        demand=demand,
        demand_from=() if demand is None else line.profiles if line is not None else tuple(one.name for one in own),
        batches=line.batches if line is not None else (),
        mixed=dict(_waits(by_product)),
    )


def _neighbours(recipe: Recipe, family: Iterable[Profile]) -> Iterator[Profile]:
    """The profiles of the same training with another micro-batch, the nearest first."""
    mine = recipe.micro_batch
    if mine is None or not 0 < mine < _MOST_SAMPLES:
        return
    # By distance, then batch and name: of two names alike there is one in a namespace.
    near = [
        (abs(batch - mine), batch, one.name, one)
        for one in family
        if (batch := one.recipe.micro_batch) is not None and 0 < batch < _MOST_SAMPLES and batch != mine
    ]
    yield from (one for *_, one in sorted(near, key=itemgetter(0, 1, 2)))


def _seen(own: Iterable[Profile], near: Iterable[Profile]) -> Iterator[_Seen]:
    for one in own:
        yield from (_Seen(one, of) for of in one.observations)
    for one in near:
        yield from (_Seen(one, of, one.recipe.micro_batch) for of in one.observations)


def _fact(seen: Sequence[_Seen], batch: int, now: float) -> Fits | RanOut | None:
    """Whether the model is known to hold the job, or not to. None: neither, by its own runs or its neighbours'."""
    own = [one for one in seen if one.neighbour is None]
    larger = [one for one in seen if one.neighbour is not None and one.neighbour > batch]
    smaller = [one for one in seen if one.neighbour is not None and one.neighbour < batch]
    return _settled(own, own, now) or _settled(larger, smaller, now)


def _settled(holding: Iterable[_Seen], running_out: Iterable[_Seen], now: float) -> Fits | RanOut | None:
    good = [(at, one) for one in holding if one.of.runs > 0 and _is_past(at := one.of.good_at, now) and at is not None]
    last, well = max(good, key=itemgetter(0), default=(None, None))
    events = ((event, one) for one in running_out if (event := _lately(one.of.out_of_memory, now)))
    newer = [(event, one) for event, one in events if last is None or event.at > last]
    event, there = max(newer, key=lambda pair: pair[0].at, default=(None, None))
    ran_out = _ran_out(there, event) if there is not None and event is not None else None
    if well is None or last is None or any(event.in_a_row > 1 for event, _ in newer):
        return ran_out
    return Fits(well.of.runs, last, well.of.memory_mib, well.profile.name, well.neighbour, ran_out)


def _ran_out(one: _Seen, event: OutOfMemory) -> RanOut:
    return RanOut(event.at, event.job, event.in_a_row, one.of.memory_mib, one.profile.name, one.neighbour)


def _lately(event: OutOfMemory | None, now: float) -> OutOfMemory | None:
    return event if event is not None and _is_past(event.at, now) and now - event.at <= OUT_FOR_S else None


def _is_past(at: float | None, now: float) -> bool:
    return at is not None and 0 <= at <= now + LATEST_S


def _waits(by_product: Mapping[str, Iterable[_Seen]]) -> Iterator[tuple[str, float]]:
    """What ranks of each model were seen to wait; of neighbours nothing, since that depends on the batch."""
    for product, seen in by_product.items():
        parts = [one.of.imbalance for one in seen if one.neighbour is None]
        known = [one for one in parts if one is not None and 0 <= one <= 1]
        if known:
            yield product, max(known)


def _peak(one: _Seen) -> float | None:
    """What each rank held at the most in runs that ended well; None where the figure says nothing.

    Where it is not known how memory is taken, it is taken for what says less. More than the card has is no peak but a
    mistake, in the unit say.
    """
    peak, memory = one.of.peak_mib, one.of.memory_mib
    if peak is None or one.of.runs < 1 or not memory < _MOST_MIB:
        return None
    if not 0 < peak <= memory * (1 + ONE_SIZE_PERCENT / 100):
        return None
    caching = one.profile.recipe.allocator is Allocator.CACHING
    return peak if caching or peak < memory * FULL_PERCENT / 100 else None


def _peaks(own: Iterable[Profile]) -> Demand | None:
    """What the recipe's own peaks come to: the least of them is a high end, since a run ended well with it. It is the
    likely figure too where a card of another size shows the same."""
    found = sorted(
        ((peak, one) for one in _seen(own, ()) if (peak := _peak(one)) is not None),
        key=lambda pair: (pair[0], pair[1].of.memory_mib, pair[1].of.product),
    )
    if not found:
        return None
    least, first = found[0]
    alike = [(peak, one) for peak, one in found[1:] if _other_size(one.of, first.of) and _agree(least, peak)]
    if not alike:
        said = Phrase("seen_peak", {"most": _gib(least), "model": _name(first.of), "runs": first.of.runs})
        return Demand(None, None, least, DemandSource.OBSERVED, may_deny=False, assumptions=(said,))
    most, other = alike[-1]
    facts = {"low": _gib(least), "model": _name(first.of), "most": _gib(most), "other": _name(other.of)}
    said = Phrase("seen_peaks", facts)
    return Demand(None, least, most, DemandSource.OBSERVED, may_deny=False, assumptions=(said,))


def _other_size(one: Observation, other: Observation) -> bool:
    less, more = sorted((one.memory_mib, other.memory_mib))
    return more > less * (1 + ONE_SIZE_PERCENT / 100)


def _agree(less: float, more: float) -> bool:
    return more - less <= more * AGREE_PERCENT / 100


@dataclass(frozen=True, slots=True)
class _Line:
    """What the peaks of neighbours come to for one micro-batch: on a straight line, with its uncertainty."""

    demand: Demand
    batches: tuple[int, ...]
    width: float
    profiles: tuple[str, ...] = ()


def _line(by_product: Mapping[str, Sequence[_Seen]], batch: int) -> _Line | None:
    """The narrowest of the lines that each model's peaks give: what an allocator keeps depends on the card."""
    lines = []
    held: list[float] = []
    for _, seen in sorted(by_product.items()):
        points: dict[int, float] = {}
        names = []
        for one in seen:
            peak = _peak(one)
            if peak is not None and one.neighbour is not None:
                points[one.neighbour] = max(peak, points.get(one.neighbour, 0))
                names.append(one.profile.name)
        held += [peak for other, peak in points.items() if other > batch]
        if len(points) > 1:
            lines.append((_name(seen[0].of), points, tuple(dict.fromkeys(names))))
    # What was enough for more samples is enough for fewer.
    most = min(held, default=None)
    found = ((_through(points, batch, name, most), profiles) for name, points, profiles in lines)
    known = (replace(line, profiles=profiles) for line, profiles in found if line is not None)
    return min(known, key=lambda one: one.width, default=None)


def _through(points: Mapping[int, float], batch: int, model: str, most: float | None) -> _Line | None:
    """Least squares through the peaks by micro-batch. Two points have no scatter of their own, and peaks scatter, so
    that they have some is assumed; the uncertainty widens with the distance from what was seen. Nothing where the line
    falls, or starts so far below nothing that no scatter explains it."""
    count = len(points)
    middle, mean = sum(points) / count, sum(points.values()) / count
    spread = sum((at - middle) ** 2 for at in points)
    slope = sum((at - middle) * (peak - mean) for at, peak in points.items()) / spread
    fixed = mean - slope * middle
    scatter = sum((peak - fixed - slope * at) ** 2 for at, peak in points.items())
    deviation = max(sqrt(scatter / (count - 2)) if count > 2 else 0.0, mean * PEAK_PERCENT / 100)

    def uncertain(at: float) -> float:
        return 2 * deviation * sqrt(1 / count + (at - middle) ** 2 / spread)

    if slope <= 0 or fixed < -uncertain(0):
        return None
    likely, width = fixed + slope * batch, uncertain(batch)
    high = likely + width
    if most is not None:
        likely, high = min(likely, most), min(high, most)
    low = max(min(likely, fixed + slope * batch - width), 0.0)
    facts = {"batches": _several(sorted(points)), "model": model, "fixed": _gib(max(fixed, 0)), "each": f"{slope:.0f}"}
    said = Phrase("seen_line", facts)
    demand = Demand(low, likely, high, DemandSource.OBSERVED, may_deny=False, assumptions=(said,))
    return _Line(demand, tuple(sorted(points)), width)


def _several(batches: Sequence[int]) -> str:
    return ", ".join(map(str, batches[:3])) + (f", … {batches[-1]}" if len(batches) > 3 else "")


def _name(of: Observation) -> str:
    return short_name(of.product)


def _gib(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB"
