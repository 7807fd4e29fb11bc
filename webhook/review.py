"""The one path: the webhook, the command line, the audit and the tests all come through here."""

from dataclasses import replace

from webhook.catalog.codes import action_of
from webhook.decision.case import Case
from webhook.decision.landed import started
from webhook.decision.notes import Tell, untold
from webhook.decision.pooled import decide_pooled
from webhook.decision.pools import lacking
from webhook.decision.scope import Treatment, is_decided, scope
from webhook.decision.suggest import suggest
from webhook.decision.update import decide_update
from webhook.decision.validate import check_created
from webhook.decision.wishes import heard, ignored
from webhook.evidence.lessons import lessons_of
from webhook.evidence.recipe import recipe_of
from webhook.evidence.termination import ending_with_their_log
from webhook.fleet.pods import siblings
from webhook.fleet.queues import reach
from webhook.intake.read import Outside, Wrapper, name_of, read_job
from webhook.intake.wrapped import DEEPEST, Held
from webhook.model.demand import UNKNOWN_DEMAND
from webhook.model.finding import Action, Finding
from webhook.model.job import TrainingJob
from webhook.model.paths import dotted
from webhook.model.placement import Pointer
from webhook.model.policy import Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.model.request import Object, Request, Stage
from webhook.model.rules import Namespaces, Rules
from webhook.model.verdict import Decision, Review, Verdict
from webhook.model.world import World
from webhook.policy.matching import asks_who, pools_for
from webhook.policy.ruling import NOBODY, Ruling, candidates, gate, language, rule
from webhook.sizing.demand import size


def review(request: Request, world: World, tell: Tell = untold) -> Review:
    """What Samestep says to one request. Pure: no clock, no network, no state; never raises on any object.

    A denial carries suggestions, each of which went through this same path and was admitted. `tell` hears what the
    decision goes through (not of what a wrapper holds).
    """
    outcome = _review(request, world, tell=tell)
    if outcome.verdict is not Verdict.DENY or request.stage is not Stage.MUTATE:
        return outcome
    found = suggest(outcome, world.fleet, lambda changed: _review(replace(request, object=changed), world))
    return replace(outcome, suggestions=found)


def _review(request: Request, world: World, depth: int = 0, tell: Tell = untold) -> Review:
    if because := _none_of_ours(request):
        return _outside(request, world, because)
    job, ruling = _ruled(request, world)
    if isinstance(job, Wrapper):
        return _checked(request, world, job, depth)
    policy = ruling.steering
    if not ruling.policies:
        because = job.because if isinstance(job, Outside) else "out of scope of every policy"
        told = _outside(request, world, because, ruling.findings)
        return replace(told, exceptions=ruling.used)
    old = _old(request, world, policy)
    before = old.findings if isinstance(old, TrainingJob | Outside) else ()
    spoken = language(request, world.namespaces, policy)
    if isinstance(job, Outside):
        gated = gate(Decision(Verdict.ADMIT, findings=job.findings), ruling, before)
        return Review(
            request,
            policy,
            gated.verdict,
            gated.would_be,
            gated.decision,
            UNKNOWN_DEMAND,
            because=job.because,
            language=spoken,
            exceptions=gated.used,
        )
    assert isinstance(job, TrainingJob), "what is a wrapper does not depend on what may be read"
    if (taken := heard(job, policy)) != job.findings:
        job = replace(job, findings=taken)
    if because := ignored(job, policy):
        return replace(_outside(request, world, because, ruling.findings), job=job, exceptions=ruling.used)
    lessons = _lessons(job, policy, request, world)
    sized = size(job, policy, lessons=lessons)
    case = Case(
        job,
        sized,
        world.fleet,
        policy,
        request.now,
        keep=siblings(world.pinned, job.namespace, job.group),
        promises=world.promises,
        grouped=bool(job.group),
        queued=world.queued,
        queues=world.queues,
        tell=tell,
        pools_in_view=world.rules is not None,
        lessons=lessons,
    )
    decided_before = old if isinstance(old, TrainingJob) else None
    if world.rules is not None and world.rules.pools:
        case = _with_pools(case, request, world.rules, world.namespaces, decided_before)
    decision = _decide(request, case, decided_before, world)
    if request.stage is Stage.AUDIT and job.started:
        decision = started(decision)
    if found := _of_the_job(case):
        decision = replace(decision, findings=(*decision.findings, *found))
    gated = gate(decision, ruling, before)
    return Review(
        request,
        policy,
        verdict=gated.verdict,
        would_be=gated.would_be,
        decision=gated.decision,
        demand=sized.demand,
        job=job,
        micro_batch=sized.micro_batch,
        language=spoken,
        exceptions=gated.used,
        lessons=lessons,
        to_log=_to_log(request, case, decided_before),
        as_nobody=_as_nobody(request, case, world),
    )


def learnable(request: Request, world: World) -> tuple[TrainingJob, tuple[Policy, ...]] | None:
    """The job that an object is, with the policies that decide it, for whoever observes how it runs; None where it is
    left alone. Pure; never raises on any object."""
    job, ruling = _ruled(request, world)
    if not ruling.policies or not isinstance(job, TrainingJob) or ignored(job, ruling.steering):
        return None
    left_alone = scope(job, ruling.steering).treatment is Treatment.NONE
    return None if left_alone else (job, ruling.policies)


