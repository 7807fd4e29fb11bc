"""From a sized job to a decision: the gates in their order, then the choice, then the pin."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import TypeAlias

from webhook.catalog.accelerators import accelerators
from webhook.decision.candidates import candidates, likes, told
from webhook.decision.case import Case, fleet_age, unbound
from webhook.decision.choice import choose, names_model
from webhook.decision.findings import (
    memory_withheld,
    no_node,
    nothing_known,
    of_chosen,
    of_flavors,
    out_of_memory,
    queue_not_in_view,
    ran_out,
    room_now,
    room_withheld,
    smallest,
    unknown_or_tight,
    unpinnable,
)
from webhook.decision.mixed import is_mixed, mixed, slowing
from webhook.decision.notes import Kept, Keys, Pooled, Rule, Unpinned, untold
from webhook.decision.pin import pin_to, separating
from webhook.decision.pool import TargetPool, target_pool
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
from webhook.decision.required import chained, narrowed_to_one
from webhook.decision.scope import Treatment, gates
from webhook.decision.stack import stack_findings
from webhook.decision.wishes import asked_for, narrowed_to, unmet
from webhook.model.finding import Action, Facts, Finding
from webhook.model.fleet import Model
from webhook.model.paths import dotted
from webhook.model.policy import PinWhen, RoomRule
from webhook.model.verdict import Candidate, Decision, Out, Pin, Pool, Verdict, named

_NO_FACTS: Facts = {}


def decide(case: Case) -> Decision:
    """The decision at CREATE (and anew at an UPDATE of a job that has not started)."""
    treatment = case.scope.treatment
    if case.job.child_of is not None:
        return _child(case)
    if treatment is Treatment.NONE:
        return Decision(Verdict.ADMIT)
    pool = target_pool(case.job, case.fleet)
    decision = decide_in(pool, case)
    beside = (*stack_findings(pool, case.job, decision.models), *queue_not_in_view(case.job))
    return replace(decision, findings=(*decision.findings, *beside)) if beside else decision


def as_it_stands(case: Case) -> tuple[TargetPool, Pool, Finding | None]:
    """Where the job may land with nothing added to it, in figures as well, and the finding that denies it whatever
    becomes of a pin: no model there has the memory. Room is not looked at."""
    pool = target_pool(case.job, case.fleet)
    weighed = candidates(pool, case.sized.demand, case.policy, gang=False, lessons=case.lessons)
    weighed = narrowed_to(weighed, case.wish)
    wished = asked_for(weighed, case.wish)
    denies = wished and all(one.memory_out for one in wished) and not memory_withheld(pool, case)
    return pool, told(pool, weighed), out_of_memory(case, wished) if denies else None


def decide_in(pool: TargetPool, case: Case) -> Decision:
    """The decision in a pool that has been computed (the validating stage leaves out models it has just met)."""
    decision = _in(pool, case)
    coupled = case.scope.treatment is Treatment.ONE_MODEL and not case.may_mix
    return _on_alike(pool, case, decision) if coupled else decision


def _in(pool: TargetPool, case: Case) -> Decision:
    case.tell(Pooled(pool))
    treatment = case.scope.treatment
    gang = treatment is Treatment.ONE_MODEL
    weighed = candidates(
        pool,
        case.sized.demand,
        case.policy,
        gang=gang,
        promises=unbound(case),
        queued=case.queued,
        lessons=case.lessons,
    )
    weighed = narrowed_to(weighed, case.wish)
    figures = told(pool, weighed)
    if not pool.nodes:
        return Decision(Verdict.ADMIT, figures, findings=(no_node(case.job, case.fleet),))
    wished = asked_for(weighed, case.wish)
    if case.wish and not wished:
        return _unmet(pool, case, weighed, figures)
    vendors = _vendors(pool)
    if len(vendors) > 1 and treatment is Treatment.ONE_MODEL:
        told_by = ", ".join(f"{vendor} ({role})" for vendor, role in vendors.items())
        return Decision(Verdict.DENY, figures, findings=(Finding("SST501", facts={"vendors": told_by}),))
    if not weighed:
        return Decision(Verdict.ADMIT, figures, findings=nothing_known(pool, treatment))
    if treatment is not Treatment.ONE_MODEL:
        return _gated(pool, case, wished, figures, _TREAT[treatment])
    # A model that is asked for is one model.
    mixes = (
        case.may_mix
        and (len(weighed) > 1 or is_mixed(pool, case.policy))
        and (not case.wish or case.policy.pin_when is PinWhen.NEVER)
    )
    decision = mixed(pool, case) if mixes else _gated(pool, case, wished, figures, _one_model)
    slowed = slowing(pool, case.lessons)
    return replace(decision, straggler=slowed) if slowed else decision


def _on_alike(pool: TargetPool, case: Case, decision: Decision) -> Decision:
    """The decision with hosts and fabrics held to one, where policy requires that."""

    def again(within: TargetPool) -> Decision:
        return _in(within, replace(case, chosen=decision.models, tell=untold))

    narrowed, pins = narrowed_to_one(pool, case, decision, again)
    if not pins:
        return decision
    # What there is to choose from is told of the whole pool.
    narrowed = replace(narrowed, pool=decision.pool, straggler=decision.straggler, pin=chained(narrowed.pin, pins))
    if narrowed.verdict is Verdict.PIN:
        return narrowed
    assert narrowed.pin is not None
    names, findings = named(narrowed.models), narrowed.findings
    pinned = _pins(case, narrowed.pin, narrowed.models, names, decision.pool, findings, "")
    return replace(pinned, straggler=decision.straggler)


def _gated(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool, treat: "_Treat") -> Decision:
    if all(one.memory_out for one in weighed):
        return _memory_denies(pool, case, weighed, figures)
    return treat(pool, case, weighed, figures)


def _vendors(pool: TargetPool) -> dict[str, str]:
    """Whose devices are asked for, be they there or not: by vendor, in order of names, the first role that does."""
    asked: dict[str, str] = {}
    for one in pool.roles:
        if vendor := accelerators().vendor_of(one.role.device):
            asked.setdefault(vendor.name, one.role.name)
    return dict(sorted(asked.items()))


def _memory_denies(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    lacks = out_of_memory(case, weighed)
    if withheld := memory_withheld(pool, case):
        finding = replace(lacks, facts={**lacks.facts, **fleet_age(case)}, variant=withheld, action=Action.WARN)
        return Decision(Verdict.ADMIT, figures, findings=(finding,))
    return Decision(Verdict.DENY, figures, findings=(lacks,))


def _unmet(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """What was asked for is not there. Like a model that the job's own selectors exclude, none other is chosen."""
    nowhere = () if weighed else nothing_known(pool, case.scope.treatment)
    withheld = memory_withheld(pool, case) or ("grows" if case.grows else "update" if case.on_update else "")
    if not weighed:
        withheld = "unknown"
    finding = unmet(case.job, weighed, withheld)
    finding = replace(finding, facts={**finding.facts, **fleet_age(case)})
    verdict = Verdict.ADMIT if withheld else Verdict.DENY
    return Decision(verdict, figures, findings=(finding, *nowhere))


