"""The validating stage checks the object as it will be stored: after every other mutating webhook.

It may run on another replica whose fleet differs by a moment, so it denies only for what a moment cannot explain.
"""

from dataclasses import replace

from webhook.decision.case import Case
from webhook.decision.decide import as_it_stands, decide_in
from webhook.decision.findings import no_node
from webhook.decision.notes import untold
from webhook.decision.pool import TargetPool, target_pool
from webhook.decision.pooled import decide_pooled
from webhook.decision.queues import queued
from webhook.decision.scope import is_decided
from webhook.model.finding import Action, Finding
from webhook.model.fleet import Model
from webhook.model.verdict import Decision, Verdict

KNOWN_FOR_S = 60
"""A model counts against an unpinned job only once this replica has known a node of it for so long."""


def check_created(case: Case) -> Decision:
    """The decision on the final object of a CREATE: memory, and whether it should have been pinned and is not."""
    if not is_decided(case.job, case.scope):
        return Decision(Verdict.ADMIT)
    pool, figures, out = as_it_stands(case)
    if out is not None:
        return Decision(Verdict.DENY, figures, findings=(out,))
    if not pool.nodes:
        return Decision(Verdict.ADMIT, figures, findings=(_unknown_pin(case) or (no_node(case.job, case.fleet),)))

    # What this replica has just learned may have been unknown to the one that decided.
    lessons = replace(case.lessons, out={}) if case.lessons.out else case.lessons
    case = replace(case, lessons=lessons, keep=case.job.record, checking=True)

    def settled(one: Case) -> Decision:
        """Without what this replica has just met; in a pool of the platform team's the job reads as another one."""
        there = pool if one.job is case.job else target_pool(one.job, one.fleet)
        return decide_in(there.without(_just_met(there, one.now)), one)

    again = decide_pooled(case, settled)
    if case.may_mix and again.verdict is Verdict.DENY and again.findings[0].code in ("SST201", "SST205"):
        return again
    admitted = Decision(Verdict.ADMIT, figures, models=tuple(pool.models), findings=_unknown_pin(case))
    if again.verdict is not Verdict.PIN:
        return admitted
    if again.given is not None or queued(pool):
        # Which pools there are, and what they have, is what a moment can explain: only what it may land on denies. Nor
        # is room looked at here; but for lack of it a queue may miss what a pin leaves, and then none was written.
        own = settled(replace(case, checking=False, tell=untold))
        if again.given is not None and (own.verdict is not Verdict.PIN or case.stale_s):
            finding = Finding("SST302", facts={"pool": again.pool_name}, variant="pool", action=Action.WARN)
            return replace(admitted, findings=(finding, *admitted.findings))
        if own.verdict is Verdict.ADMIT:
            return admitted
    if case.stale_s:
        return admitted
    names = ", ".join(model.name for model in pool.models)
    finding = Finding("SST302", facts={"models": names})
    return Decision(Verdict.DENY, figures, findings=(finding,), straggler=again.straggler)


def _just_met(pool: TargetPool, now: float) -> frozenset[Model]:
    settled = pool.fleet.known_since.at_most(now - KNOWN_FOR_S)
    return frozenset(model for model, nodes in pool.models.items() if not nodes & settled)


def _unknown_pin(case: Case) -> tuple[Finding, ...]:
    """The recorded pin names nothing in view here (another replica saw a node that this one does not)."""
    record = case.job.record
    if record is None:
        return ()
    index = case.fleet.labels.get(record.key)
    if index is not None and any(index.equal(value) for value in record.values):
        return ()
    facts = {"key": record.key, "values": ", ".join(record.values)}
    return (Finding("SST403", "metadata.annotations", facts, "pin"),)
