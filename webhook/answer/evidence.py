"""Which earlier runs an answer rests on: for messages, audit logs, metrics and programs."""

from collections.abc import Iterator

from webhook.answer.wording import assumptions, phrase
from webhook.decision.findings import run_of, runs_of
from webhook.model.demand import DemandSource
from webhook.model.verdict import Review

FACTS = ("fits", "out", "peak", "slope")


def used(review: Review) -> tuple[str, ...]:
    """Those of FACTS that had a part in the answer: of a candidate, or of the demand."""
    if review.lessons.recipe is None:
        return ()
    candidates = review.decision.pool.candidates
    observed = review.demand.source is DemandSource.OBSERVED
    had = {
        "fits": any(one.fits for one in candidates),
        "out": any(one.ran_out or one.doubt for one in candidates),
        "peak": observed and not review.lessons.batches,
        "slope": observed and bool(review.lessons.batches),
    }
    return tuple(fact for fact in FACTS if had[fact])


def profiles_used(review: Review) -> tuple[str, ...]:
    """The names of the profiles that hold these, and the recipe's own where its peaks count."""
    found = [
        fact.profile for one in review.decision.pool.candidates for fact in (one.ran_out, one.fits, one.doubt) if fact
    ]
    if review.demand.source is DemandSource.OBSERVED:
        found += review.lessons.demand_from
    return tuple(dict.fromkeys(name for name in found if name))


def evidence(review: Review) -> str:
    """All of it in one line; empty where earlier runs had no part."""
    if not used(review):
        return ""
    return f"{', '.join(profiles_used(review))}: {'; '.join(_told(review))}"


def _told(review: Review) -> Iterator[str]:
    for one in review.decision.pool.candidates:
        if one.fits is not None:
            yield f"{one.name}: {phrase(runs_of(one.fits))}"
        out = one.ran_out or one.doubt
        if out is not None:
            yield f"{one.name} ran out of memory: {phrase(run_of(out))}"
    if review.demand.source is DemandSource.OBSERVED and review.demand.assumptions:
        yield assumptions(review)
    if review.decision.straggler is not None and review.decision.straggler.seen is not None:
        seen = review.decision.straggler.seen
        yield f"{seen.model.name} waited {seen.percent:.0f} % in mixed runs"
