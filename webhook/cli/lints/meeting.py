"""Policies that stand in one another's way."""

from collections.abc import Iterator, Sequence

from webhook.cli.lints.found import Found, warning
from webhook.model.policy import Policy, ValidationAction
from webhook.policy.load import Read
from webhook.policy.overlap import never_meet, selects_all_of
from webhook.policy.ruling import few

# What only the policy that steers decides. Of memory, onUnknown is about a finding, and those all policies gate.
_STEERS = (
    "pin",
    "likeness",
    "memory",
    "coupling",
    "room",
    "unknownNodes",
    "annotations",
    "evidence",
    "messages",
    "language",
)
_GATES_ALONE = frozenset({"onUnknown"})
# What counts for everyone, whichever policy says it.
_FOR_ALL = ("modelLabels", "kinds", "configMaps", "staleAfter")
_STRICTNESS = {ValidationAction.AUDIT: 0, ValidationAction.WARN: 1, ValidationAction.DENY: 2}


def check_meeting(policies: Sequence[tuple[Read, Policy]]) -> Iterator[Found]:
    """Policies of equal priority that can meet, and such as never steer. They come in the order in which they steer,
    without those that are for nothing."""
    for index, (one, policy) in enumerate(policies):
        before = [earlier for _, earlier in policies[:index]]
        met = [earlier for earlier in before if earlier.priority == policy.priority and can_meet(earlier, policy)]
        if met:
            told = f"a job may be under {few(earlier.name for earlier in met)} as well, of the same priority"
            yield warning(one, "equal-priority", f"{told}: the older steers, then the first by name", *_priority(one))
        if shadow := next((earlier for earlier in before if covers(earlier, policy)), None):
            yield from _never_steers(one, policy, shadow)


def can_meet(one: Policy, other: Policy) -> bool:
    """Whether both can be for one job, unless it is sure that they cannot.

    A change of a job's labels brings the policies of both together for that one request, where the pin is kept.
    """
    mine, theirs = one.match, other.match
    if mine.kinds is not None and theirs.kinds is not None and set(mine.kinds).isdisjoint(theirs.kinds):
        return False
    if never_meet(mine.namespaces, theirs.namespaces) or never_meet(mine.objects, theirs.objects):
        return False
    ours = {_bare(condition.expression) for condition in mine.conditions}
    return not any(
        f"!({_bare(condition.expression)})" in ours or _bare(condition.expression) in {f"!({text})" for text in ours}
        for condition in theirs.conditions
    )


def covers(one: Policy, other: Policy) -> bool:
    """Whether `one` is sure to be for every job that `other` is for."""
    mine, theirs = one.match, other.match
    if one.exceptions or (mine.kinds is not None and not (theirs.kinds and set(theirs.kinds) <= set(mine.kinds))):
        return False
    if not {condition.expression for condition in mine.conditions} <= {
        condition.expression for condition in theirs.conditions
    }:
        return False
    return selects_all_of(mine.namespaces, theirs.namespaces) and selects_all_of(mine.objects, theirs.objects)


def _never_steers(one: Read, policy: Policy, shadow: Policy) -> Iterator[Found]:
    spec = one.object.get("spec") or {}
    because = f"{shadow.name} is for all of its jobs and steers before it"
    weaker = _STRICTNESS[policy.validation_action] <= _STRICTNESS[shadow.validation_action]
    if weaker and not policy.codes and not shadow.codes and not any(field in spec for field in _FOR_ALL):
        yield warning(one, "no-effect", f"nothing here has an effect: {because}, and as strictly", "spec")
    elif idle := [field for field in _STEERS if _says(spec, field)]:
        told = (
            f"{because}: of this policy only findings count, and {few(idle)} {'have' if idle[1:] else 'has'} no effect"
        )
        yield warning(one, "no-effect", told, "spec", idle[0])


def _says(spec: dict[str, object], field: str) -> bool:
    value = spec.get(field)
    return value is not None and not (isinstance(value, dict) and value.keys() <= _GATES_ALONE)


def _priority(one: Read) -> tuple[str, ...]:
    spec = one.object.get("spec") or {}
    return ("spec", "priority") if "priority" in spec else ("metadata", "name")


def _bare(expression: str) -> str:
    return "".join(expression.split())
