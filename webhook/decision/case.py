"""One job before the gates."""

from dataclasses import field

from webhook.decision.notes import Tell, untold
from webhook.decision.scope import Scope, scope
from webhook.decision.wishes import model_asked_for
from webhook.model.fleet import Fleet, Model
from webhook.model.frozen import frozen
from webhook.model.job import PinRecord, TrainingJob
from webhook.model.pods import Promise, Queued
from webhook.model.policy import PinWhen, Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.model.queues import NO_QUEUES, Queues
from webhook.model.rules import AcceleratorPool
from webhook.sizing.demand import Sized

PROMISED_FOR_S = 60
"""What a pin takes counts as in use for so long, or until its pods are bound."""


@frozen
class Case:
    """One job before the gates. `keep` is the pin recorded in the old object of an UPDATE: it stays while it passes;
    `on_update`: an UPDATE is never denied for room. `promises` are the pins given lately; `grouped`: the pod is one of
    several that are objects of their own; `queued` is what pods wait for that are to come to one model. `checking`:
    this is the final object, which is not held to a lack of room. `tell` hears what the decision goes through.

    `queues` are those in view. `pools` are the AcceleratorPools that the job may be given, in their order, and
    `pools_in_view` whether it is known which there are; `kept_in` is the one that an earlier answer gave it, where the
    job shows that it did. `pool_grows`: the job is in a pool that may get more nodes. `lessons` are what earlier runs
    teach about the job. `chosen` are the models that were chosen already, where only their nodes are still to choose
    from.
    """

    job: TrainingJob
    sized: Sized
    fleet: Fleet
    policy: Policy
    now: float
    keep: PinRecord | None = None
    on_update: bool = False
    promises: tuple[Promise, ...] = ()
    grouped: bool = False
    queued: Queued = field(default_factory=dict)
    checking: bool = False
    tell: Tell = untold
    queues: Queues = NO_QUEUES
    pools: tuple[AcceleratorPool, ...] = ()
    pools_in_view: bool = False
    kept_in: AcceleratorPool | None = None
    pool_grows: bool = False
    lessons: Lessons = NO_LESSONS
    chosen: tuple[Model, ...] = ()
    scope: Scope = field(init=False)
    """Whether the job is ours, and which gates apply."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", scope(self.job, self.policy))

    @property
    def may_mix(self) -> bool:
        """Whether coupled ranks may run on several models: the policy never pins, or lets the submitter's reason
        count."""
        return self.policy.pin_when is PinWhen.NEVER or (self.policy.allow_mixed and bool(self.job.wishes.allow_mixed))

    @property
    def wish(self) -> str:
        """The model that the submitter asks for, or nothing."""
        return model_asked_for(self.job, self.policy)

    @property
    def pool_asked_for(self) -> str:
        """The AcceleratorPool that the submitter asks for; empty where none is, or where policy does not listen."""
        return self.job.wishes.pool if self.policy.model else ""

    @property
    def grows(self) -> bool:
        """Whether nodes may be added where the job may land."""
        return self.pool_grows or bool(self.fleet.grows)

    @property
    def stale_s(self) -> float:
        """How far past the policy's limit the fleet's age is, as an age in seconds; 0 while it is fresh."""
        age = self.now - self.fleet.taken_at if self.fleet.taken_at is not None else 0.0
        return age if age > self.policy.stale_after_s else 0.0


def unbound(case: Case) -> list[Promise]:
    """What is promised to other jobs; nothing where what is free is not known. Pins given longer ago bind no more: the
    job may have been refused after us, or wait for something else."""
    if case.fleet.free is None:
        return []
    since = case.now - PROMISED_FOR_S
    namespace, name = case.job.namespace, case.job.name  # "ddp-*" while it is still to be generated: nobody's
    return [one for one in case.promises if one.given_at >= since and (one.job != name or one.namespace != namespace)]


def fleet_age(case: Case) -> dict[str, int]:
    return {"age_s": round(case.stale_s)}
