"""Is it ours, and which gates apply."""

from enum import StrEnum

from webhook.model.frozen import frozen
from webhook.model.job import Coupling, TrainingJob
from webhook.model.policy import Policy, RoomRule
from webhook.model.verdict import Out


class Treatment(StrEnum):
    """NONE: admit. MEMORY_ONLY: independent pods. NOT_OUT: one node, kept off the models that are out. ONE_MODEL: all
    gates, one candidate."""

    NONE = "None"
    MEMORY_ONLY = "MemoryOnly"
    NOT_OUT = "NotOut"
    ONE_MODEL = "OneModel"


@frozen
class Scope:
    """`certain` is False where only the policy's `whenUnknown` says that the ranks are coupled: such a job is pinned
    but never denied for mixing or room."""

    coupling: Coupling
    treatment: Treatment
    certain: bool = True


_TREATMENT = {
    Coupling.SYNCHRONOUS: Treatment.ONE_MODEL,
    Coupling.ONE_NODE: Treatment.NOT_OUT,
    Coupling.INDEPENDENT: Treatment.MEMORY_ONLY,
}


def scope(job: TrainingJob, policy: Policy) -> Scope:
    """What to do with this job: its coupling as read, as its annotation says where that counts, or as policy assumes.

    Making a job more coupled is everyone's right; loosening it is the policy's (anyone could opt out otherwise).
    """
    # Of a part of a device the memory is what the pod asks for, not the card's (volcano#4712).
    if not job.device_roles or any(role.fraction for role in job.device_roles):
        return Scope(job.coupling, Treatment.NONE)
    wish = job.coupling_wish
    if wish is not None and (policy.coupling or wish is Coupling.SYNCHRONOUS):
        return Scope(wish, _TREATMENT.get(wish, Treatment.NONE))
    if job.coupling is Coupling.UNKNOWN:
        return Scope(policy.when_unknown, _TREATMENT.get(policy.when_unknown, Treatment.NONE), certain=False)
    return Scope(job.coupling, _TREATMENT.get(job.coupling, Treatment.NONE))


def is_decided(job: TrainingJob, found: Scope) -> bool:
    """Whether there is anything to decide of a job in this scope: it is ours, and no child of one that was decided."""
    return found.treatment is not Treatment.NONE and job.child_of is None


_EVERY_GATE = frozenset(Out) - {Out.UNWISHED}
_MEMORY = frozenset({Out.MEMORY, Out.RAN_OUT})
_BUT_ROOM = _EVERY_GATE - {Out.ROOM, Out.QUOTA}


def gates(treatment: Treatment, policy: Policy) -> frozenset[Out]:
    """What may leave a candidate out of those that the submitter's wish has left."""
    if treatment is not Treatment.ONE_MODEL:
        return _MEMORY
    # A model that a role's own selectors exclude is no matter of room.
    return _BUT_ROOM if policy.room is RoomRule.IGNORE else _EVERY_GATE
