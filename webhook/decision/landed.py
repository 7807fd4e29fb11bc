"""Jobs that are there already: where their pods really are, and what that says of mixing and of memory.

A model that pods are on is a fact; one that they may come to, when the job starts or starts again, is a risk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from webhook.decision.likeness import Member, joined
from webhook.decision.scope import Treatment, scope
from webhook.decision.straggler import straggler
from webhook.model.finding import Facts, Finding
from webhook.model.fleet import Fleet, Model
from webhook.model.frozen import frozen
from webhook.model.pods import Pod
from webhook.model.policy import Policy
from webhook.model.verdict import Decision, Out, Review, named

MIXED = "SST308"
_AT_RISK = frozenset({"SST201", "SST202"})
_ON_PURPOSE = "SST306"


@frozen
class Landed:
    """Where the pods with devices of one job are: how many on nodes of each model, on nodes of no one known model or
    out of view (`unknown`), and on none yet (`waiting`). `memory_mib` is the least that these nodes report."""

    pods: Mapping[Model, int] = field(default_factory=dict)
    unknown: int = 0
    waiting: int = 0
    memory_mib: Mapping[Model, int] = field(default_factory=dict)

    @property
    def bound(self) -> int:
        return sum(self.pods.values()) + self.unknown

    @property
    def told(self) -> str:
        """For people: "RTX-5090 x2, L4 x2"."""
        return ", ".join(f"{model.name} x{count}" for model, count in self.pods.items())


def landed(pods: Iterable[Pod], devices: Iterable[str], fleet: Fleet) -> Landed:
    """Where these pods are, each of which has devices of one of these resources."""
    columns = [fleet.devices[one] for one in devices if one in fleet.devices]
    found: dict[Model, int] = {}
    memory: dict[Model, int] = {}
    unknown = waiting = 0
    for pod in pods:
        if not pod.node:
            waiting += 1
            continue
        node = fleet.names.equal(pod.node)
        on = next(((one, model) for one in columns for model, nodes in one.models.items() if node & nodes), None)
        if on is None:
            unknown += 1
            continue
        column, model = on
        span = column.memory.span(node)
        found[model] = found.get(model, 0) + 1
        if span is not None:
            memory[model] = min(memory.get(model, span[0]), span[0])
    ordered = dict(sorted(found.items(), key=lambda one: one[0].product))
    return Landed(ordered, unknown, waiting, memory)


def started(decision: Decision) -> Decision:
    """The decision for a job that runs: whether there is room now is nothing to say to it any more."""
    return replace(decision, findings=tuple(one for one in decision.findings if one.code != "SST402"))


def with_landing(review: Review, where: Landed) -> Review:
    """The review with what is so: coupled ranks on several models, and models too small that it is on or may come to.

    `review` is that of the object as it stands. Of memory it tells of all these models, in the place of the one that
    would be chosen.
    """
    if review.job is None:
        return review
    decision, policy = review.decision, review.policy
    treatment = scope(review.job, policy).treatment
    if treatment is Treatment.NONE:
        return review
    kept = list(decision.findings)
    if not any(one.code == "SST201" for one in kept):
        kept = _with_all_too_small(kept, _too_small(_exposed(decision, where), review))
    slowing = decision.straggler
    if treatment is Treatment.ONE_MODEL and not any(one.code == _ON_PURPOSE for one in kept):
        if len(_groups(where, policy)) > 1:
            kept.insert(0, Finding(MIXED, facts={"models": where.told}))
        slowing = straggler(where.memory_mib) if len(where.memory_mib) > 1 else slowing
    return replace(review, decision=replace(decision, findings=tuple(kept), straggler=slowing))


def is_mixed(review: Review) -> bool:
    return _has(review, {MIXED})


def is_at_risk(review: Review) -> bool:
    """Whether a model that it is on, or may come to, is smaller than its demand, or no model has the memory."""
    return _has(review, _AT_RISK)


def is_unpinned(review: Review, *, left_to_queue: bool) -> bool:
    """Whether coupled ranks may come to several models as the object stands, though nobody means them to.

    `left_to_queue`: a queue gives all of them one flavor, each of which is one candidate.
    """
    if review.job is None or left_to_queue or _has(review, {_ON_PURPOSE}):
        return False
    coupled = scope(review.job, review.policy).treatment is Treatment.ONE_MODEL
    return coupled and len(review.decision.pool.candidates) > 1


def _has(review: Review, codes: Iterable[str]) -> bool:
    return not {one.code for one in review.decision.findings}.isdisjoint(codes)


def _groups(where: Landed, policy: Policy) -> tuple[tuple[Model, ...], ...]:
    return joined(tuple(Member(model, where.memory_mib.get(model, 0)) for model in where.pods), policy)


def _exposed(decision: Decision, where: Landed) -> dict[str, float]:
    """By what messages call them, the models that it is on or may come to, with the memory that each reports."""
    reachable = (one for one in decision.pool.candidates if {Out.UNREACHABLE, Out.QUOTA}.isdisjoint(one.out))
    found = {named(one.models): one.memory_mib for one in reachable}
    for model, memory in where.memory_mib.items():
        found[model.name] = min(found.get(model.name, memory), memory)
    return found


def _with_all_too_small(findings: list[Finding], told: Finding | None) -> list[Finding]:
    """What is told of all models in the place of what was told of the chosen, with what policy makes of that."""
    before = next((one for one in findings if one.code == "SST202"), None)
    if told is None:
        return findings
    told = replace(told, action=before.action if before is not None else None)
    return [*(one for one in findings if one.code != "SST202"), told]


def _too_small(exposed: Mapping[str, float], review: Review) -> Finding | None:
    demand, policy = review.demand, review.policy
    likely, high = demand.likely_mib or demand.low_mib, demand.high_mib or demand.low_mib
    usable = {name: memory - policy.reserve_mib for name, memory in exposed.items()}
    unlikely = [name for name, mib in usable.items() if likely is not None and likely > mib]
    tight = [
        name for name, mib in usable.items() if high is not None and high * (1 + policy.headroom_percent / 100) > mib
    ]
    if unlikely:
        facts: Facts = {"models": ", ".join(unlikely), "usable_mib": min(usable[name] for name in unlikely)}
        return Finding("SST202", facts=facts, variant="unlikely")
    return Finding("SST202", facts={"models": ", ".join(tight)}) if tight else None
