"""What a review found and decided."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from webhook.model.demand import Demand
from webhook.model.finding import Finding
from webhook.model.fleet import Model
from webhook.model.frozen import frozen
from webhook.model.job import Reading, TrainingJob
from webhook.model.patch import Operation
from webhook.model.placement import Pointer, Requirement, Toleration
from webhook.model.policy import Language, Policy
from webhook.model.profile import NO_LESSONS, Fits, Lessons, RanOut
from webhook.model.queues import QueueName, Slot
from webhook.model.request import Request


class Verdict(StrEnum):
    """Admit leaves the object unchanged, Pin narrows it, Deny refuses it."""

    ADMIT = "Admit"
    PIN = "Pin"
    DENY = "Deny"


class Out(StrEnum):
    """Why a candidate cannot be chosen, in the order in which reasons are told.

    RAN_OUT: a run of the same training ran out of memory there, whatever was declared. UNREACHABLE: one role's own
    selectors leave no node of this model. UNWISHED: the submitter asked for another. QUOTA: what the job's queue may
    hold there at the most is less than the gang.
    """

    MEMORY = "memory"
    RAN_OUT = "ranOut"
    UNREACHABLE = "unreachable"
    UNWISHED = "unwished"
    QUOTA = "quota"
    ROOM = "room"


def named(models: Iterable[Model]) -> str:
    """What messages call models that count as one."""
    return " + ".join(model.name for model in models)


@frozen
class Candidate:
    """One model in the target pool, over all device roles, or several that count as one: `also` are the others.

    `memory_mib` is the least that a node of it reports and `usable_mib` that less the policy's reserve. `devices`
    counts what its nodes offer *there*, and `devices_now` what is free *now*; `waits` where the gang fits there and not
    into that. `left_now` is that less what pods without a node wait for: less than none where the queue is longer. Both
    are None where the pods are not in view.
    `short_role` names the role that could not be placed, and `pods` how many of its pods could be. `risk`: the demand's
    high end with headroom exceeds what is usable; `unlikely`: its likely figure does. `fits`: runs of the same training
    ended well on it, which goes before all figures, and `against` a figure that says otherwise. `ran_out`: devices ran
    out of memory there. `doubt`: they did, but once since a run ended well, or with a smaller micro-batch.
    """

    model: Model
    nodes: int
    memory_mib: float
    usable_mib: float
    devices: int
    devices_now: int | None = None
    left_now: int | None = None
    waits: bool = False
    out: tuple[Out, ...] = ()
    short_role: str = ""
    pods: int = 0
    risk: bool = False
    unlikely: bool = False
    also: tuple[Model, ...] = ()
    fits: Fits | None = None
    against: bool = False
    ran_out: RanOut | None = None
    doubt: RanOut | None = None

    @property
    def models(self) -> tuple[Model, ...]:
        return (self.model, *self.also)

    @property
    def name(self) -> str:
        """What messages call it."""
        return named(self.models) if self.also else self.model.name

    @property
    def doubted(self) -> bool:
        """Whether what is known of runs speaks against it, without putting it out."""
        return self.doubt is not None and self.fits is None

    @property
    def memory_out(self) -> bool:
        """It lacks the memory, by a figure or as a run showed, whatever else it lacks."""
        return Out.MEMORY in self.out or Out.RAN_OUT in self.out


def smallest(among: Iterable[Candidate]) -> Candidate:
    """The one with the least usable memory; there has to be one."""
    return min(among, key=lambda one: (one.usable_mib, one.name))


@frozen
class Pool:
    """The target pool of a job's device roles together: the nodes on which its pods may land, in any passing state.

    `nodes` counts them all; those of unknown model, those with devices of two models and those that offer only shares
    are counted beside the candidates.
    """

    candidates: tuple[Candidate, ...] = ()
    nodes: int = 0
    unknown_nodes: int = 0
    two_model_nodes: int = 0
    share_nodes: int = 0

    @property
    def smallest(self) -> Candidate | None:
        """The candidate with the least usable memory. Models without room for the gang count: unpinned ranks may land
        there."""
        return smallest(self.candidates) if self.candidates else None


@frozen
class Pin:
    """The selector that leaves the chosen models: nodeSelector for one value, required affinity for several.

    `roles` are the indexes of the job's roles to write it into. `ours` is False for a selector that is put back without
    our ever having chosen it: it gets no record. `moved_from` are the values of our earlier pin by the same key, which
    this one takes the place of. `beside` is written as well, so that a queue takes a flavor with the chosen models, or
    hosts and fabrics are one: it is recorded nowhere, and stands as if it were the submitter's.
    """

    key: str
    values: tuple[str, ...]
    roles: tuple[int, ...]
    ours: bool = True
    moved_from: tuple[str, ...] = ()
    beside: "Pin | None" = None

    @property
    def every(self) -> "tuple[Pin, ...]":
        """This one, and all that stand beside it."""
        return (self, *(self.beside.every if self.beside is not None else ()))


class Addition(NamedTuple):
    """What is added to the pod spec of one role; nothing where it has that already."""

    selector: tuple[tuple[str, str], ...] = ()
    expressions: tuple[Requirement, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    scheduler: str = ""


@frozen
class Given:
    """What a job gets with the pool that it is given: to each role, by its place in the job, what that lacks, and the
    `queue` where it names none, to be written into each of `slots`."""

    pool: str
    additions: tuple[tuple[int, Addition], ...] = ()
    queue: QueueName | None = None
    slots: tuple[Slot, ...] = ()

    @property
    def lacks_nothing(self) -> bool:
        return not self.additions and self.queue is None


class Waited(NamedTuple):
    """Ranks on this model were seen to wait for others so many percent of the time, the most of all models."""

    model: Model
    percent: float


@frozen
class Straggler:
    """What ranks on two models cost one another, estimated from the catalog's figures.

    `slow` and `fast` are the models that are farthest apart. Of each step, the ranks on `fast` wait `least` to `most`
    percent for those on `slow`, the one by bandwidth and the other by dense BF16 compute (`most_by_compute`);
    `unused_mib` is what every rank on the largest of the models cannot use of its memory, since the micro-batch has to
    fit the smallest. `seen` is what earlier runs showed where this job ran mixed, which no estimate is better than.
    """

    slow: Model
    fast: Model
    least_percent: float
    most_percent: float
    unused_mib: float
    most_by_compute: bool = True
    seen: Waited | None = None


@frozen
class Decision:
    """What a denying policy gives for one job. `models` are those left for it. `straggler` is what running on all
    models of the pool would cost, or costs where that is what the job does; None: one model, or figures not known.
    `pool_name` is the AcceleratorPool that it was decided in, empty where none counts, and `given` what the job gets
    with that, written with the pin; None: it has all of it, or gets nothing."""

    verdict: Verdict
    pool: Pool = Pool()
    pin: Pin | None = None
    models: tuple[Model, ...] = ()
    findings: tuple[Finding, ...] = ()
    straggler: Straggler | None = None
    pool_name: str = ""
    given: Given | None = None

    @property
    def candidate(self) -> Candidate | None:
        """The candidate that was chosen: the one that has all models that are left; None where there is none such."""
        left = set(self.models)
        return next((one for one in self.pool.candidates if left and left <= set(one.models)), None)


@frozen
class Suggestion:
    """A changed job that was decided again and admitted.

    `kind` names its text, `facts` fill it. `operations` are the RFC 6902 operations that make the change. It lands on
    `model`; coupled ranks on `also` too, where several models are left for them.
    """

    kind: str
    model: Model
    facts: dict[str, str | int]
    operations: tuple[Operation, ...]
    also: tuple[Model, ...] = ()


@frozen
class ExceptionUse:
    """An exception ("namespace/name") that changed what a policy does: by it the job is out of the policy's scope or,
    where there is a `code`, that code does not deny."""

    policy: str
    exception: str
    code: str = ""


@frozen
class Review:
    """Everything that `review()` has to say about one request.

    `policy` is the one that steers (without a name where none matches). `verdict` is what the object gets, `would_be`
    what it would get if every matching policy were a Deny policy; findings have the action that they have here. `job`
    is None where the object is none of our business or could not be read as a job; `because` then says why, and also
    where a job is left alone on its submitter's word. `micro_batch` is the one that the demand was computed with.
    """

    request: Request
    policy: Policy
    verdict: Verdict
    would_be: Verdict
    decision: Decision
    demand: Demand
    job: TrainingJob | None = None
    micro_batch: Reading | None = None
    suggestions: tuple[Suggestion, ...] = ()
    because: str = ""
    language: Language = Language.EN
    """What people read of it is written in this."""
    exceptions: tuple[ExceptionUse, ...] = ()
    """Those that made a difference."""
    lessons: Lessons = NO_LESSONS
    """What earlier runs teach about the job."""
    to_log: tuple[Pointer, ...] = ()
    """The containers that are to end with the last of their log as their termination message."""
    as_nobody: bool = False
    """It may have made a difference who created the object, which is not known any more: it was decided as for someone
    in no group."""
