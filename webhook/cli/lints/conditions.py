"""Conditions in CEL, and where in a file they are wrong."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from webhook.cli.lints.found import Found, error
from webhook.model.policy import Policy
from webhook.policy.cel import CelError, check, fields
from webhook.policy.documents import Document, Fault, Source, documents_of, printable
from webhook.policy.load import Read
from webhook.policy.matching import JOB_FIELDS, REQUEST_FIELDS
from webhook.policy.parts import Steps

_RULE = "condition"
_KNOWN_FIELDS = {"job": JOB_FIELDS, "request": REQUEST_FIELDS}
_EXPRESSIONS: Steps = ("spec", "match", "matchConditions")


def check_conditions(one: Read, policy: Policy) -> Iterator[Found]:
    """Fields that no job and no request has: such a condition never has an answer."""
    for index, condition in enumerate(policy.match.conditions):
        steps = (*_EXPRESSIONS, index, "expression")
        for field in fields(condition.expression):
            known = _KNOWN_FIELDS.get(field.variable)
            if known and field.name not in known:
                told = f"{field.variable} has no {field.name}: it has {', '.join(sorted(known))}"
                found = error(one, _RULE, told, *steps)
                yield replace(found, fault=_at(found.fault, one.source, steps, field.line, field.column))


def uncompiled(fault: Fault) -> tuple[str, Fault]:
    """The rule of a fault that the loader told and, where it is of a condition that cannot be compiled, the fault with
    its place in the expression."""
    steps = fault.field.split(".")
    if steps[:3] == list(_EXPRESSIONS) and steps[4:] == ["expression"]:
        way = (*_EXPRESSIONS, int(steps[3]), "expression")
        for one in documents_of(fault.file, Path(fault.file).read_bytes()):
            if isinstance(one, Document) and one.source.place(*way) == (fault.line, fault.column):
                scalar = _scalar(one.source, way)
                wrong = _wrong(scalar.value) if scalar else None
                if wrong is not None and fault.message == printable(str(wrong)):
                    told = replace(fault, message=wrong.problem)
                    return _RULE, _at(told, one.source, way, wrong.line, wrong.column)
    return "invalid", fault


def _wrong(expression: str) -> CelError | None:
    try:
        check(expression)
    except CelError as wrong:
        return wrong
    return None


def _at(fault: Fault, source: Source, steps: Steps, line: int, column: int) -> Fault:
    """The same where in the expression it is, as far as its scalar shows that; `line` 0: nowhere in particular."""
    scalar = _scalar(source, steps)
    if scalar is None or not line:
        return fault
    start, lines = scalar.start_mark, source.text.split("\n")
    if scalar.style == "|":
        first = start.line + 1
        indent = len(lines[first]) - len(lines[first].lstrip(" "))
        place = first + line - 1, indent + column - 1
    elif start.line == scalar.end_mark.line and scalar.value in lines[start.line]:
        place = start.line, lines[start.line].index(scalar.value, start.column) + column - 1
    else:  # folded or with escapes
        place = start.line, start.column
    return replace(fault, line=source.first + place[0], column=place[1] + 1)


def _scalar(source: Source, steps: Steps) -> yaml.ScalarNode | None:
    """What the steps lead to in the document, which has been read."""
    node = yaml.compose(source.text, Loader=yaml.CSafeLoader)
    for step in (*source.within, *steps):
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node if isinstance(node, yaml.ScalarNode) else None
