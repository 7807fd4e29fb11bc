"""CREATE decides, UPDATE keeps."""

from dataclasses import replace

from webhook.decision.candidates import candidates, likes, told
from webhook.decision.case import Case
from webhook.decision.findings import memory_withheld, no_node, out_of_memory
from webhook.decision.mixed import is_mixed, slowing
from webhook.decision.notes import Pooled, Rule
from webhook.decision.pin import by_selector, narrowed, released, requires, writable
from webhook.decision.pool import TargetPool, target_pool
from webhook.decision.pooled import decide_pooled, given_to
from webhook.decision.pools import inside, lacking, obstacle
from webhook.decision.scope import Treatment, is_decided
from webhook.model.finding import Finding
from webhook.model.job import PinRecord, Role, TrainingJob
from webhook.model.policy import PinWhen, Policy
from webhook.model.profile import NO_LESSONS, Lessons
from webhook.model.verdict import Candidate, Decision, Given, Pin, Verdict
from webhook.sizing.demand import Sized


def decide_update(
    case: Case,
    old: TrainingJob,
    old_sized: Sized,
    *,
    by_service_account: bool,
    old_lessons: Lessons = NO_LESSONS,
) -> Decision:
    """The decision for a job that exists as `old`.

    A job that has not started is decided anew, keeping its pin while it passes; one that runs is denied only for what
    this update makes worse; a dropped pin is put back; everything else is admitted.
    """
    if not is_decided(case.job, case.scope):
        case.tell(Rule.CHILD if case.job.child_of is not None else Rule.NOT_OURS)
        return Decision(Verdict.ADMIT)
    lost = _lost(case, old)
    held = inside(case.job, lost) if lost else case.job
    dropped = _dropped(held, old, case)
    kept = replace(case, job=_with(held, dropped) if dropped else held)
    decision: Decision | None = None
    if _changed(kept.job, old, by_service_account=by_service_account):
        # Patches of a runtime may change only while the new object too is suspended (kubeflow/trainer#3043).
        fixed = old.template_fixed or (case.job.pin_patches is not None and case.job.template_fixed)
        if not old.started and not fixed:
            return _writable(_anew(case, old), case)
        decision = _running(kept, old, old_sized, old_lessons)
    if decision is not None and ((dropped is None and lost is None) or decision.verdict is Verdict.DENY):
        return decision
    if dropped is not None or lost is not None:
        case.tell(Rule.PUT_BACK)
        return _put_back(case, dropped, lost)
    case.tell(Rule.UNCHANGED)
    pool = target_pool(case.job, case.fleet)
    case.tell(Pooled(pool))
    figures = told(pool, _weighed(pool, case))
    nowhere = () if pool.nodes else (no_node(case.job, case.fleet),)
    return Decision(Verdict.ADMIT, figures, models=tuple(pool.models), findings=nowhere, pool_name=_stays_in(case))


def _stays_in(case: Case) -> str:
    return case.kept_in.name if case.kept_in is not None else ""


def _put_back(case: Case, dropped: Pin | None, lost: Given | None) -> Decision:
    pool = _stays_in(case)
    if dropped is None:
        told = Finding("SST301", facts={"pool": pool}, variant="restored-pool")
    else:
        facts = {"key": dropped.key, "values": ", ".join(dropped.values), "models": ", ".join(dropped.values)}
        told = Finding("SST301", facts=facts, variant="restored")
    return Decision(Verdict.PIN, pin=dropped, findings=(told,), pool_name=pool, given=lost)


def _lost(case: Case, old: TrainingJob) -> Given | None:
    """What the old object had of the pool that it was given, and the new one lacks without saying anything else."""
    if case.kept_in is None:
        return None
    schedulers = {role.name: role.placement.scheduler for role in old.roles}
    lacks = lacking(case.job, case.kept_in, created=True)
    additions = []
    for index, one in lacks.additions:
        had = schedulers.get(case.job.roles[index].name)
        one = one._replace(scheduler=one.scheduler if one.scheduler == had else "")
        if had is not None and any(one):
            additions.append((index, one))
    queue = lacks.queue if old.queue == lacks.queue else None
    lost = replace(lacks, additions=tuple(additions), queue=queue, slots=lacks.slots if queue else ())
    return lost if not lost.lacks_nothing and obstacle(case.job, case.kept_in, lost) is None else None


