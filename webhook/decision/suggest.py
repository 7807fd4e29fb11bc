"""Ways out of a denial: changes of the object that were decided again and admitted.

Nothing here is promised from a formula: each proposal is applied to the object, and the result goes through the whole
review. What would be denied is not suggested.
"""

from collections.abc import Callable
from itertools import islice

import jsonpatch

from webhook.decision.moves import MOVES, Denial
from webhook.decision.scope import Treatment, scope
from webhook.model.demand import Demand, DemandSource
from webhook.model.fleet import Fleet, Model
from webhook.model.request import Object
from webhook.model.verdict import Review, Suggestion, Verdict

_MOST = 3
_MOST_TRIES = 16
_MOST_OF_ONE = 3


def suggest(denied: Review, fleet: Fleet, again: Callable[[Object], Review]) -> tuple[Suggestion, ...]:
    """At most three changes of different kinds, in the order of `MOVES`: the smallest first. `again` reviews a changed
    object without asking for suggestions; it is called at most 16 times."""
    if denied.job is None:
        return ()
    denial = Denial(denied, denied.job, fleet)
    found: list[Suggestion] = []
    tries = 0
    for move in MOVES:
        for kind, facts, operations, lands_on in islice(move(denial), _MOST_OF_ONE):
            if len(found) == _MOST or tries == _MOST_TRIES:
                return tuple(found)
            tries += 1
            try:
                changed = jsonpatch.apply_patch(denied.request.object, operations)
            except RecursionError:  # nested deeper than jsonpatch can copy: denied all the same, without a way out
                return ()
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):  # null where a map belongs
                continue
            outcome = again(changed)
            models = lands_on or _lands_on(outcome, denied)
            if outcome.verdict is not Verdict.DENY and models:
                found.append(Suggestion(kind, models[0], facts, operations, also=models[1:]))
                # One way of each kind, the first that holds: three times "a smaller batch" helps nobody.
                break
    return tuple(found)


def _lands_on(outcome: Review, denied: Review) -> tuple[Model, ...]:
    """What a changed job may land on; nothing where less is known of it now. Coupled ranks run on all models that are
    left, others, and those in a queue, on one of them."""
    models = outcome.decision.models
    if not models or not _told(outcome.demand, denied.demand):
        return ()
    treatment = scope(outcome.job, outcome.policy).treatment if outcome.job else Treatment.NONE
    return models if treatment is Treatment.ONE_MODEL and not _left_to_queue(outcome) else models[:1]


def _left_to_queue(outcome: Review) -> bool:
    reach = outcome.job.reach if outcome.job else None
    return reach is not None and bool(reach.flavors) and outcome.decision.candidate is None


def _told(now: Demand, before: Demand) -> bool:
    """A change after which less is known of the job is no way out: it would be admitted because it cannot be read. What
    was seen of runs is known of one recipe, and a change makes it another."""
    if DemandSource.OBSERVED in (now.source, before.source):
        return True
    return now.known >= before.known and now.may_deny >= before.may_deny
