"""What is worth telling of a job, its pool and what was chosen, and why a denial is withheld."""

from collections.abc import Iterable, Sequence

from webhook.decision.candidates import free_now
from webhook.decision.case import Case
from webhook.decision.gang import packs, waits
from webhook.decision.nearest import value_meant
from webhook.decision.pool import TargetPool
from webhook.decision.queues import queued
from webhook.decision.sameness import differences
from webhook.decision.scope import Treatment
from webhook.fleet.limits import BySelector
from webhook.fleet.room import holding, offered_of
from webhook.fleet.select import placed
from webhook.model.demand import DemandSource
from webhook.model.finding import Action, Facts, Finding, Phrase, Plain
from webhook.model.fleet import Fleet
from webhook.model.job import Role, TrainingJob
from webhook.model.paths import dotted, printable
from webhook.model.policy import Differing, RoomRule, UnknownNodes
from webhook.model.profile import Fits, RanOut, day
from webhook.model.quantity import told_amount
from webhook.model.verdict import Candidate, Out
from webhook.model.verdict import smallest as smallest_of

_DECLARED = frozenset({DemandSource.DECLARED, DemandSource.TABLED})
SPREAD_PERCENT = 2
"""One product's memory may differ by this much (ECC, drivers) before it is worth telling."""


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
    facts: Facts = {"devices": role.devices, "device": role.device, "role": role.name}
    return _lacking_beside(role, fleet, facts) or Finding("SST403", dotted(role.spec), facts)


def _lacking_beside(role: Role, fleet: Fleet, facts: Facts) -> Finding | None:
    """What no node that has the devices has as well; None where there is nothing of the kind."""
    there = offered_of(fleet, role.device, now=False)
    nodes = there.at_least(role.devices) if there is not None else 0
    for limit in holding(fleet, role.requests) if nodes else ():
        if not limit.nodes & nodes and limit.resource != "pods":
            offered = offered_of(fleet, limit.resource, now=False)
            span = offered.span(nodes) if offered is not None else None
            asked, most = (told_amount(limit.resource, amount) for amount in (limit.amount, span[1] if span else 0))
            return Finding("SST403", dotted(role.spec), {**facts, "asked": asked, "there": most}, "resource")
    return None


def memory_withheld(pool: TargetPool, case: Case) -> str:
    """Why nothing may be denied for memory: the variant of the finding's text, empty where denial stands."""
    if (pool.unknown or pool.two_models) and case.policy.unknown_nodes is UnknownNodes.WITHHOLD:
        return "unknown"
    return "stale" if case.stale_s else ""


def out_of_memory(case: Case, weighed: Sequence[Candidate]) -> Finding:
    """No model has the memory, by figures or as runs have shown; it points at the micro-batch, or at the annotations
    that declare the demand, or at the pods."""
    batch = case.sized.micro_batch
    if any(one.ran_out for one in weighed):
        where = batch.field if batch else dotted(case.job.device_roles[0].spec)
        return Finding("SST205", where, _ran_out(case, weighed))
    return Finding("SST201", batch.field if batch else "metadata.annotations")


def ran_out(case: Case, weighed: Sequence[Candidate], variant: str = "avoided") -> Iterable[Finding]:
    """Where runs of the same training ran out of memory, of which the job is kept off."""
    if any(one.ran_out for one in weighed):
        yield Finding("SST205", "", _ran_out(case, weighed), variant, Action.WARN)


def _ran_out(case: Case, weighed: Sequence[Candidate]) -> Facts:
    """Which models, and the last run. Where a figure says that one of them has the memory, both are named."""
    out = [(one, one.ran_out) for one in weighed if one.ran_out is not None]
    _, last = max(out, key=lambda pair: pair[1].at)
    low = case.sized.demand.low_mib
    figure = case.sized.demand.source in _DECLARED and low is not None
    though = figure and low is not None and any(low <= one.usable_mib for one, _ in out)
    facts: dict[str, Plain | Phrase] = {"models": ", ".join(one.name for one, _ in out), "ran": run_of(last)}
    return {**facts, "though": Phrase("though", {"low": f"{(low or 0) / 1024:.1f} GiB"}) if though else ""}


def run_of(one: RanOut) -> Phrase:
    """What ran out of memory, and when, in words."""
    facts: dict[str, Plain] = {"run": printable(one.job), "when": day(one.at)}
    if one.micro_batch is not None:
        return Phrase("ran_out_batch", {**facts, "batch": one.micro_batch})
    return Phrase("ran_out_times", {**facts, "times": one.times}) if one.times > 1 else Phrase("ran_out", facts)


def ran_well(case: Case, among: Sequence[Candidate]) -> Iterable[Finding]:
    """The runs that a choice rests on, where it would be another without them, or would be warned of; and what speaks
    against it without putting it out."""
    for one in among:
        if one.fits is not None and (one.against or not case.sized.demand.known):
            facts: Facts = {"model": one.name, "ran": runs_of(one.fits)}
            informs = not one.against or case.sized.demand.source not in _DECLARED
            variant = "against" if one.against else ""
            yield Finding("SST207", "", facts, variant, Action.INFORM if informs else None)
        if one.doubt is not None:
            yield Finding("SST205", "", {"models": one.name, "ran": run_of(one.doubt)}, "doubt", Action.WARN)


