"""The story of a decision: where the job's pods may land and why, and how one candidate came to be chosen.

It is made of what the decision told while it was made (`notes.py`), and of the limits that its target pool is made of:
there is no second way to the same answer, which could be another one.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from webhook.decision.landing import Landing, landings
from webhook.decision.notes import Chosen, Kept, Keys, Note, Pooled, Pools, Rule, Unpinned
from webhook.decision.scope import Treatment, gates, scope
from webhook.decision.wishes import model_asked_for
from webhook.model.demand import DemandPart
from webhook.model.frozen import frozen
from webhook.model.verdict import Candidate, Out, Review
from webhook.sizing.demand import parts_of

_Kind = TypeVar("_Kind")


@frozen
class Gate:
    """One reason to be out; the candidates out for it, and those that this gate and those before it leave."""

    reason: Out
    out: tuple[Candidate, ...]
    left: tuple[Candidate, ...]


@frozen
class Story:
    """`rules` are what an UPDATE, or a child of a decided job, went by; `pools` the AcceleratorPools that were tried,
    `parts` what the demand is made of. What the decision did not come to is empty or None."""

    review: Review
    treatment: Treatment
    rules: tuple[Rule, ...]
    landings: tuple[Landing, ...]
    parts: tuple[DemandPart, ...]
    gates: tuple[Gate, ...]
    kept: Kept | None
    chosen: Chosen | None
    keys: Keys | None
    unpinned: Unpinned | None
    pools: Pools | None = None


class Listener:
    """Hears what one review tells: `review(request, world, listener)`."""

    def __init__(self) -> None:
        self._notes: list[Note] = []

    def __call__(self, note: Note) -> None:
        self._notes.append(note)

    def story(self, review: Review) -> Story | None:
        """The story of the review that it heard; None where there was no job to decide."""
        return _story(review, self._notes)


def _story(review: Review, notes: Sequence[Note]) -> Story | None:
    job = review.job
    if job is None:
        return None
    treatment = scope(job, review.policy).treatment
    # What was told of a pool that another one took the place of came to nothing.
    start = max((place for place, note in enumerate(notes) if isinstance(note, Pooled)), default=len(notes))
    counts = notes[start:]
    pooled = _last(counts, Pooled)
    return Story(
        review=review,
        treatment=treatment,
        rules=tuple(note for note in notes if isinstance(note, Rule)),
        landings=landings(pooled.pool) if pooled else (),
        parts=parts_of(job, review.policy, review.demand, review.micro_batch),
        gates=tuple(_gates(review, treatment)) if pooled else (),
        kept=_last(counts, Kept),
        chosen=_last(counts, Chosen),
        keys=_last(counts, Keys),
        unpinned=_last(counts, Unpinned),
        pools=_last(notes, Pools),
    )


def _last(notes: Sequence[Note], kind: type[_Kind]) -> _Kind | None:
    return next((note for note in reversed(notes) if isinstance(note, kind)), None)


def _gates(review: Review, treatment: Treatment) -> Iterator[Gate]:
    left = review.decision.pool.candidates
    standing = gates(treatment, review.policy)
    if review.job is not None and model_asked_for(review.job, review.policy):
        standing |= {Out.UNWISHED}
    if review.job is None or review.job.reach is None:
        standing -= {Out.QUOTA}
    if not any(one.ran_out for one in left):
        standing -= {Out.RAN_OUT}
    for reason in Out:
        if reason in standing:
            out = tuple(one for one in left if reason in one.out)
            left = tuple(one for one in left if reason not in one.out)
            yield Gate(reason, out, left)
