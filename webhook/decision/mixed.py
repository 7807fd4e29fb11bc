"""Coupled ranks on several models on purpose."""

from collections.abc import Iterator
from dataclasses import replace

from webhook.catalog.accelerators import canonical
from webhook.decision.candidates import candidates, likes, together, told
from webhook.decision.case import Case, fleet_age, unbound
from webhook.decision.findings import memory_withheld, out_of_memory, room_now, room_withheld, spread, unknown_or_tight
from webhook.decision.notes import Unpinned
from webhook.decision.pool import TargetPool
from webhook.decision.queues import queue_chooses
from webhook.decision.scope import Treatment, gates
from webhook.decision.straggler import straggler
from webhook.model.finding import Action, Finding, Phrase, Plain
from webhook.model.paths import dotted
from webhook.model.policy import PinWhen, Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.model.verdict import Decision, Out, Straggler, Verdict, Waited, smallest

ALLOW_MIXED = "samestep.dev/allow-mixed"


def is_mixed(pool: TargetPool, policy: Policy) -> bool:
    """Whether the pool holds more than the nodes of models that count as one."""
    return len(likes(pool, policy)) > 1 or pool.nodes != pool.of(pool.models)


def slowing(pool: TargetPool, lessons: Lessons = NO_LESSONS) -> Straggler | None:
    """What running on all models of the pool would cost, with what it was seen to cost."""
    if len(pool.models) < 2:
        return None
    found = straggler({model: one.memory_mib[0] for model, one in pool.offered.items()})
    seen = waited(pool, lessons)
    return replace(found, seen=seen) if found is not None and seen is not None else found


def waited(pool: TargetPool, lessons: Lessons) -> Waited | None:
    """The model of the pool whose ranks waited longest in earlier runs of the job that were mixed."""
    if not lessons.mixed:
        return None
    seen = ((model, lessons.mixed.get(canonical(model.product))) for model in pool.models)
    waits = [Waited(model, 100 * part) for model, part in seen if part is not None]
    return max(waits, key=lambda one: one.percent, default=None)


def mixed(pool: TargetPool, case: Case) -> Decision:
    """Several models on purpose. Nothing is pinned and any rank may land on any of them: the smallest is the gate, and
    all of them together are the room."""
    demand, policy = case.sized.demand, case.policy
    case.tell(Unpinned.NEVER if policy.pin_when is PinWhen.NEVER else Unpinned.MIXED)
    promises = unbound(case)
    each = candidates(pool, demand, policy, gang=False, promises=promises, lessons=case.lessons)
    whole = together(pool, demand, policy, promises=promises, lessons=case.lessons)
    figures = told(pool, each)
    on_purpose = tuple(_on_purpose(pool, case))
    findings: list[Finding] = []
    if whole.memory_out:
        lacks = out_of_memory(case, each)
        if lacks.code == "SST201":
            least = smallest(one for one in each if one.memory_out)
            lacks = replace(lacks, facts={"model": least.name, "usable_mib": least.usable_mib})
        if not memory_withheld(pool, case):
            return Decision(Verdict.DENY, figures, findings=(replace(lacks, variant="mixed"), *on_purpose))
        findings.append(replace(lacks, variant="mixed-unsure", action=Action.WARN))
    if not (gates(Treatment.ONE_MODEL, policy) - {Out.MEMORY, Out.RAN_OUT}).isdisjoint(whole.out):
        withheld = room_withheld(pool, case)
        lacks = Finding("SST401", dotted(case.job.device_roles[0].spec), {"there": whole.devices}, "mixed")
        if not withheld:
            return Decision(Verdict.DENY, figures, findings=(lacks, *on_purpose))
        findings.append(Finding("SST401", "", fleet_age(case), withheld, Action.WARN))
    findings.extend(on_purpose)
    findings.extend(unknown_or_tight(case, each))
    findings.extend(spread(pool, whole))
    findings.extend(room_now(pool, case, whole))
    return Decision(Verdict.ADMIT, figures, models=whole.models, findings=tuple(findings))


def _on_purpose(pool: TargetPool, case: Case) -> Iterator[Finding]:
    """It points at the annotation, where it is that and not the policy that allows it. Where a queue gives all pods one
    flavor, nothing is mixed."""
    if queue_chooses(pool, case.job, likes(pool, case.policy)):
        return
    where = "" if case.policy.pin_when is PinWhen.NEVER else dotted(("metadata", "annotations", ALLOW_MIXED))
    facts: dict[str, Plain | Phrase] = {"models": ", ".join(model.name for model in pool.models)}
    seen = waited(pool, case.lessons)
    variant = "" if slowing(pool) else "unknown"
    if seen is not None:
        facts |= {"model": seen.model.name, "percent": round(seen.percent)}
        variant = "seen" if slowing(pool) else "seen-alone"
    yield Finding("SST306", where, facts, variant)