def _anew(case: Case, old: TrainingJob) -> Decision:
    """The decision without the pin that we gave: it is no wish of the submitter's, and may move to another model."""
    case.tell(Rule.NOT_STARTED)
    again, record = replace(case, keep=old.record, on_update=True), old.record
    free = replace(case.job, roles=tuple(released(role, record) for role in case.job.roles)) if record else case.job
    if record is None or free == case.job:
        return decide_pooled(again)
    case.tell(Rule.WITHOUT_OUR_PIN)
    # What is pinned stays pinned: where one model is left without our pin, the pin has to name that one.
    always = (
        replace(case.policy, pin_when=PinWhen.ALWAYS) if case.policy.pin_when is PinWhen.WHEN_MIXED else case.policy
    )
    decision = decide_pooled(replace(again, job=free, policy=always))
    pin = decision.pin
    if decision.verdict is Verdict.DENY:
        return decision
    if (
        pin is None
        or pin.beside is not None
        or pin.key != record.key
        or len(pin.values) != len(record.values)
        or case.job.narrows_only
    ):
        # It would have to be taken out: since none is needed, to be written in another form, or where selectors can
        # only be added to. What is there is left to stand, as the submitter's.
        case.tell(Rule.OUR_PIN_STAYS)
        return decide_pooled(again)
    left = tuple(index for index in pin.roles if not requires(case.job.roles[index], pin.key, pin.values))
    if not left:
        findings = tuple(one for one in decision.findings if one.code != "SST301")
        kept = replace(decision, verdict=Verdict.ADMIT, pin=None, findings=findings, given=None)
        return given_to(case.job, decision.given, kept) if decision.given else kept
    return replace(decision, pin=replace(pin, roles=left, moved_from=record.values))


def _writable(decision: Decision, case: Case) -> Decision:
    """The decision without a pin that the kind's own webhook would refuse, and with it the whole update."""
    pin, given, job = decision.pin, decision.given, case.job
    if not job.selector_only or (pin is None and given is None):
        return decision
    selects = all(
        by_selector(job.roles[index], one.key, one.values, moves=pin is not None and bool(pin.moved_from))
        for one in (pin.every if pin is not None else ())
        for index in one.roles
    )
    if selects and not any(one.expressions for _, one in (given.additions if given else ())):
        return decision
    case.tell(Rule.NOT_WRITABLE)
    facts = {"kind": job.kind.kind, "models": ", ".join(model.name for model in decision.models)}
    findings = (one for one in decision.findings if one.code != "SST301")
    refused = Finding("SST307", facts=facts, variant="selector-only")
    return replace(decision, verdict=Verdict.ADMIT, pin=None, given=None, findings=(refused, *findings))


def _with(job: TrainingJob, pin: Pin) -> TrainingJob:
    """The job with a pin in its roles."""
    roles = (narrowed(role, pin) if index in pin.roles else role for index, role in enumerate(job.roles))
    return replace(job, roles=tuple(roles))


def _running(case: Case, old: TrainingJob, old_sized: Sized, old_lessons: Lessons) -> Decision:
    pool, before = target_pool(case.job, case.fleet), target_pool(old, case.fleet)
    case.tell(Rule.STARTED)
    case.tell(Pooled(pool))
    weighed = _weighed(pool, case)
    figures = told(pool, weighed)
    if not pool.nodes:
        return Decision(Verdict.ADMIT, figures, findings=(no_node(case.job, case.fleet),))
    worse = _all_out(pool, case) and not _all_out(before, replace(case, sized=old_sized, lessons=old_lessons))
    if worse and not memory_withheld(pool, case):
        return Decision(Verdict.DENY, figures, findings=(out_of_memory(case, weighed),))
    spreads = len(likes(pool, case.policy)) > 1 and len(likes(before, case.policy)) == 1
    if spreads and not case.may_mix and case.scope.treatment is Treatment.ONE_MODEL and not case.stale_s:
        names = ", ".join(model.name for model in pool.models)
        finding = Finding("SST302", facts={"models": names}, variant="update")
        return Decision(Verdict.DENY, figures, findings=(finding,), straggler=slowing(pool, case.lessons))
    return Decision(Verdict.ADMIT, figures, models=tuple(pool.models))


