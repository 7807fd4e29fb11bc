"""From a sized job to a decision: the gates in their order, then the choice, then the pin."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import TypeAlias

from webhook.catalog.accelerators import accelerators
from webhook.decision.choice import choose, names_model
from webhook.decision.nearest import value_meant
from webhook.decision.notes import Kept, Keys, Pooled, Rule, Tell, Unpinned, untold
from webhook.decision.pin import pin_to, separating
from webhook.decision.pool import TargetPool, candidates, free_now, likes, packs, target_pool, together, told, waits
from webhook.decision.queues import (
    Steered,
    flavors_tried,
    keeps_to,
    left_to_queue,
    pin_in_queue,
    queue_chooses,
    queued,
    strays,
)
from webhook.decision.sameness import differences
from webhook.decision.scope import Scope, Treatment, scope
from webhook.decision.stack import stack_findings
from webhook.decision.straggler import straggler
from webhook.decision.wishes import model_asked_for, narrowed_to, unmet
from webhook.fleet.limits import BySelector
from webhook.fleet.select import placed
from webhook.model.finding import Action, Facts, Finding
from webhook.model.fleet import Fleet, Model
from webhook.model.job import PinRecord, TrainingJob
from webhook.model.paths import dotted, printable
from webhook.model.pods import Promise, Queued
from webhook.model.policy import Differing, PinWhen, Policy, RoomRule, UnknownNodes
from webhook.model.queues import NO_QUEUES, Queues
from webhook.model.rules import AcceleratorPool
from webhook.model.verdict import Candidate, Decision, Out, Pin, Pool, Straggler, Verdict, named
from webhook.sizing.demand import Sized

PROMISED_FOR_S = 60
"""What a pin takes counts as in use for so long, or until its pods are bound."""

_NO_FACTS: Facts = {}
_EVERY_GATE = frozenset(Out) - {Out.UNWISHED}
_MEMORY = frozenset({Out.MEMORY})
_BUT_ROOM = _EVERY_GATE - {Out.ROOM, Out.QUOTA}

ALLOW_MIXED = "samestep.dev/allow-mixed"

SPREAD_PERCENT = 2
"""One product's memory may differ by this much (ECC, drivers) before it is worth telling."""


