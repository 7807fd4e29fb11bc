"""Coupled ranks on several models on purpose."""

from collections.abc import Iterator
from dataclasses import replace

from webhook.decision.case import Case, fleet_age, unbound
from webhook.decision.findings import memory_withheld, out_of_memory, room_now, room_withheld, spread, tight, unknown
from webhook.decision.notes import Unpinned
from webhook.decision.pool import TargetPool, candidates, likes, together, told
from webhook.decision.queues import queue_chooses
from webhook.decision.scope import Treatment, gates
from webhook.decision.straggler import straggler
from webhook.model.finding import Action, Finding
from webhook.model.paths import dotted
from webhook.model.policy import PinWhen, Policy
from webhook.model.verdict import Decision, Out, Straggler, Verdict, smallest

ALLOW_MIXED = "samestep.dev/allow-mixed"


def is_mixed(pool: TargetPool, policy: Policy) -> bool:
    """Whether the pool holds more than the nodes of models that count as one."""
    return len(likes(pool, policy)) > 1 or pool.nodes != pool.of(pool.models)


def slowing(pool: TargetPool) -> Straggler | None:
    """What running on all models of the pool would cost."""
    if len(pool.models) < 2:
        return None
    return straggler({model: least for model, (least, _) in pool.memory_mib.items()})


def mixed(pool: TargetPool, case: Case) -> Decision:
    """Several models on purpose. Nothing is pinned and any rank may land on any of them: the smallest is the gate, and
    all of them together are the room."""
    demand, policy = case.sized.demand, case.policy
    case.tell(Unpinned.NEVER if policy.pin_when is PinWhen.NEVER else Unpinned.MIXED)
    promises = unbound(case)
    each = candidates(pool, demand, policy, gang=False, promises=promises)
    whole = together(pool, demand, policy, promises=promises)
    figures = told(pool, each)
    on_purpose = tuple(_on_purpose(pool, case))
    findings: list[Finding] = []
    if whole.memory_out:
        least = smallest(each)
        lacks = replace(out_of_memory(case), facts={"model": least.name, "usable_mib": least.usable_mib})
        if not memory_withheld(pool, case):
            return Decision(Verdict.DENY, figures, findings=(replace(lacks, variant="mixed"), *on_purpose))
        findings.append(replace(lacks, variant="mixed-unsure", action=Action.WARN))
    if not (gates(Treatment.ONE_MODEL, policy) - {Out.MEMORY}).isdisjoint(whole.out):
        withheld = room_withheld(pool, case)
        lacks = Finding("SST401", dotted(case.job.device_roles[0].spec), {"there": whole.devices}, "mixed")
        if not withheld:
            return Decision(Verdict.DENY, figures, findings=(lacks, *on_purpose))
        findings.append(Finding("SST401", "", fleet_age(case), withheld, Action.WARN))
    findings.extend(on_purpose)
    findings.extend(unknown(case, each))
    findings.extend(tight(each))
    findings.extend(spread(pool, whole))
    findings.extend(room_now(pool, case, whole))
    return Decision(Verdict.ADMIT, figures, models=whole.models, findings=tuple(findings))


def _on_purpose(pool: TargetPool, case: Case) -> Iterator[Finding]:
    """It points at the annotation, where it is that and not the policy that allows it. Where a queue gives all pods one
    flavor, nothing is mixed."""
    if queue_chooses(pool, case.job, likes(pool, case.policy)):
        return
    where = "" if case.policy.pin_when is PinWhen.NEVER else dotted(("metadata", "annotations", ALLOW_MIXED))
    facts = {"models": ", ".join(model.name for model in pool.models)}
    yield Finding("SST306", where, facts, "" if slowing(pool) else "unknown")