def _weighed(pool: TargetPool, case: Case) -> tuple[Candidate, ...]:
    return candidates(pool, case.sized.demand, case.policy, gang=False, lessons=case.lessons)


def _all_out(pool: TargetPool, case: Case) -> bool:
    weighed = _weighed(pool, case)
    some = case.may_mix and case.scope.treatment is Treatment.ONE_MODEL and is_mixed(pool, case.policy)
    return bool(weighed) and (any if some else all)(one.memory_out for one in weighed)


def _dropped(new: TrainingJob, old: TrainingJob, case: Case) -> Pin | None:
    """The pin that the old object had and the new one lacks.

    A recorded pin is ours to put back. A selector that nothing records is put back only where the API server would
    refuse its removal anyway: GitOps replaced the object by the file in Git (argo-cd#1487).
    """
    # A selector of the submitter's in a patch would be put back as our own patch: no more like the old object.
    refused = old.template_fixed and old.pin_patches is None
    record = old.record or (_selected(old, case.policy, case) if refused else None)
    # A job that may be mixed needs no pin any more, while there is still time.
    if record is None or (case.may_mix and not old.started and not old.template_fixed):
        return None
    key, values = record.key, record.values
    had = {role.name: role for role in old.device_roles if requires(role, key, values)}
    lost = tuple(
        index
        for index, role in enumerate(new.roles)
        # Saying something new about this key is a change, saying no more than before an omission.
        if role.decided
        and role.name in had
        and not requires(role, key, values)
        and writable(role, key, values)
        and _said(role, key) <= _said(had[role.name], key)
    )
    return Pin(record.key, record.values, lost, ours=old.record is not None) if lost else None


def _selected(old: TrainingJob, policy: Policy, case: Case) -> PinRecord | None:
    """A selector of the old object by a key that names the model, as if it had been recorded."""
    for role in old.device_roles:
        column = case.fleet.devices.get(role.device)
        keys = (*policy.pin_keys, *(column.product_keys if column else ()))
        for key, value in role.placement.node_selector:
            if key in keys:
                return PinRecord(key, (value,), policy.name)
    return None


def _said(role: Role, key: str) -> set[object]:
    """Everything that the role's selectors say about this key."""
    selected = {value for named, value in role.placement.node_selector if named == key}
    terms = role.placement.terms or ()
    return selected | {one for term in terms for one in term.expressions if one.key == key}


def _changed(new: TrainingJob, old: TrainingJob, *, by_service_account: bool) -> bool:
    """Whether devices, the products that claims name, batch, selector, affinity or what is wished for changed.

    Selectors that a controller writes, or that come in the request in which suspend flips, are a queue's choice
    (Kueue): not a change. Neither are replicas inside elastic bounds: the gang stays.
    """
    if _asks(new) != _asks(old):
        return True
    if by_service_account or new.suspended != old.suspended:
        return False
    return _lands(new) != _lands(old)


def _asks(job: TrainingJob) -> tuple[object, ...]:
    batch = job.batch.declared or job.batch.micro
    roles = tuple((one.name, one.gang, dict(one.requests), frozenset(one.products)) for one in job.device_roles)
    return (roles, batch.value if batch else None)


def _lands(job: TrainingJob) -> tuple[object, ...]:
    places = tuple((dict(one.placement.node_selector), one.placement.terms) for one in job.device_roles)
    return (places, job.wishes)