@dataclass(frozen=True, slots=True)
class Case:
    """One job before the gates. `keep` is the pin recorded in the old object of an UPDATE: it stays while it passes;
    `on_update`: an UPDATE is never denied for room. `promises` are the pins given lately; `grouped`: the pod is one of
    several that are objects of their own; `queued` is what pods wait for that are to come to one model. `checking`:
    this is the final object, which is not held to a lack of room. `tell` hears what the decision goes through.

    `queues` are those in view. `pools` are the AcceleratorPools that the job may be given, in their order, and
    `pools_in_view` whether it is known which there are; `kept_in` is the one that an earlier answer gave it, where the
    job shows that it did. `pool_grows`: the job is in a pool that may get more nodes.
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

    @property
    def scope(self) -> Scope:
        return scope(self.job, self.policy)

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


def decide(case: Case) -> Decision:
    """The decision at CREATE (and anew at an UPDATE of a job that has not started)."""
    treatment = case.scope.treatment
    if case.job.child_of is not None:
        return _child(case)
    if treatment is Treatment.NONE:
        return Decision(Verdict.ADMIT)
    pool = target_pool(case.job, case.fleet)
    decision = decide_in(pool, case)
    beside = (*stack_findings(pool, case.job, decision.models), *_queue_not_in_view(case.job))
    return replace(decision, findings=(*decision.findings, *beside)) if beside else decision


def decide_in(pool: TargetPool, case: Case) -> Decision:
    """The decision in a pool that has been computed (the validating stage leaves out models it has just met)."""
    case.tell(Pooled(pool))
    treatment = case.scope.treatment
    gang = treatment is Treatment.ONE_MODEL
    weighed = candidates(pool, case.sized.demand, case.policy, gang=gang, promises=_unbound(case), queued=case.queued)
    weighed = narrowed_to(weighed, case.wish)
    figures = told(pool, weighed)
    if not pool.nodes:
        return Decision(Verdict.ADMIT, figures, findings=(no_node(case.job, case.fleet),))
    asked_for = tuple(one for one in weighed if Out.UNWISHED not in one.out)
    if case.wish and not asked_for:
        return _unmet(pool, case, weighed, figures)
    vendors = _vendors(pool)
    if len(vendors) > 1 and treatment is Treatment.ONE_MODEL:
        told_by = ", ".join(f"{vendor} ({role})" for vendor, role in vendors.items())
        return Decision(Verdict.DENY, figures, findings=(Finding("SST501", facts={"vendors": told_by}),))
    if not weighed:
        return Decision(Verdict.ADMIT, figures, findings=_nothing_known(pool, treatment))
    if treatment is not Treatment.ONE_MODEL:
        return _gated(pool, case, asked_for, figures, _TREAT[treatment])
    # A model that is asked for is one model.
    mixes = (
        case.may_mix
        and (len(weighed) > 1 or is_mixed(pool, case.policy))
        and (not case.wish or case.policy.pin_when is PinWhen.NEVER)
    )
    decision = _mixed(pool, case) if mixes else _gated(pool, case, asked_for, figures, _one_model)
    slowed = slowing(pool)
    return replace(decision, straggler=slowed) if slowed else decision


def is_mixed(pool: TargetPool, policy: Policy) -> bool:
    """Whether the pool holds more than the nodes of models that count as one."""
    return len(likes(pool, policy)) > 1 or pool.nodes != pool.of(pool.models)


def slowing(pool: TargetPool) -> Straggler | None:
    """What running on all models of the pool would cost."""
    if len(pool.models) < 2:
        return None
    return straggler({model: least for model, (least, _) in pool.memory_mib.items()})


def _gated(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool, treat: "_Treat") -> Decision:
    if all(one.memory_out for one in weighed):
        return _memory_denies(pool, case, figures)
    return treat(pool, case, weighed, figures)


def gates(treatment: Treatment, policy: Policy) -> frozenset[Out]:
    """What may leave a candidate out of those that the submitter's wish has left."""
    if treatment is not Treatment.ONE_MODEL:
        return _MEMORY
    # A model that a role's own selectors exclude is no matter of room.
    return _BUT_ROOM if policy.room is RoomRule.IGNORE else _EVERY_GATE


def no_node(job: TrainingJob, fleet: Fleet) -> Finding:
    """No node in view could ever hold a pod: a typo, an empty autoscaled pool and a node being replaced look alike.

    Where an entry of the nodeSelector is met by no node at all, it is that, with the value that was probably meant.
    """
    role = job.device_roles[0]
    for limit in placed(fleet, role.placement):
        if isinstance(limit, BySelector) and not limit.nodes:
            where = dotted((*role.spec, "nodeSelector", limit.key))
            if meant := value_meant(limit, fleet):
                return Finding("SST403", where, {"key": limit.key, "values": meant}, "selector-like")
            return Finding("SST403", where, {"key": limit.key, "value": printable(limit.value)}, "selector")
    return Finding("SST403", dotted(role.spec), {"devices": role.devices, "device": role.device, "role": role.name})


def _vendors(pool: TargetPool) -> dict[str, str]:
    """Whose devices are asked for, be they there or not: by vendor, in order of names, the first role that does."""
    asked: dict[str, str] = {}
    for one in pool.roles:
        if vendor := accelerators().vendor_of(one.role.device):
            asked.setdefault(vendor.name, one.role.name)
    return dict(sorted(asked.items()))


def memory_withheld(pool: TargetPool, case: Case) -> str:
    """Why nothing may be denied for memory: the variant of the finding's text, empty where denial stands."""
    if (pool.unknown or pool.two_models) and case.policy.unknown_nodes is UnknownNodes.WITHHOLD:
        return "unknown"
    return "stale" if case.stale_s else ""


