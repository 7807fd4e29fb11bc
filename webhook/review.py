"""The one path: the webhook, the command line, the audit and the tests all come through here."""

from dataclasses import replace

from webhook.catalog.codes import action_of
from webhook.decision.decide import Case, decide
from webhook.decision.scope import Treatment
from webhook.decision.suggest import suggest
from webhook.decision.update import decide_update
from webhook.decision.validate import check_created
from webhook.fleet.pods import siblings
from webhook.fleet.queues import reach
from webhook.intake.read import Outside, Wrapper, name_of, read_job
from webhook.intake.wrapped import DEEPEST, Held
from webhook.model.demand import UNKNOWN_DEMAND
from webhook.model.finding import Action, Finding
from webhook.model.job import TrainingJob
from webhook.model.paths import dotted
from webhook.model.policy import ValidationAction
from webhook.model.request import Object, Request, Stage
from webhook.model.verdict import Decision, Review, Verdict
from webhook.model.world import World
from webhook.sizing.demand import size


def review(request: Request, world: World) -> Review:
    """What Samestep says to one request. Pure: no clock, no network, no state; never raises on any object.

    A denial carries suggestions, each of which went through this same path and was admitted.
    """
    outcome = _review(request, world)
    if outcome.verdict is not Verdict.DENY or request.stage is not Stage.MUTATE:
        return outcome
    found = suggest(outcome, world.fleet, lambda changed: _review(replace(request, object=changed), world))
    return replace(outcome, suggestions=found)


def _review(request: Request, world: World, depth: int = 0) -> Review:
    if because := _none_of_ours(request):
        return _outside(request, world, because)
    job = _read(request, request.object, world)
    if isinstance(job, Wrapper):
        return _checked(request, world, job, depth)
    if isinstance(job, Outside):
        return _outside(request, world, job.because, job.findings)
    old = _read(request, request.old_object, world) if request.operation == "UPDATE" and request.old_object else None
    policy = world.policy
    sized = size(job, policy)
    case = Case(
        job,
        sized,
        world.fleet,
        policy,
        request.now,
        keep=siblings(world.pinned, job.namespace, job.group),
        promises=world.promises,
        grouped=bool(job.group),
    )
    decision = _decide(request, case, old if isinstance(old, TrainingJob) else None)
    decision = replace(decision, findings=(*decision.findings, *job.findings))
    decision = _unreadable_denies(decision, case, old)
    return Review(
        request,
        policy,
        verdict=_given(decision.verdict, policy.validation_action),
        would_be=decision.verdict,
        decision=decision,
        demand=sized.demand,
        job=job,
        micro_batch=sized.micro_batch,
    )


def _decide(request: Request, case: Case, old: TrainingJob | None) -> Decision:
    if old is not None:
        by_service_account = request.user.name.startswith("system:serviceaccount:")
        decision = decide_update(case, old, size(old, case.policy), by_service_account=by_service_account)
        if request.stage is Stage.VALIDATE and decision.verdict is Verdict.PIN:
            return check_created(case)
        return decision
    return check_created(case) if request.stage is Stage.VALIDATE else decide(case)


def _unreadable_denies(decision: Decision, case: Case, old: TrainingJob | Wrapper | Outside | None) -> Decision:
    """An annotation of ours that cannot be read denies a job in scope; on an UPDATE only if it was not there before."""
    before = old.findings if isinstance(old, TrainingJob | Outside) else ()
    unreadable = tuple(one for one in case.job.findings if action_of(one) is Action.DENY and one not in before)
    if not unreadable or case.scope.treatment is Treatment.NONE or case.job.child_of is not None:
        return decision
    return replace(decision, verdict=Verdict.DENY, pin=None)


def _none_of_ours(request: Request) -> str:
    """Why the request is admitted unread; empty where it is to be reviewed."""
    if request.subresource:
        return f"subresource {request.subresource}"
    if request.operation not in ("CREATE", "UPDATE"):
        return f"operation {request.operation}"
    metadata = request.object.get("metadata")
    if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
        return "being deleted"
    old = request.old_object
    if request.operation == "UPDATE" and old is not None and old.get("spec") == request.object.get("spec"):
        return "spec unchanged"
    return ""


def _read(request: Request, obj: Object, world: World) -> TrainingJob | Wrapper | Outside:
    job = read_job(
        obj,
        kind=request.kind,
        namespace=request.namespace,
        user=request.user,
        known=world.kinds,
        surroundings=world.surroundings,
        config_maps=world.policy.config_maps,
    )
    return replace(job, reach=reach(job, world.queues)) if isinstance(job, TrainingJob) and job.queue else job


def _checked(request: Request, world: World, wrapper: Wrapper, depth: int) -> Review:
    """A wrapper is admitted as it is, and told what awaits what it holds: those objects are decided when they are
    created, where a denial would come late (kubernetes#93783)."""
    inside: list[tuple[Held, Review]] = []
    for one in wrapper.held if depth < DEEPEST else ():
        seeing = replace(world, surroundings=one.sees(world.surroundings, request.object))
        inside.append((one, _review(_creation(request, one), seeing, depth + 1)))
    findings = tuple(
        replace(finding, where=_inside(one, finding.where))
        for one, outcome in inside
        for finding in outcome.decision.findings
        if finding.code not in _untold(one)
    )
    told = next((outcome for _, outcome in inside if outcome.job is not None and outcome.decision.findings), None)
    told = told or next((outcome for _, outcome in inside if outcome.job is not None), None)
    outside = _outside(request, world, f"{request.kind} holds jobs that are decided when they are created", findings)
    if told is None:
        return outside
    decision = replace(told.decision, verdict=Verdict.ADMIT, pin=None, findings=findings)
    # What has no name of its own yet is told by the wrapper's.
    job = told.job and replace(told.job, name=told.job.name or name_of(request.object))
    return replace(outside, decision=decision, demand=told.demand, job=job, micro_batch=told.micro_batch)


def _untold(one: Held) -> tuple[str, ...]:
    """Nothing is pinned yet; and what a runtime's jobs need, they declare themselves."""
    return ("SST301",) if one.refers_to is None else ("SST301", "SST203")


def _creation(request: Request, one: Held) -> Request:
    return replace(request, kind=one.kind, object=one.object, operation="CREATE", old_object=None, stage=Stage.MUTATE)


def _inside(one: Held, where: str) -> str:
    place = dotted(one.at)
    return f"{place}.{where}" if where and place else where or place


def _outside(request: Request, world: World, because: str, findings: tuple[Finding, ...] = ()) -> Review:
    decision = Decision(Verdict.ADMIT, findings=findings)
    return Review(request, world.policy, Verdict.ADMIT, Verdict.ADMIT, decision, UNKNOWN_DEMAND, because=because)


def _given(verdict: Verdict, action: ValidationAction) -> Verdict:
    """What the object gets of what a denying policy would have given."""
    if action is ValidationAction.AUDIT or (action is ValidationAction.WARN and verdict is Verdict.DENY):
        return Verdict.ADMIT
    return verdict