def runs_of(one: Fits) -> Phrase:
    """What ended well, how many of them and when, in words."""
    facts: dict[str, Plain] = {"runs": one.runs, "when": day(one.at)}
    if one.micro_batch is None:
        return Phrase("ran_well" if one.runs == 1 else "ran_well_times", facts)
    return Phrase("ran_well_batch", {**facts, "batch": one.micro_batch})


def room_withheld(pool: TargetPool, case: Case) -> str:
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


def nothing_known(pool: TargetPool, treatment: Treatment) -> tuple[Finding, ...]:
    """No node of a known model: nothing to choose, nothing to deny."""
    if treatment is not Treatment.ONE_MODEL:
        return ()
    if pool.two_models:
        return (Finding("SST307", facts={"nodes": pool.two_models.bit_count()}, variant="two-models"),)
    if pool.unknown:
        return (Finding("SST307", facts={"nodes": pool.unknown.bit_count()}, variant="unknown"),)
    return (Finding("SST304", facts={"nodes": pool.shares.bit_count()}),)


def room_now(pool: TargetPool, case: Case, chosen: Candidate) -> Iterable[Finding]:
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
        facts: dict[str, str | int] = {"model": chosen.name, "free": free, "devices": chosen.devices}
        yield Finding("SST402", facts=facts, variant="" if free < case.job.wanted else "apart")


def queue_not_in_view(job: TrainingJob) -> Iterable[Finding]:
    if job.reach is not None and job.reach.missing:
        yield Finding("SST104", "metadata.labels", {"reference": printable(job.reach.missing[0])}, "queue")


def unpinnable(job: TrainingJob, names: str) -> Finding:
    facts = {"models": names}
    if job.pin_patches is None or all(
        one.overlay is None or (one.overlay.takes_selector and one.overlay.takes_affinity) for one in job.device_roles
    ):
        return Finding("SST307", facts=facts)
    return Finding("SST307", "spec", {**facts, "field": job.pin_patches.shape.value}, "patches")


def of_chosen(pool: TargetPool, case: Case, weighed: tuple[Candidate, ...], chosen: Candidate) -> Iterable[Finding]:
    """What is to be said of the one that coupled ranks get, out of those that were `weighed`."""
    yield from smallest(weighed)
    yield from ran_out(case, weighed)
    yield from unknown(case, weighed, (chosen,))
    yield from tight((chosen,))
    yield from ran_well(case, (chosen,))
    yield from spread(pool, chosen)
    nodes = pool.of(chosen.models)
    for code, compared in (("SST601", case.policy.host), ("SST602", case.policy.fabric)):
        if what := differences(pool.fleet, nodes, compared):
            # Where one value is required and no pin holds it, the submitter can, with a selector.
            action = Action.WARN if compared.differing is Differing.REQUIRE else None
            yield Finding(code, facts={"model": chosen.name, "what": what}, action=action)
    if pool.two_models:
        yield Finding("SST305", facts={"nodes": pool.two_models.bit_count()})


def of_flavors(case: Case, weighed: tuple[Candidate, ...], left: tuple[Candidate, ...]) -> Iterable[Finding]:
    """The same where a queue chooses among those that are `left`."""
    yield from smallest(weighed)
    yield from ran_out(case, weighed)
    yield from unknown(case, weighed, left)
    yield from tight(left)
    yield from ran_well(case, left)


def spread(pool: TargetPool, chosen: Candidate) -> Iterable[Finding]:
    """Of each product for itself: two that count as one differ anyway."""
    for model in chosen.models:
        least, most = pool.offered[model].memory_mib
        percent = 100 * (most - least) / least
        if percent > SPREAD_PERCENT:
            yield Finding("SST206", facts={"model": model.name, "percent": round(percent), "memory_mib": least})


def smallest(weighed: tuple[Candidate, ...]) -> Iterable[Finding]:
    """The smallest GPU is told where the demand exceeds it, as the reason for a pin."""
    least = smallest_of(weighed)
    if Out.MEMORY in least.out:
        yield Finding("SST204", facts={"model": least.name, "usable_mib": least.usable_mib})


def unknown_or_tight(case: Case, among: tuple[Candidate, ...]) -> Iterable[Finding]:
    """What is to be said of the memory of these, of any of which the job may run on."""
    yield from unknown(case, among, among)
    yield from tight(among)
    yield from ran_well(case, among)


def unknown(case: Case, among: tuple[Candidate, ...], left: Sequence[Candidate] = ()) -> Iterable[Finding]:
    """Unknown demand is told where it would have made a difference: where there is more than one model, and runs have
    not shown that those that are `left` hold the job."""
    if not case.sized.demand.known and len(among) > 1 and not (left and all(one.fits for one in left)):
        variant = "" if case.sized.demand.low_mib is None else "bound"
        yield Finding("SST203", "metadata.annotations", {"missing": case.sized.missing}, variant)


def tight(among: tuple[Candidate, ...]) -> Iterable[Finding]:
    """Those that may be too small: by their likely figure, else at the high end."""
    risky = [one for one in among if one.risk and not one.memory_out]
    unlikely = [one for one in risky if one.unlikely]
    if unlikely:
        usable = min(one.usable_mib for one in unlikely)
        names = ", ".join(one.name for one in unlikely)
        yield Finding("SST202", facts={"models": names, "usable_mib": usable}, variant="unlikely")
    elif risky:
        yield Finding("SST202", facts={"models": ", ".join(one.name for one in risky)})