def out_of_memory(case: Case) -> Finding:
    """No model has the memory; it points at the micro-batch, or at the annotations that declare the demand."""
    return Finding("SST201", case.sized.micro_batch.field if case.sized.micro_batch else "metadata.annotations")


def _memory_denies(pool: TargetPool, case: Case, figures: Pool) -> Decision:
    if withheld := memory_withheld(pool, case):
        finding = replace(out_of_memory(case), facts=_age(case), variant=withheld, action=Action.WARN)
        return Decision(Verdict.ADMIT, figures, findings=(finding,))
    return Decision(Verdict.DENY, figures, findings=(out_of_memory(case),))


def _unmet(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """What was asked for is not there. Like a model that the job's own selectors exclude, none other is chosen."""
    nowhere = () if weighed else _nothing_known(pool, case.scope.treatment)
    withheld = memory_withheld(pool, case) or ("grows" if case.grows else "update" if case.on_update else "")
    if not weighed:
        withheld = "unknown"
    finding = unmet(case.job, weighed, withheld)
    finding = replace(finding, facts={**finding.facts, **_age(case)})
    verdict = Verdict.ADMIT if withheld else Verdict.DENY
    return Decision(verdict, figures, findings=(finding, *nowhere))


def _one_model(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """Coupled ranks: one candidate with memory and room for the gang."""
    policy = case.policy
    fitting = tuple(one for one in weighed if not one.memory_out)
    standing = gates(Treatment.ONE_MODEL, policy)
    roomy = tuple(one for one in fitting if standing.isdisjoint(one.out))
    findings: list[Finding] = []
    if not roomy:
        withheld = _room_withheld(pool, case)
        reachable = tuple(one for one in fitting if Out.UNREACHABLE not in one.out)
        if not withheld:
            lacking = "SST201" if len(fitting) < len(weighed) else "SST401"
            finding = Finding(lacking, dotted(case.job.device_roles[0].spec))
            return Decision(Verdict.DENY, figures, findings=(finding,))
        findings.append(Finding("SST401", "", _age(case), withheld, Action.WARN))
        if withheld in ("unknown", "stale") or not reachable:
            return Decision(Verdict.ADMIT, figures, findings=tuple(findings))
        roomy = reachable
    if queue_chooses(pool, case.job, (one.models for one in figures.candidates)):
        decision = _left_to_queue(pool, case, weighed, roomy, figures, findings)
        if decision is not None:
            return decision
    kept = names_model(case.keep, pool)
    chosen = next((one for one in roomy if kept(one)), None)
    if case.keep is not None and chosen is None:
        findings.append(Finding("SST105", facts={"values": ", ".join(case.keep.values)}))
    if case.keep is not None and chosen is not None:
        case.tell(Kept(case.keep, chosen))
    if chosen is None:
        best = partial(choose, roomy, case.sized.demand, policy, names_model(case.job.record, pool), tell=case.tell)
        chosen = best(grouped=case.grouped)
        # Where the best is none that the queue may miss, it is the best of those.
        if queued(pool) and _missed(pool, case, chosen):
            missed = tuple(one for one in roomy if _missed(pool, case, one))
            chosen = best(grouped=case.grouped, missed=missed)
    findings.extend(_of_chosen(pool, case, weighed, chosen))
    findings.extend(_room_now(pool, case, chosen))
    alone = pool.nodes == pool.of(chosen.models)
    needless = policy.pin_when is not PinWhen.ALWAYS or case.may_mix
    if alone and needless and not _keeps_queue_off(pool, case, chosen):
        case.tell(Unpinned.ALONE)
        return Decision(Verdict.ADMIT, figures, models=chosen.models, findings=tuple(findings))
    # Where there was a choice, the pin says what it rests on.
    variant = "" if len(roomy) == 1 or case.grouped else "chosen" if chosen.devices_now is None else "free"
    return _pinned(pool, case, (chosen,), figures, findings, variant, gang=True)


def _left_to_queue(
    pool: TargetPool,
    case: Case,
    weighed: tuple[Candidate, ...],
    left: tuple[Candidate, ...],
    figures: Pool,
    findings: list[Finding],
) -> Decision | None:
    """The queue chooses among its flavors, each of one candidate: it is only kept off those that are out. None where no
    label of the flavors can do that."""
    room = _looks_at_room(case) and not findings
    barred = (one for one in figures.candidates if one.memory_out or Out.UNWISHED in one.out)
    flavors = left_to_queue(pool, _models(left), _models(barred), room=room)
    told_of = tuple(one for one in left if not flavors.models.isdisjoint(one.models))
    models = tuple(model for model in _models(told_of) if model in flavors.models)
    told = (*findings, *_smallest(weighed), *_unknown(case, weighed), *_tight(told_of))
    unpinned = Decision(Verdict.ADMIT, figures, models=models, findings=told)
    if case.policy.pin_when is PinWhen.NEVER or not (flavors.keeps_off or case.policy.pin_when is PinWhen.ALWAYS):
        case.tell(Unpinned.QUEUE)
        return unpinned
    keys = tuple(flavors_tried(pool, flavors.nodes, case.policy, gang=True, room=room))
    pin = separating(keys)
    if pin is None:
        return None
    case.tell(Keys(keys, flavors.nodes.bit_count(), pin))
    if not pin.roles:
        return unpinned
    return _pins(case, pin, models, _names(told_of, models), figures, told, "flavors")


def _models(among: Iterable[Candidate]) -> Iterator[Model]:
    return (model for one in among for model in one.models)


def _looks_at_room(case: Case) -> bool:
    """Whether a flavor is out for room: where nodes may be added, the queue may know more than what is there."""
    return case.policy.room is not RoomRule.IGNORE and not case.grows and not case.checking


def _steered(pool: TargetPool, case: Case, models: Iterable[Model], *, gang: bool) -> Steered:
    # The list of patches of a TrainJob takes one selector of ours.
    beside = case.job.pin_patches is None
    return pin_in_queue(pool, models, case.policy, gang=gang, room=_looks_at_room(case), beside=beside)


def _missed(pool: TargetPool, case: Case, one: Candidate) -> bool:
    """Whether no label keeps the queue to flavors that have this candidate."""
    steered = _steered(pool, case, one.models, gang=True)
    return steered.pin is None or steered.misleads


def _keeps_queue_off(pool: TargetPool, case: Case, chosen: Candidate) -> bool:
    """Whether one candidate is there, but the queue could take a flavor without it, and a label can prevent that."""
    nodes = pool.of(chosen.models)
    if not queued(pool) or case.policy.pin_when is PinWhen.NEVER or not _looks_at_room(case):
        return False
    return strays(pool, nodes) and keeps_to(pool, nodes, case.policy)


def _queue_not_in_view(job: TrainingJob) -> Iterable[Finding]:
    if job.reach is not None and job.reach.missing:
        yield Finding("SST104", "metadata.labels", {"reference": printable(job.reach.missing[0])}, "queue")


def _mixed(pool: TargetPool, case: Case) -> Decision:
    """Several models on purpose. Nothing is pinned and any rank may land on any of them: the smallest is the gate, and
    all of them together are the room."""
    demand, policy = case.sized.demand, case.policy
    case.tell(Unpinned.NEVER if policy.pin_when is PinWhen.NEVER else Unpinned.MIXED)
    each = candidates(pool, demand, policy, gang=False, promises=_unbound(case))
    whole = together(pool, demand, policy, promises=_unbound(case))
    figures = told(pool, each)
    on_purpose = tuple(_on_purpose(pool, case))
    findings: list[Finding] = []
    if whole.memory_out:
        smallest = min(each, key=lambda one: (one.usable_mib, one.name))
        lacks = replace(out_of_memory(case), facts={"model": smallest.name, "usable_mib": smallest.usable_mib})
        if not memory_withheld(pool, case):
            return Decision(Verdict.DENY, figures, findings=(replace(lacks, variant="mixed"), *on_purpose))
        findings.append(replace(lacks, variant="mixed-unsure", action=Action.WARN))
    if not (gates(Treatment.ONE_MODEL, policy) - {Out.MEMORY}).isdisjoint(whole.out):
        withheld = _room_withheld(pool, case)
        lacks = Finding("SST401", dotted(case.job.device_roles[0].spec), {"there": whole.devices}, "mixed")
        if not withheld:
            return Decision(Verdict.DENY, figures, findings=(lacks, *on_purpose))
        findings.append(Finding("SST401", "", _age(case), withheld, Action.WARN))
    findings.extend(on_purpose)
    findings.extend(_unknown(case, each))
    findings.extend(_tight(each))
    findings.extend(_spread(pool, whole))
    findings.extend(_room_now(pool, case, whole))
    return Decision(Verdict.ADMIT, figures, models=whole.models, findings=tuple(findings))


def _on_purpose(pool: TargetPool, case: Case) -> Iterator[Finding]:
    """It points at the annotation, where it is that and not the policy that allows it. Where a queue gives all pods one
    flavor, nothing is mixed."""
    if queue_chooses(pool, case.job, likes(pool, case.policy)):
        return
    where = "" if case.policy.pin_when is PinWhen.NEVER else dotted(("metadata", "annotations", ALLOW_MIXED))
    facts = {"models": ", ".join(model.name for model in pool.models)}
    yield Finding("SST306", where, facts, "" if slowing(pool) else "unknown")


def _room_now(pool: TargetPool, case: Case, chosen: Candidate) -> Iterable[Finding]:
    """Of a gang that has its places there: whether they may be too fragmented, and whether they are taken now.

    What is taken now is no news where a queue holds the job back, nor for one of several pods that come one by one.
    What is only promised to others may yet come to nothing: that ranks, and is not told.
    """
    if chosen.out:
        return
    if not packs(pool, chosen.models):
        yield Finding("SST401", "", {"model": chosen.name}, "packing", Action.WARN)
    held = case.job.suspended or queued(pool)
    told_now = case.policy.room is not RoomRule.IGNORE and not held and not case.grouped
    if told_now and chosen.waits and waits(pool, chosen.models):
        free = free_now(pool, chosen.models) or 0
        wanted = sum(role.gang * role.devices for role in case.job.device_roles)
        facts: dict[str, str | int] = {"model": chosen.name, "free": free, "devices": chosen.devices}
        yield Finding("SST402", facts=facts, variant="" if free < wanted else "apart")


def _not_out(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """One node: kept off the models that are out, and not narrowed further but to what was asked for."""
    left = tuple(one for one in weighed if not one.memory_out)
    asked_for = pool.of(model for one in left for model in one.models)
    wide = pool.nodes != asked_for if case.wish else len(left) < len(weighed)
    if not wide or case.policy.pin_when is PinWhen.NEVER:
        models = tuple(one.model for one in left)
        return Decision(Verdict.ADMIT, figures, models=models, findings=tuple(_unknown_or_tight(case, weighed)))
    findings = [*_smallest(weighed), *_unknown_or_tight(case, left)]
    return _pinned(pool, case, left, figures, findings, "" if case.wish else "kept-off", gang=False)


def _memory_only(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """Independent pods: each runs where it lands, so models that are out are a warning that names them."""
    if case.wish:
        return _not_out(pool, case, weighed, figures)
    out = [one.model.name for one in weighed if one.memory_out]
    findings = tuple(_unknown_or_tight(case, weighed))
    if out:
        findings = (Finding("SST202", facts={"models": ", ".join(out)}, variant="independent"),)
    models = tuple(one.model for one in weighed)
    return Decision(Verdict.ADMIT, figures, models=models, findings=findings)


_Treat: TypeAlias = Callable[[TargetPool, Case, tuple[Candidate, ...], Pool], Decision]
_TREAT: dict[Treatment, _Treat] = {
    Treatment.NOT_OUT: _not_out,
    Treatment.MEMORY_ONLY: _memory_only,
}


def _child(case: Case) -> Decision:
    """A child of a decided job is judged on itself alone: told where it spans models, never pinned or denied."""
    if not case.job.device_roles:
        return Decision(Verdict.ADMIT)
    pool = target_pool(case.job, case.fleet)
    case.tell(Rule.CHILD)
    case.tell(Pooled(pool))
    figures = told(pool, candidates(pool, case.sized.demand, case.policy, gang=False))
    names = ", ".join(model.name for model in pool.models)
    findings = (Finding("SST303", facts={"models": names}),) if len(likes(pool, case.policy)) > 1 else ()
    return Decision(Verdict.ADMIT, figures, models=tuple(pool.models), findings=findings)


def _pinned(
    pool: TargetPool,
    case: Case,
    left: tuple[Candidate, ...],
    figures: Pool,
    findings: list[Finding],
    variant: str,
    *,
    gang: bool,
) -> Decision:
    models = tuple(_models(left))
    if queued(pool):
        pin, keys, misleads = _steered(pool, case, models, gang=gang)
        case.tell(keys)
        variant = "other-quota" if misleads else variant
    else:
        pin = pin_to(pool, models, case.policy, gang=gang, tell=case.tell)
    if pin is None:
        findings.append(_unpinnable(case.job, ", ".join(one.name for one in left)))
        return Decision(Verdict.ADMIT, figures, findings=tuple(findings))
    if len(models) > 1:
        # A label that some nodes lack may leave fewer of them.
        index = pool.fleet.labels[pin.key]
        carrying = reduce(or_, (index.equal(value) for value in pin.values), 0)
        models = tuple(model for model in models if pool.models[model] & carrying)
    if not pin.roles:
        return Decision(Verdict.ADMIT, figures, models=models, findings=tuple(findings))
    facts = {"free": left[0].devices_now or 0, "devices": left[0].devices} if variant == "free" else {}
    return _pins(case, pin, models, _names(left, models), figures, findings, variant, facts)


def _pins(
    case: Case,
    pin: Pin,
    models: tuple[Model, ...],
    names: str,
    figures: Pool,
    findings: Iterable[Finding],
    variant: str,
    more: Facts = _NO_FACTS,
) -> Decision:
    facts = {"key": pin.key, "values": ", ".join(pin.values), "models": names, **more}
    pinned = Finding("SST301", dotted(case.job.roles[pin.roles[0]].spec), facts, variant)
    return Decision(Verdict.PIN, figures, pin, models, (pinned, *findings))


def _names(left: tuple[Candidate, ...], models: Collection[Model]) -> str:
    """The candidates by what is left of their models."""
    remaining = (tuple(model for model in one.models if model in models) for one in left)
    return ", ".join(named(some) for some in remaining if some)


def _unpinnable(job: TrainingJob, names: str) -> Finding:
    facts = {"models": names}
    if job.pin_patches is None or all(
        one.overlay is None or (one.overlay.takes_selector and one.overlay.takes_affinity) for one in job.device_roles
    ):
        return Finding("SST307", facts=facts)
    return Finding("SST307", "spec", {**facts, "field": job.pin_patches.shape.value}, "patches")


def _of_chosen(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], chosen: Candidate) -> Iterable[Finding]:
    yield from _smallest(weighed)
    yield from _unknown(case, weighed)
    yield from _tight((chosen,))
    yield from _spread(pool, chosen)
    nodes = pool.of(chosen.models)
    for code, compared in (("SST601", case.policy.host), ("SST602", case.policy.fabric)):
        if what := differences(pool.fleet, nodes, compared):
            # Where one value is required, no pin holds it yet: the submitter can, with a selector.
            action = Action.WARN if compared.differing is Differing.REQUIRE else None
            yield Finding(code, facts={"model": chosen.name, "what": what}, action=action)
    if pool.two_models:
        yield Finding("SST305", facts={"nodes": pool.two_models.bit_count()})


def _spread(pool: TargetPool, chosen: Candidate) -> Iterable[Finding]:
    """Of each product for itself: two that count as one differ anyway."""
    for model in chosen.models:
        least, most = pool.memory_mib[model]
        percent = 100 * (most - least) / least
        if percent > SPREAD_PERCENT:
            yield Finding("SST206", facts={"model": model.name, "percent": round(percent), "memory_mib": least})


def _smallest(weighed: tuple[Candidate, ...]) -> Iterable[Finding]:
    """The smallest GPU is told where the demand exceeds it, as the reason for a pin."""
    smallest = min(weighed, key=lambda one: (one.usable_mib, one.name))
    if smallest.memory_out:
        yield Finding("SST204", facts={"model": smallest.name, "usable_mib": smallest.usable_mib})


def _unknown_or_tight(case: Case, among: tuple[Candidate, ...]) -> Iterable[Finding]:
    yield from _unknown(case, among)
    yield from _tight(among)


def _unknown(case: Case, among: tuple[Candidate, ...]) -> Iterable[Finding]:
    """Unknown demand is told where it would have made a difference: where there is more than one model."""
    if not case.sized.demand.known and len(among) > 1:
        variant = "" if case.sized.demand.low_mib is None else "bound"
        yield Finding("SST203", "metadata.annotations", {"missing": case.sized.missing}, variant)


def _tight(among: tuple[Candidate, ...]) -> Iterable[Finding]:
    tight = [one for one in among if one.risk and not one.memory_out]
    unlikely = [one for one in tight if one.unlikely]
    if unlikely:
        usable = min(one.usable_mib for one in unlikely)
        names = ", ".join(one.name for one in unlikely)
        yield Finding("SST202", facts={"models": names, "usable_mib": usable}, variant="unlikely")
    elif tight:
        yield Finding("SST202", facts={"models": ", ".join(one.name for one in tight)})


def _room_withheld(pool: TargetPool, case: Case) -> str:
    """Why a lack of room is no denial: the variant of the finding's text, empty where denial stands."""
    if memory := memory_withheld(pool, case):
        return memory
    if case.grows:
        return "grows"
    if case.policy.room is not RoomRule.REQUIRE:
        return "prefer"
    if case.on_update:
        return "update"
    return "" if case.scope.certain else "uncertain"


def _nothing_known(pool: TargetPool, treatment: Treatment) -> tuple[Finding, ...]:
    """No node of a known model: nothing to choose, nothing to deny."""
    if treatment is not Treatment.ONE_MODEL:
        return ()
    if pool.two_models:
        return (Finding("SST307", facts={"nodes": pool.two_models.bit_count()}, variant="two-models"),)
    if pool.unknown:
        return (Finding("SST307", facts={"nodes": pool.unknown.bit_count()}, variant="unknown"),)
    return (Finding("SST304", facts={"nodes": pool.shares.bit_count()}),)


def _unbound(case: Case) -> tuple[Promise, ...]:
    """What is promised to other jobs. Pins given longer ago bind no more: the job may have been refused after us, or
    wait for something else."""
    own = (case.job.namespace, case.job.name)  # "ddp-*" while the name is still to be generated: nobody's
    return tuple(
        one for one in case.promises if case.now - one.given_at <= PROMISED_FOR_S and (one.namespace, one.job) != own
    )


def _age(case: Case) -> dict[str, int]:
    return {"age_s": round(case.stale_s)}
