"""Whether a candidate has the memory: as runs showed, else by the figures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from webhook.catalog.accelerators import canonical
from webhook.decision.likeness import MEMORY_PERCENT
from webhook.model.demand import Demand
from webhook.model.fleet import Model, Offered
from webhook.model.profile import Fits, Lessons, RanOut
from webhook.model.verdict import Out

Fact: TypeAlias = Fits | RanOut
Facts: TypeAlias = Mapping[Model, Fact]
Held: TypeAlias = tuple[float, Fact | None]
"""What is usable on one model in MiB, and what runs showed of it."""


class Weighed(NamedTuple):
    """What is said of a candidate's memory; as in Candidate."""

    out: tuple[Out, ...]
    unlikely: bool
    risk: bool
    fits: Fits | None = None
    against: bool = False
    ran_out: RanOut | None = None
    doubt: RanOut | None = None


def facts_of(offered: Mapping[Model, Offered], lessons: Lessons) -> Facts:
    """What runs showed of these models, by the least that their nodes report. A card of the same
    product with less memory than the one where a run ended well may be too small, and one with more than where it ran
    out may do."""
    if not (lessons.fits or lessons.out):
        return {}
    found: dict[Model, Fact] = {}
    for model, one in offered.items():
        least, _ = one.memory_mib
        product = canonical(model.product)
        fits, ran_out = lessons.fits.get(product), lessons.out.get(product)
        if fits is not None and least >= fits.memory_mib * (1 - MEMORY_PERCENT / 100):
            found[model] = fits
        elif ran_out is not None and least <= ran_out.memory_mib * (1 + MEMORY_PERCENT / 100):
            found[model] = ran_out
    return found


def lacks(usable_mib: float, fact: Fact | None, demand: Demand) -> Out | None:
    """Why a model has not the memory; None where nothing shows that. Runs of the job's own recipe go before all
    figures, those of a neighbour before none that may deny."""
    if fact is not None and fact.micro_batch is None:
        return Out.RAN_OUT if isinstance(fact, RanOut) else None
    return Out.MEMORY if demand.low_mib is not None and demand.low_mib > usable_mib and demand.may_deny else None


def weigh(each: Sequence[Held], demand: Demand, headroom_percent: float) -> Weighed:
    """Over all models of one candidate. Where runs ended well, figures are no risk."""
    if len(each) == 1 and each[0][1] is None:
        usable, out = each[0][0], lacks(*each[0], demand)
        return Weighed((out,) if out else (), _unlikely(usable, demand), _risk(usable, demand, headroom_percent))
    reasons = {lacks(usable, fact, demand) for usable, fact in each}
    doubted = min([usable for usable, fact in each if not isinstance(fact, Fits)], default=None)
    held = min([usable for usable, fact in each if isinstance(fact, Fits)], default=None)
    fits = [fact for _, fact in each if isinstance(fact, Fits)]
    out_there = [fact for _, fact in each if isinstance(fact, RanOut)]
    own = [one for one in out_there if one.micro_batch is None]
    doubts = [*(one.since for one in fits if one.since), *(one for one in out_there if one.micro_batch is not None)]
    return Weighed(
        out=tuple(one for one in (Out.MEMORY, Out.RAN_OUT) if one in reasons),
        unlikely=doubted is not None and _unlikely(doubted, demand),
        risk=doubted is not None and _risk(doubted, demand, headroom_percent),
        fits=fits[0] if len(fits) == len(each) else None,
        against=held is not None and (lacks(held, None, demand) is not None or _unlikely(held, demand)),
        ran_out=max(own, key=lambda one: one.at) if own else None,
        doubt=doubts[0] if doubts else None,
    )


def _unlikely(usable_mib: float, demand: Demand) -> bool:
    likely = demand.likely_mib or demand.low_mib  # of a bound there is only the low end
    return likely is not None and likely > usable_mib


def _risk(usable_mib: float, demand: Demand, headroom_percent: float) -> bool:
    high = demand.high_mib or demand.low_mib
    return high is not None and high * (1 + headroom_percent / 100) > usable_mib
