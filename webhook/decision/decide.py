"""From a sized job to a decision: the gates in their order, then the choice, then the pin."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from webhook.decision.choice import choose, names_model
from webhook.decision.pin import pin_to
from webhook.decision.pool import TargetPool, candidates, packs, target_pool, told
from webhook.decision.queues import (
    Steered,
    left_to_queue,
    pin_by_flavor,
    pin_in_queue,
    queue_chooses,
    queued,
    strays,
)
from webhook.decision.scope import Scope, Treatment, scope
from webhook.model.finding import Action, Facts, Finding
from webhook.model.fleet import Fleet, Model
from webhook.model.job import PinRecord, TrainingJob
from webhook.model.paths import dotted, printable
from webhook.model.pods import Promise
from webhook.model.policy import PinWhen, Policy, RoomRule, UnknownNodes
from webhook.model.verdict import Candidate, Decision, Out, Pin, Pool, Verdict
from webhook.sizing.demand import Sized

PROMISED_FOR_S = 60
"""What a pin takes counts as in use for so long, or until its pods are bound."""

_NO_FACTS: Facts = {}
_EVERY_GATE = frozenset(Out)
_REACH = frozenset({Out.UNREACHABLE})

SPREAD_PERCENT = 2
"""One product's memory may differ by this much (ECC, drivers) before it is worth telling."""


@dataclass(frozen=True, slots=True)
class Case:
    """One job before the gates. `keep` is the pin recorded in the old object of an UPDATE: it stays while it passes;
    `on_update`: an UPDATE is never denied for room. `promises` are the pins given lately; `grouped`: the pod is one of
    several that are objects of their own. `checking`: this is the final object, which is not held to a lack of room."""

    job: TrainingJob
    sized: Sized
    fleet: Fleet
    policy: Policy
    now: float
    keep: PinRecord | None = None
    on_update: bool = False
    promises: tuple[Promise, ...] = ()
    grouped: bool = False
    checking: bool = False

    @property
    def scope(self) -> Scope:
        return scope(self.job, self.policy)

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
    decision = decide_in(target_pool(case.job, case.fleet), case)
    return replace(decision, findings=(*decision.findings, *_queue_not_in_view(case.job)))


def decide_in(pool: TargetPool, case: Case) -> Decision:
    """The decision in a pool that has been computed (the validating stage leaves out models it has just met)."""
    treatment = case.scope.treatment
    gang = treatment is Treatment.ONE_MODEL
    weighed = candidates(pool, case.sized.demand, case.policy, gang=gang, promises=_unbound(case))
    figures = told(pool, weighed)
    if not pool.nodes:
        return Decision(Verdict.ADMIT, figures, findings=(no_node(case.job),))
    vendors = sorted({one.column.vendor for one in pool.roles if one.column})
    if len(vendors) > 1 and treatment is Treatment.ONE_MODEL:
        return Decision(Verdict.DENY, figures, findings=(Finding("SST501", facts={"vendors": ", ".join(vendors)}),))
    if not weighed:
        return Decision(Verdict.ADMIT, figures, findings=_nothing_known(pool, treatment))
    if all(one.memory_out for one in weighed):
        return _memory_denies(pool, case, figures)
    return _TREAT[treatment](pool, case, weighed, figures)


def no_node(job: TrainingJob) -> Finding:
    """No node in view could ever hold a pod: a typo, an empty autoscaled pool and a node being replaced look alike."""
    role = job.device_roles[0]
    return Finding("SST403", dotted(role.spec), {"devices": role.devices, "device": role.device, "role": role.name})


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


