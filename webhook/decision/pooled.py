"""Which pool a job is given, and the decision in it.

A pool counts for a job whose namespace or user may use it. One that the job names holds it; else it is given the first,
by order, that has a candidate for it. Where none of them has a node for it, the job is decided as if there were none.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from webhook.decision.case import Case
from webhook.decision.decide import as_it_stands, decide
from webhook.decision.notes import Note, Pooled, Pools, PoolTried, Refused, untold
from webhook.decision.pools import Obstacle, inside, lacking, may_grow, nodes_of, obstacle
from webhook.decision.scope import is_decided
from webhook.fleet.queues import reach
from webhook.fleet.room import offered_of
from webhook.model.finding import Action, Finding
from webhook.model.frozen import frozen
from webhook.model.job import TrainingJob
from webhook.model.paths import dotted
from webhook.model.policy import FleetShown
from webhook.model.rules import AcceleratorPool
from webhook.model.verdict import Decision, Given, Verdict

POOL = "samestep.dev/pool"

Decide: TypeAlias = Callable[[Case], Decision]
_MOST_TOLD = 5
_NO_CHOICE = frozenset({"SST201", "SST401", "SST404"})


def decide_pooled(case: Case, decided: Decide = decide) -> Decision:
    """The decision at CREATE (and anew at an UPDATE of a job that has not started), in the job's pool where it is given
    one; `decided` is how it is come to for a job that is in its pool already."""
    named = case.pool_asked_for
    if not (case.pools or named or case.kept_in):
        return decided(case)
    if not is_decided(case.job, case.scope):
        return decided(case)
    return _asked_for(case, named, decided) if named else _first(case, decided)


@frozen
class _Trial:
    """What came of the job in one pool; without a decision where it was not asked for one."""

    pool: AcceleratorPool
    given: Given
    obstacle: Obstacle | None = None
    decision: Decision | None = None
    notes: tuple[Note, ...] = ()
    grows: bool = False

    @property
    def has_nodes(self) -> bool:
        return self.decision is not None and self.decision.pool.nodes > 0

    @property
    def has_candidate(self) -> bool:
        return (
            self.has_nodes
            and self.decision is not None
            and self.decision.verdict is not Verdict.DENY
            and bool(self.decision.models)
            and not any(one.code in _NO_CHOICE and one.variant != "packing" for one in self.decision.findings)
        )

    @property
    def refused(self) -> Refused | None:
        """Why it is not the pool to be had; None where it has a candidate."""
        if self.obstacle is not None:
            return Refused.SELECTORS if self.obstacle is Obstacle.SELECTORS else Refused.FIELDS
        if not self.has_nodes:
            return Refused.NODES
        return None if self.has_candidate else Refused.CANDIDATES


def _first(case: Case, decided: Decide) -> Decision:
    kept = case.kept_in
    if kept is not None and lacking(case.job, kept, created=not case.on_update).lacks_nothing:
        # What it was given stands: with its selectors in the job, another pool would be seen through them.
        return _taken(case, (), _tried(case, kept, decided))
    pools = case.pools if kept is None else (kept, *(one for one in case.pools if one.name != kept.name))
    trials: list[_Trial] = []
    for pool in pools:
        trials.append(_tried(case, pool, decided))
        if trials[-1].has_candidate:
            return _taken(case, trials[:-1], trials[-1])
    there = [one for one in trials if one.has_nodes]
    admitting = (one for one in there if one.decision is not None and one.decision.verdict is not Verdict.DENY)
    # An empty pool that grows may get what the others have not; else the first says what it lacks.
    growing = (one for one in trials if one.obstacle is None and not one.has_nodes and one.grows)
    best = next(chain(admitting, growing, there), None)
    if best is not None:
        return _taken(case, [one for one in trials if one is not best], best)
    case.tell(Pools(tuple(PoolTried(one.pool.name, one.refused) for one in trials), ""))
    decision = decided(case)
    unwritable = [one for one in trials if one.obstacle is Obstacle.FIELDS]
    told = _unwritable(unwritable[0], case) if unwritable else Finding("SST403", variant="pools")
    return replace(decision, findings=(*decision.findings, told))


def _asked_for(case: Case, name: str, decided: Decide) -> Decision:
    among = case.pools if case.kept_in is None else (*case.pools, case.kept_in)
    pool = next((one for one in among if one.name == name), None)
    where = dotted(("metadata", "annotations", POOL))
    pools = case.pools if case.policy.fleet_shown is not FleetShown.NONE else ()
    others = ", ".join(one.name for one in pools[:_MOST_TOLD]) + (", …" if len(pools) > _MOST_TOLD else "")
    facts: dict[str, str | int | float] = {"asked": name, "pools": others}

    def unmet(variant: str, *, withheld: str = "") -> Decision:
        withheld = withheld or ("update" if case.on_update else "")
        case.tell(Pools((), ""))
        finding = Finding("SST404", where, facts, f"pool{variant}", Action.WARN if withheld else None)
        return Decision(Verdict.ADMIT if withheld else Verdict.DENY, findings=(finding,))

    if pool is None:
        if not case.pools_in_view:
            return unmet("-unseen", withheld="unseen")
        return unmet("" if pools else "-none")
    trial = _tried(case, pool, decided)
    if trial.obstacle is Obstacle.SELECTORS:
        return unmet("-selectors")
    if trial.obstacle is Obstacle.FIELDS:
        return _unkept(trial, case)
    if trial.has_nodes:
        return _taken(case, (), trial)
    if not trial.grows:
        return unmet("-nodes", withheld="stale" if case.stale_s else "")
    decision = _taken(case, (), trial)
    told = Finding("SST404", where, facts, "pool-grows", Action.WARN)
    return replace(decision, findings=tuple(told if one.code == "SST403" else one for one in decision.findings))


def _unkept(trial: _Trial, case: Case) -> Decision:
    """The job asks for a pool that it cannot be kept to. It is pinned nowhere else, and where no model that it may land
    on as it stands has the memory, it is denied, as the check of the created object denies it."""
    told = _unwritable(trial, case)
    pool, figures, out = as_it_stands(case)
    if out is None:
        return Decision(Verdict.ADMIT, pool_name=trial.pool.name, findings=(told,))
    case.tell(Pools((PoolTried(trial.pool.name, trial.refused),), ""))
    case.tell(Pooled(pool))
    return Decision(Verdict.DENY, figures, findings=(out, told))


def _tried(case: Case, pool: AcceleratorPool, decided: Decide) -> _Trial:
    job, fleet = case.job, case.fleet
    grows = bool(fleet.grows) or may_grow(pool, job, fleet)
    # First what costs least: most pools are for other devices. Of one that is asked for, all is told.
    elsewhere = not grows and not _offers(case, pool)
    if elsewhere and not case.pool_asked_for:
        return _Trial(pool, Given(pool.name))
    given = lacking(job, pool, created=not case.on_update)
    if (why := obstacle(job, pool, given)) is not None:
        return _Trial(pool, given, why)
    if elsewhere:
        return _Trial(pool, given)
    notes: list[Note] = []
    tell = case.tell if case.tell is untold else notes.append
    held = inside(job, given)
    if given.queue is not None:
        held = replace(held, reach=reach(held, case.queues))
    decision = decided(replace(case, job=held, pool_grows=grows, tell=tell))
    return _Trial(pool, given, None, decision, tuple(notes), grows)


def _offers(case: Case, pool: AcceleratorPool) -> bool:
    """Whether some node of the pool has the devices of some role at all."""
    nodes = nodes_of(pool, case.fleet)
    offered = (offered_of(case.fleet, role.device, now=False) for role in case.job.device_roles)
    return any(index is not None and index.at_least(1) & nodes for index in offered)


def _taken(case: Case, others: Iterable[_Trial], trial: _Trial) -> Decision:
    """The decision in the pool of this trial, with what the job gets of it."""
    tried = [*others, trial]
    case.tell(Pools(tuple(PoolTried(one.pool.name, one.refused) for one in tried), trial.pool.name))
    for note in trial.notes:
        case.tell(note)
    decision = trial.decision
    if decision is None:
        decision = Decision(Verdict.ADMIT)
    return given_to(case.job, trial.given, replace(decision, pool_name=trial.pool.name))


def given_to(job: TrainingJob, given: Given, decision: Decision) -> Decision:
    """The decision with what the job gets of its pool, where it gets something and is not denied."""
    if decision.verdict is Verdict.DENY or given.lacks_nothing:
        return decision
    findings = decision.findings
    if not any(one.code == "SST301" for one in findings):
        where = dotted(job.roles[given.additions[0][0]].spec) if given.additions else "metadata"
        findings = (Finding("SST301", where, {"pool": given.pool}, "pool"), *findings)
    return replace(decision, verdict=Verdict.PIN, given=given, findings=findings)


def _unwritable(trial: _Trial, case: Case) -> Finding:
    return Finding("SST307", "spec", {"pool": trial.pool.name, "kind": case.job.kind.kind}, "pool")