def _ruled(request: Request, world: World) -> tuple[TrainingJob | Wrapper | Outside, Ruling]:
    """What the object is, read as the policy that steers lets it be read, and the policies that it is under; those of a
    wrapper are not asked."""
    found = candidates(request, world)
    reading = found[0] if found else NOBODY
    job = _read(request, request.object, world, reading)
    if isinstance(job, Wrapper):
        return job, Ruling(())
    ruling = rule(found, request, job if isinstance(job, TrainingJob) else None, world)
    if ruling.policies and ruling.steering.config_maps is not reading.config_maps:
        job = _read(request, request.object, world, ruling.steering)
    return job, ruling


def _lessons(job: TrainingJob, policy: Policy, request: Request, world: World) -> Lessons:
    """What earlier runs teach of a job that is decided; of another nobody asks."""
    if not world.profiles or not is_decided(job, scope(job, policy)):
        return NO_LESSONS
    return lessons_of(recipe_of(job, policy.evidence), world.profiles, request.namespace, request.now)


def _to_log(request: Request, case: Case, old: TrainingJob | None) -> tuple[Pointer, ...]:
    if request.stage is not Stage.MUTATE or not is_decided(case.job, case.scope):
        return ()
    return ending_with_their_log(case.job, old, case.policy, created=request.operation == "CREATE")


def _with_pools(case: Case, request: Request, rules: Rules, namespaces: Namespaces, old: TrainingJob | None) -> Case:
    """The case with the pools that the job may be given, and the one that it is in already.

    Its record alone is no evidence: the selectors and tolerations have to be there. An UPDATE may come from someone
    else, a controller say, and who created what is there is not known, so whoever may use the pool is not asked again.
    """
    pools = pools_for(request, rules, namespaces)
    is_there = old is not None or request.stage is Stage.AUDIT
    among, given_to = rules.pools if is_there else pools, old or case.job
    kept = next((one for one in among if one.name == given_to.given), None)
    if kept is not None and not lacking(given_to, kept, created=False).lacks_nothing:
        kept = None
    return replace(case, pools=pools, kept_in=kept)


def _as_nobody(request: Request, case: Case, world: World) -> bool:
    """Of a job that is there already; one that was given its pool then has it now."""
    if request.stage is not Stage.AUDIT or request.user.name or world.rules is None:
        return False
    if not is_decided(case.job, case.scope):
        return False
    return asks_who(request, world.rules, world.namespaces, for_pools=case.kept_in is None)


def _decide(request: Request, case: Case, old: TrainingJob | None, world: World) -> Decision:
    if old is not None:
        by_service_account = request.user.name.startswith("system:serviceaccount:")
        lessons = _lessons(old, case.policy, request, world)
        sized = size(old, case.policy, lessons=lessons)
        decision = decide_update(case, old, sized, by_service_account=by_service_account, old_lessons=lessons)
        if request.stage is Stage.VALIDATE and decision.verdict is Verdict.PIN:
            return check_created(case)
        return decision
    return check_created(case) if request.stage is Stage.VALIDATE else decide_pooled(case)


def _of_the_job(case: Case) -> tuple[Finding, ...]:
    """What was found while reading. An annotation of ours that cannot be read denies a job in scope, and no other."""
    findings = case.job.findings
    if not findings or is_decided(case.job, case.scope):
        return findings
    return tuple(replace(one, action=Action.WARN) if action_of(one) is Action.DENY else one for one in findings)


def _old(request: Request, world: World, policy: Policy) -> TrainingJob | Wrapper | Outside | None:
    if request.operation != "UPDATE" or not request.old_object:
        return None
    return _read(request, request.old_object, world, policy)


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


def _read(request: Request, obj: Object, world: World, policy: Policy) -> TrainingJob | Wrapper | Outside:
    job = read_job(
        obj,
        kind=request.kind,
        namespace=request.namespace,
        user=request.user,
        known=world.kinds,
        surroundings=world.surroundings,
        config_maps=policy.config_maps,
    )
    return replace(job, reach=reach(job, world.queues)) if isinstance(job, TrainingJob) and job.queue else job


def _checked(request: Request, world: World, wrapper: Wrapper, depth: int) -> Review:
    """A wrapper is admitted as it is, and told what awaits what it holds: those objects are decided when they are
    created, where a denial would come late (kubernetes#93783)."""
    inside: list[tuple[Held, Review]] = []
    for one in wrapper.held if depth < DEEPEST else ():
        seeing = replace(world, surroundings=one.sees(world.surroundings, request.object))
        inside.append((one, _review(creation_of(request, one), seeing, depth + 1)))
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
    decision = replace(told.decision, verdict=Verdict.ADMIT, pin=None, given=None, findings=findings)
    outside = replace(outside, policy=told.policy, language=told.language)
    # What has no name of its own yet is told by the wrapper's.
    job = told.job and replace(told.job, name=told.job.name or name_of(request.object))
    return replace(outside, decision=decision, demand=told.demand, job=job, micro_batch=told.micro_batch)


def _untold(one: Held) -> tuple[str, ...]:
    """Nothing is pinned yet; and what a runtime's jobs need, they declare themselves."""
    return ("SST301",) if one.refers_to is None else ("SST301", "SST203")


def creation_of(request: Request, one: Held) -> Request:
    """The request that will create what this one's object holds."""
    return replace(
        request, kind=one.kind, object=one.object, operation="CREATE", old_object=None, stage=Stage.MUTATE, raw={}
    )


def _inside(one: Held, where: str) -> str:
    place = dotted(one.at)
    return f"{place}.{where}" if where and place else where or place


def _outside(request: Request, world: World, because: str, findings: tuple[Finding, ...] = ()) -> Review:
    decision = Decision(Verdict.ADMIT, findings=findings)
    policy = world.policy if world.rules is None else NOBODY
    return Review(request, policy, Verdict.ADMIT, Verdict.ADMIT, decision, UNKNOWN_DEMAND, because=because)