def _one_model(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """Coupled ranks: one candidate with memory and room for the gang."""
    policy = case.policy
    fitting = tuple(one for one in weighed if not one.memory_out)
    # A model that a role's own selectors exclude is no matter of room.
    gates = _REACH if policy.room is RoomRule.IGNORE else _EVERY_GATE
    roomy = tuple(one for one in fitting if gates.isdisjoint(one.out))
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
    if queue_chooses(pool, case.job):
        decision = _left_to_queue(pool, case, weighed, roomy, figures, findings)
        if decision is not None:
            return decision
    if queued(pool):
        # One that the queue can be kept to comes before one that it may miss.
        steered = ((one, _steered(pool, case, one.models, gang=True)) for one in roomy)
        roomy = tuple(one for one, by in steered if by.pin is not None and not by.misleads) or roomy
    kept = names_model(case.keep, pool)
    chosen = next((one for one in roomy if kept(one)), None)
    if case.keep is not None and chosen is None:
        findings.append(Finding("SST105", facts={"values": ", ".join(case.keep.values)}))
    if chosen is None:
        recorded = names_model(case.job.record, pool)
        chosen = choose(roomy, case.sized.demand, policy, recorded, grouped=case.grouped)
    findings.extend(_of_chosen(pool, case, weighed, chosen))
    if not chosen.out and not packs(pool, chosen.model):
        findings.append(Finding("SST401", "", {"model": chosen.model.name}, "packing", Action.WARN))
    if policy.pin_when is PinWhen.NEVER:
        return Decision(Verdict.ADMIT, figures, findings=tuple(findings))
    alone = pool.nodes == pool.models[chosen.model]
    if alone and policy.pin_when is PinWhen.WHEN_MIXED and not _keeps_queue_off(pool, case, chosen):
        return Decision(Verdict.ADMIT, figures, models=(chosen.model,), findings=tuple(findings))
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
    """The queue chooses among its flavors, each of one model: it is only kept off those that are out. None where no
    label of the flavors can do that."""
    memory_out = (one.model for one in weighed if one.memory_out)
    flavors = left_to_queue(pool, (one.model for one in left), memory_out, room=_looks_at_room(case) and not findings)
    told_of = tuple(one for one in left if one.model in flavors.models)
    told = (*findings, *_smallest(weighed), *_unknown(case, weighed), *_tight(told_of))
    always = case.policy.pin_when is PinWhen.ALWAYS
    if not (flavors.keeps_off or always) or case.policy.pin_when is PinWhen.NEVER:
        return Decision(Verdict.ADMIT, figures, models=flavors.models, findings=told)
    pin = pin_by_flavor(pool, flavors.nodes, case.policy, gang=True, whole=True)
    if pin is None:
        return None
    if not pin.roles:
        return Decision(Verdict.ADMIT, figures, models=flavors.models, findings=told)
    return _pins(case, pin, flavors.models, figures, told, "flavors")


def _looks_at_room(case: Case) -> bool:
    """Whether a flavor is out for room: where nodes may be added, the queue may know more than what is there."""
    return case.policy.room is not RoomRule.IGNORE and not case.fleet.grows and not case.checking


def _steered(pool: TargetPool, case: Case, models: Iterable[Model], *, gang: bool) -> Steered:
    # The list of patches of a TrainJob takes one selector of ours.
    beside = case.job.pin_patches is None
    return pin_in_queue(pool, models, case.policy, gang=gang, room=_looks_at_room(case), beside=beside)


def _keeps_queue_off(pool: TargetPool, case: Case, chosen: Candidate) -> bool:
    """Whether one model is there, but the queue could take a flavor without it, and a label can prevent that."""
    nodes = pool.of(chosen.models)
    if not queued(pool) or not _looks_at_room(case) or not strays(pool, nodes):
        return False
    return pin_by_flavor(pool, nodes, case.policy, gang=True) is not None


def _queue_not_in_view(job: TrainingJob) -> Iterable[Finding]:
    if job.reach is not None and job.reach.missing:
        yield Finding("SST104", "metadata.labels", {"reference": printable(job.reach.missing[0])}, "queue")


def _not_out(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """One node: kept off the models that are out, and not narrowed further."""
    left = tuple(one for one in weighed if not one.memory_out)
    if len(left) == len(weighed) or case.policy.pin_when is PinWhen.NEVER:
        models = tuple(one.model for one in left)
        return Decision(Verdict.ADMIT, figures, models=models, findings=tuple(_unknown_or_tight(case, weighed)))
    findings = [*_smallest(weighed), *_unknown_or_tight(case, left)]
    return _pinned(pool, case, left, figures, findings, "kept-off", gang=False)


def _memory_only(_: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """Independent pods: each runs where it lands, so models that are out are a warning that names them."""
    out = [one.model.name for one in weighed if one.memory_out]
    findings = tuple(_unknown_or_tight(case, weighed))
    if out:
        findings = (Finding("SST202", facts={"models": ", ".join(out)}, variant="independent"),)
    models = tuple(one.model for one in weighed)
    return Decision(Verdict.ADMIT, figures, models=models, findings=findings)


_TREAT: dict[Treatment, Callable[[TargetPool, Case, tuple[Candidate, ...], Pool], Decision]] = {
    Treatment.ONE_MODEL: _one_model,
    Treatment.NOT_OUT: _not_out,
    Treatment.MEMORY_ONLY: _memory_only,
}


def _child(case: Case) -> Decision:
    """A child of a decided job is judged on itself alone: told where it spans models, never pinned or denied."""
    if not case.job.device_roles:
        return Decision(Verdict.ADMIT)
    pool = target_pool(case.job, case.fleet)
    figures = told(pool, candidates(pool, case.sized.demand, case.policy, gang=False))
    names = ", ".join(model.name for model in pool.models)
    findings = (Finding("SST303", facts={"models": names}),) if len(pool.models) > 1 else ()
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
    models = tuple(one.model for one in left)
    if queued(pool):
        pin, misleads = _steered(pool, case, models, gang=gang)
        variant = "other-quota" if misleads else variant
    else:
        pin = pin_to(pool, models, case.policy, gang=gang)
    if pin is None:
        findings.append(_unpinnable(case.job, models))
        return Decision(Verdict.ADMIT, figures, findings=tuple(findings))
    if not pin.roles:
        return Decision(Verdict.ADMIT, figures, models=models, findings=tuple(findings))
    facts = {"free": left[0].devices_now or 0, "devices": left[0].devices} if variant == "free" else {}
    return _pins(case, pin, models, figures, findings, variant, facts)


def _pins(
    case: Case,
    pin: Pin,
    models: tuple[Model, ...],
    figures: Pool,
    findings: Iterable[Finding],
    variant: str,
    more: Facts = _NO_FACTS,
) -> Decision:
    facts = {
        "key": pin.key,
        "values": ", ".join(pin.values),
        "models": ", ".join(one.name for one in models),
        **more,
    }
    pinned = Finding("SST301", dotted(case.job.roles[pin.roles[0]].spec), facts, variant)
    return Decision(Verdict.PIN, figures, pin, models, (pinned, *findings))


def _unpinnable(job: TrainingJob, models: tuple[Model, ...]) -> Finding:
    facts = {"models": ", ".join(one.name for one in models)}
    if job.pin_patches is None or all(
        one.overlay is None or (one.overlay.takes_selector and one.overlay.takes_affinity) for one in job.device_roles
    ):
        return Finding("SST307", facts=facts)
    return Finding("SST307", "spec", {**facts, "field": job.pin_patches.shape.value}, "patches")


def _of_chosen(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], chosen: Candidate) -> Iterable[Finding]:
    yield from _smallest(weighed)
    yield from _unknown(case, weighed)
    yield from _tight((chosen,))
    if chosen.spread_percent > SPREAD_PERCENT:
        percent = round(chosen.spread_percent)
        yield Finding("SST206", facts={"model": chosen.model.name, "percent": percent, "memory_mib": chosen.memory_mib})
    if pool.two_models:
        yield Finding("SST305", facts={"nodes": pool.two_models.bit_count()})


def _smallest(weighed: tuple[Candidate, ...]) -> Iterable[Finding]:
    """The smallest GPU is told where the demand exceeds it, as the reason for a pin."""
    smallest = min(weighed, key=lambda one: (one.usable_mib, one.model.name))
    if smallest.memory_out:
        yield Finding("SST204", facts={"model": smallest.model.name, "usable_mib": smallest.usable_mib})


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
    if tight:
        yield Finding("SST202", facts={"models": ", ".join(one.model.name for one in tight)})


def _room_withheld(pool: TargetPool, case: Case) -> str:
    """Why a lack of room is no denial: the variant of the finding's text, empty where denial stands."""
    if memory := memory_withheld(pool, case):
        return memory
    if case.fleet.grows:
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
