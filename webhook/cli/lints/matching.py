"""What a policy is for: kinds, selectors, conditions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

import yaml

from webhook.cli.lints.found import Found, error, warning
from webhook.model.policy import Policy
from webhook.model.workload import Workloads
from webhook.policy.cel import CelError, check, fields
from webhook.policy.documents import Source
from webhook.policy.load import Read
from webhook.policy.matching import JOB_FIELDS, REQUEST_FIELDS
from webhook.policy.overlap import selects_nothing
from webhook.policy.parts import Steps

UNREACHABLE = "unreachable"

_SELECTORS = ("namespaceSelector", "objectSelector")
_KNOWN_FIELDS = {"job": JOB_FIELDS, "request": REQUEST_FIELDS}


def check_matching(one: Read, policy: Policy, kinds: Workloads) -> Iterator[Found]:
    """Kinds that are not known, selectors and conditions that nothing meets."""
    if policy.match.kinds is not None:
        unknown = list(unknown_kinds(one, policy.match.kinds, kinds, "match"))
        yield from unknown
        if len(unknown) == len(policy.match.kinds):
            told = "no job is of a kind that it matches: it is for nothing"
            yield error(one, UNREACHABLE, told, "spec", "match", "kinds")
    for name, selector in zip(_SELECTORS, (policy.match.namespaces, policy.match.objects), strict=True):
        if selects_nothing(selector):
            told = "contradicts itself and selects nothing: the policy is for nothing"
            yield error(one, UNREACHABLE, told, "spec", "match", name)
    for index, condition in enumerate(policy.match.conditions):
        yield from _conditions(one, index, condition.expression)


def unknown_kinds(one: Read, named: Sequence[str], kinds: Workloads, *steps: str) -> Iterator[Found]:
    """A warning for each of these kinds that is not reviewed. `steps` lead from the spec to what has `kinds`."""
    entries = {_name(entry.kind, entry.group): entry for entry in kinds.entries}
    for index, kind in enumerate(named):
        entry = entries.get(kind)
        if entry is None:
            meant = next(iter(get_close_matches(kind, entries, n=1)), "")
            told = f"{kind} is no kind that is known"
            told += f"; {meant} is" if meant else ""
            yield warning(one, "unknown-kind", told, "spec", *steps, "kinds", index)
        elif entry.serves:
            told = f"{kind} serves and does not train: it is never looked at"
            yield warning(one, "unknown-kind", told, "spec", *steps, "kinds", index)


def check_taught(policies: Iterable[tuple[Read, Policy]]) -> Iterator[Found]:
    """Kinds that several policies teach: the first one counts for all."""
    first: dict[str, str] = {}
    for one, policy in policies:
        for index, kind in enumerate(policy.kinds):
            name = _name(kind.kind, kind.group)
            if first.setdefault(name, policy.name) != policy.name:
                told = f"{name} is taught by {first[name]} as well, which counts"
                yield warning(one, "taught-twice", told, "spec", "kinds", index)


def _conditions(one: Read, index: int, expression: str) -> Iterator[Found]:
    steps = ("spec", "match", "matchConditions", index, "expression")
    try:
        check(expression)
    except CelError as fault:
        yield _at(error(one, "condition", fault.problem, *steps), one.source, steps, fault.line, fault.column)
        return
    for found in fields(expression):
        known = _KNOWN_FIELDS.get(found.variable, ())
        if known and found.name not in known:
            told = f"{found.variable} has no {found.name}: it has {', '.join(sorted(known))}"
            yield _at(error(one, "condition", told, *steps), one.source, steps, found.line, found.column)


def _at(found: Found, source: Source, steps: Steps, line: int, column: int) -> Found:
    """The same where in the expression it is, as far as its scalar shows that; `line` 0: nowhere in particular."""
    scalar = _scalar(source, steps)
    if scalar is None or not line:
        return found
    start, lines = scalar.start_mark, source.text.split("\n")
    if scalar.style == "|":
        first = start.line + 1
        indent = len(lines[first]) - len(lines[first].lstrip(" "))
        place = first + line - 1, indent + column - 1
    elif scalar.start_mark.line == scalar.end_mark.line and scalar.value in lines[start.line]:
        place = start.line, lines[start.line].index(scalar.value, start.column) + column - 1
    else:  # folded or with escapes
        place = start.line, start.column
    return replace(found, fault=replace(found.fault, line=source.first + place[0], column=place[1] + 1))


def _scalar(source: Source, steps: Steps) -> yaml.ScalarNode | None:
    """What the steps lead to in the document, which has been read."""
    node = yaml.compose(source.text, Loader=yaml.CSafeLoader)
    for step in (*source.within, *steps):
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node if isinstance(node, yaml.ScalarNode) else None


def _name(kind: str, group: str) -> str:
    return f"{kind}.{group}" if group else kind
