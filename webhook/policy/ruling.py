"""Who wins: which policies gate a job, which one of them steers, and what they make of a decision.

All policies that match gate, with the strictest action for each code; the first steers. Exceptions take jobs out of a
policy, or codes out of what it denies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase
from operator import itemgetter

from webhook.catalog.codes import action_of, may_deny
from webhook.model.finding import Action, Finding
from webhook.model.frozen import frozen
from webhook.model.job import TrainingJob
from webhook.model.policy import Language, Policy, ValidationAction
from webhook.model.request import Request
from webhook.model.rules import Namespaces, PolicyException
from webhook.model.verdict import Decision, ExceptionUse, Verdict
from webhook.model.world import World
from webhook.policy.matching import index_of, matched

NOBODY = Policy(name="")
"""Stands for no policy at all: the job is out of scope."""

LANGUAGE = "samestep.dev/lang"
"""The label of a namespace that says in which language its people read messages."""

_LANGUAGES = {str(one): one for one in Language}
_STRICTNESS = {Action.INFORM: 0, Action.WARN: 1, Action.DENY: 2}
_LEADING = ("SST404", "SST501", "SST205", "SST201", "SST401")
_MOST_MET = 5
# Where the steering policy gives no pin, no other can miss it.
_OF_THE_PIN = frozenset({"SST301", "SST302"})


@frozen
class Ruling:
    """The policies that a job is under, the steering one first; none: it is out of scope.

    `excepted` are, by name of policy, the codes that it may not deny for, with the exception that says so; `used` the
    exceptions that took the job out of a policy. `findings` tell of the rules themselves.
    """

    policies: tuple[Policy, ...]
    excepted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    used: tuple[ExceptionUse, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def steering(self) -> Policy:
        return self.policies[0] if self.policies else NOBODY


@frozen
class Gated:
    """What an object gets of a decision (`verdict`), and what it would get if every policy denied (`would_be`)."""

    verdict: Verdict
    would_be: Verdict
    decision: Decision
    used: tuple[ExceptionUse, ...] = ()


def candidates(request: Request, world: World) -> tuple[Policy, ...]:
    """The policies that may match: their conditions and exceptions are still to be looked at."""
    if world.rules is None or not (world.rules.policies or world.rules.never_good):
        return (world.policy,)
    return index_of(world.rules).candidates(request, world.namespaces)


def rule(found: tuple[Policy, ...], request: Request, job: TrainingJob | None, world: World) -> Ruling:
    """What the candidates come to for this job; None where the object could not be read as one."""
    rules = world.rules
    if rules is None or not (rules.policies or rules.never_good):
        return Ruling(found)
    matching = matched(found, request, job, world.namespaces)
    findings = list(matching.findings)
    policies = matching.policies
    excepted: dict[str, Mapping[str, str]] = {}
    used: tuple[ExceptionUse, ...] = ()
    mine = [one for one in rules.exceptions if one.namespace == request.namespace and _is_for(one, request)]
    if mine:
        policies, excepted, used, expired = _excepted(policies, mine, request.now)
        findings += expired
    if len(policies) > 1 and policies[0].priority == policies[1].priority:
        met = [one.name for one in policies[:_MOST_MET] if one.priority == policies[0].priority]
        facts: dict[str, str | int | float] = {"policy": met[0], "others": few(met[1:])}
        findings.append(Finding("SST703", facts=facts, action=Action.INFORM))
    if rules.never_good and not matching.policies and job is not None and job.device_roles:
        findings.append(Finding("SST701", facts={"policies": few(rules.never_good)}, action=Action.INFORM))
    return Ruling(policies, excepted, used, tuple(findings))


def gate(decision: Decision, ruling: Ruling, before: tuple[Finding, ...] = ()) -> Gated:
    """The decision with the actions of its findings in force: denials first, then what a Deny policy would deny for.

    What the decision itself has withheld (a finding with an action of its own) is never raised, and neither is what an
    UPDATE leaves as it was (`before`). What the gates deny has no pin, and is admitted unpinned where that counts as a
    warning; what only a raised code denies keeps its pin then, for the validating stage would miss it.
    """
    steering = ruling.steering
    used: dict[ExceptionUse, None] = dict.fromkeys(ruling.used)
    exempt = ruling.excepted.get(steering.name, {}).get("SST302")
    if exempt and decision.verdict is Verdict.PIN:
        used[ExceptionUse(steering.name, exempt, "SST302")] = None
        decision = _unpinned(decision)
    pins = steering.validation_action is not ValidationAction.AUDIT and not exempt
    told: list[tuple[tuple[int, int], Finding]] = []
    denied = would_deny = False
    gates = _gates(ruling)
    for finding in decision.findings:
        default, withheld = action_of(finding), finding.action is not None or finding in before
        acting, would = Action.INFORM, Action.INFORM
        for policy in gates if pins or finding.code not in _OF_THE_PIN else gates[:1]:
            said = _said(finding.code, default, policy, withheld=withheld)
            exception = ruling.excepted.get(policy.name, {}).get(finding.code) if said is Action.DENY else None
            if exception:
                used[ExceptionUse(policy.name, exception, finding.code)] = None
                said = Action.WARN
            acting = _stricter(acting, _done(said, policy.validation_action))
            would = _stricter(would, said)
        rank = _rank(finding.code, acting, would)
        told.append((rank, finding if default is acting else replace(finding, action=acting)))
        denied, would_deny = denied or acting is Action.DENY, would_deny or would is Action.DENY
    verdict = _given(decision.verdict, denied=denied, pinning=pins)
    would_be = _given(decision.verdict, denied=would_deny, pinning=True)
    kept, given = (decision.pin, decision.given) if Verdict.PIN in (verdict, would_be) else (None, None)
    if kept is None and given is None and decision.verdict is Verdict.PIN:
        told = [one for one in told if one[1].code != "SST301"]
    told.sort(key=itemgetter(0))
    findings = (*[finding for _, finding in told], *ruling.findings)
    if (would_be, kept, given, findings) != (decision.verdict, decision.pin, decision.given, decision.findings):
        decision = replace(decision, verdict=would_be, pin=kept, given=given, findings=findings)
    return Gated(verdict, would_be, decision, tuple(used))


def language(request: Request, namespaces: Namespaces, policy: Policy) -> Language:
    """The namespace's say, else the policy's. One that there are no texts in counts as none."""
    wanted = namespaces.get(request.namespace, {}).get(LANGUAGE, "")
    return _LANGUAGES.get(wanted, policy.language)


def _excepted(
    matching: tuple[Policy, ...], mine: list[PolicyException], now: float
) -> tuple[tuple[Policy, ...], dict[str, Mapping[str, str]], tuple[ExceptionUse, ...], list[Finding]]:
    """The policies that are left, the codes that they may not deny for, and what was used or has expired."""
    left: list[Policy] = []
    excepted: dict[str, Mapping[str, str]] = {}
    used: list[ExceptionUse] = []
    expired: list[Finding] = []
    for policy in matching:
        ours = [one for one in mine if policy.exceptions and policy.name in one.policies]
        in_force = [one for one in ours if one.until > now]
        expired += [_expired(one, policy) for one in ours if not one.until > now]
        if wholly := next((one for one in in_force if not one.codes), None):
            used.append(ExceptionUse(policy.name, _called(wholly)))
            continue
        left.append(policy)
        if in_force:
            excepted[policy.name] = {code: _called(one) for one in reversed(in_force) for code in one.codes}
    return tuple(left), excepted, tuple(used), expired


def _gates(ruling: Ruling) -> list[Policy]:
    """One policy for each thing that policies do to findings, the steering one first: hundreds may match that all do
    the same."""
    excepted = ruling.excepted
    first: dict[object, Policy] = {}
    for one in ruling.policies:
        first.setdefault((one.validation_action, one.name if one.codes or one.name in excepted else ""), one)
    return list(first.values())


def _said(code: str, default: Action, policy: Policy, *, withheld: bool) -> Action:
    """What this policy would have a finding do if it denied."""
    if withheld and default is Action.DENY:
        default = Action.WARN
    said = policy.codes.get(code, default)
    if withheld and _STRICTNESS[said] > _STRICTNESS[default]:
        return default
    return Action.WARN if said is Action.DENY and not may_deny(code) else said


def _done(said: Action, action: ValidationAction) -> Action:
    """What comes of it under this action of the policy."""
    if action is ValidationAction.DENY:
        return said
    if action is ValidationAction.AUDIT:
        return Action.INFORM
    return Action.WARN if said is Action.DENY else said


def _given(verdict: Verdict, *, denied: bool, pinning: bool) -> Verdict:
    if denied:
        return Verdict.DENY
    return verdict if verdict is Verdict.PIN and pinning else Verdict.ADMIT


def _stricter(one: Action, other: Action) -> Action:
    return one if _STRICTNESS[one] >= _STRICTNESS[other] else other


def _rank(code: str, acting: Action, would: Action) -> tuple[int, int]:
    """Denials first, in the order in which they are told by, then what would be one; the rest as it came."""
    if would is not Action.DENY:
        return 2, 0
    return int(acting is not Action.DENY), _LEADING.index(code) if code in _LEADING else len(_LEADING)


def _unpinned(decision: Decision) -> Decision:
    models = tuple(model for one in decision.pool.candidates for model in one.models)
    findings = tuple(one for one in decision.findings if one.code != "SST301")
    return replace(decision, verdict=Verdict.ADMIT, pin=None, given=None, models=models, findings=findings)


def _is_for(exception: PolicyException, request: Request) -> bool:
    if exception.kinds and str(request.kind) not in exception.kinds:
        return False
    return not exception.names or any(fnmatchcase(_name(request), pattern) for pattern in exception.names)


def _name(request: Request) -> str:
    """Its name, or what its name is to begin with."""
    metadata = request.object.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    named = (metadata.get(key) for key in ("name", "generateName"))
    return next((one for one in named if isinstance(one, str) and one), "")


def _expired(exception: PolicyException, policy: Policy) -> Finding:
    facts = {"exception": _called(exception), "policy": policy.name}
    return Finding("SST702", facts=facts, action=Action.INFORM)


def _called(exception: PolicyException) -> str:
    return f"{exception.namespace}/{exception.name}"


def few(names: Iterable[str]) -> str:
    """Three of them, and how many more there are."""
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")