def _one_model(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """Coupled ranks: one candidate with memory and room for the gang."""
    policy = case.policy
    fitting = tuple([one for one in weighed if not one.memory_out])
    standing = gates(Treatment.ONE_MODEL, policy)
    roomy = tuple([one for one in fitting if standing.isdisjoint(one.out)])
    findings: list[Finding] = []
    if not roomy:
        withheld = room_withheld(pool, case)
        reachable = tuple(one for one in fitting if Out.UNREACHABLE not in one.out)
        if not withheld:
            where = dotted(case.job.device_roles[0].spec)
            lacks = out_of_memory(case, weighed) if len(fitting) < len(weighed) else Finding("SST401")
            finding = replace(lacks, where=where)
            return Decision(Verdict.DENY, figures, findings=(finding,))
        findings.append(Finding("SST401", "", fleet_age(case), withheld, Action.WARN))
        if withheld in ("unknown", "stale") or not reachable:
            return Decision(Verdict.ADMIT, figures, findings=tuple(findings))
        roomy = reachable
    if queue_chooses(pool, case.job, (one.models for one in figures.candidates)):
        decision = _left_to_queue(pool, case, weighed, roomy, figures, findings)
        if decision is not None:
            return decision
    kept = names_model(case.keep, pool)
    among = tuple([one for one in roomy if set(case.chosen) <= set(one.models)]) or roomy
    chosen = next((one for one in among if kept(one)), None)
    if case.keep is not None and chosen is None:
        findings.append(Finding("SST105", facts={"values": ", ".join(case.keep.values)}))
    if case.keep is not None and chosen is not None:
        case.tell(Kept(case.keep, chosen))
    steered = None
    if chosen is None:
        best = partial(choose, among, case.sized.demand, policy, names_model(case.job.record, pool), tell=case.tell)
        chosen = best(grouped=case.grouped)
        steered = _steered(pool, case, chosen.models, gang=True) if queued(pool) else None
        # Where the best is none that the queue may miss, it is the best of those.
        if steered is not None and steered.misses:
            missed = tuple(one for one in among if _steered(pool, case, one.models, gang=True).misses)
            chosen, steered = best(grouped=case.grouped, missed=missed), None
    findings.extend(of_chosen(pool, case, weighed, chosen))
    findings.extend(room_now(pool, case, chosen))
    alone = pool.nodes == pool.of(chosen.models)
    needless = policy.pin_when is not PinWhen.ALWAYS or case.may_mix
    if alone and needless and not _keeps_queue_off(pool, case, chosen):
        case.tell(Unpinned.ALONE)
        return Decision(Verdict.ADMIT, figures, models=chosen.models, findings=tuple(findings))
    # Where there was a choice, the pin says what it rests on.
    variant = "" if len(roomy) == 1 or case.grouped else "chosen" if chosen.devices_now is None else "free"
    return _pinned(pool, case, (chosen,), figures, findings, variant, gang=True, steered=steered)


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
    told = (*findings, *of_flavors(case, weighed, told_of))
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


def _keeps_queue_off(pool: TargetPool, case: Case, chosen: Candidate) -> bool:
    """Whether one candidate is there, but the queue could take a flavor without it, and a label can prevent that."""
    nodes = pool.of(chosen.models)
    if not queued(pool) or case.policy.pin_when is PinWhen.NEVER or not _looks_at_room(case):
        return False
    return strays(pool, nodes) and keeps_to(pool, nodes, case.policy)


def _not_out(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """One node: kept off the models that are out, and not narrowed further but to what was asked for."""
    left = tuple(one for one in weighed if not one.memory_out)
    asked_for = pool.of(model for one in left for model in one.models)
    wide = pool.nodes != asked_for if case.wish else len(left) < len(weighed)
    if not wide or case.policy.pin_when is PinWhen.NEVER:
        models = tuple(one.model for one in left)
        findings = [*ran_out(case, weighed, "independent"), *unknown_or_tight(case, weighed)]
        return Decision(Verdict.ADMIT, figures, models=models, findings=tuple(findings))
    findings = [*smallest(weighed), *ran_out(case, weighed), *unknown_or_tight(case, left)]
    return _pinned(pool, case, left, figures, findings, "" if case.wish else "kept-off", gang=False)


def _memory_only(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], figures: Pool) -> Decision:
    """Independent pods: each runs where it lands, so models that are out are a warning that names them."""
    if case.wish:
        return _not_out(pool, case, weighed, figures)
    out = [one.model.name for one in weighed if Out.MEMORY in one.out]
    findings = tuple(unknown_or_tight(case, weighed))
    if out:
        findings = (Finding("SST202", facts={"models": ", ".join(out)}, variant="independent"),)
    findings = (*ran_out(case, weighed, "independent"), *findings)
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
    figures = told(pool, candidates(pool, case.sized.demand, case.policy, gang=False, lessons=case.lessons))
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
    steered: Steered | None = None,
) -> Decision:
    """With the pin that leaves these; `steered` is that of a queue, where it is known already."""
    models = tuple(_models(left))
    if queued(pool):
        pin, keys, misleads = steered or _steered(pool, case, models, gang=gang)
        case.tell(keys)
        variant = "other-quota" if misleads else variant
    else:
        pin = pin_to(pool, models, case.policy, gang=gang, tell=case.tell)
    if pin is None:
        findings.append(unpinnable(case.job, ", ".join(one.name for one in left)))
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
