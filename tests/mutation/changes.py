"""One change at a time to an object of ours: each field and each entry that is set is removed or made another."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from webhook.policy.objects import KINDS
from webhook.policy.parts import Steps

Json: TypeAlias = Any
Change: TypeAlias = tuple[Steps, str, Json]
"""Where, what was done, and what stands there then: of `changes` the whole object."""

_ORDERING = {"TrainingPolicy": "priority", "AcceleratorPool": "order"}
"""Numbers that only say who goes before whom: made less, and more, than all others."""
_FOR_PEOPLE = frozenset({"reason", "source"})
_MOST_OTHERS = 3
_AMOUNT = re.compile("([0-9]+)(%|[A-Za-z]+)")


def changes(document: Json, beside: Iterable[Json]) -> Iterator[Change]:
    """Of an object's spec; `beside` are the others of its file. Some come to nothing, or to what nobody takes."""
    kind, spec = document["kind"], document["spec"]
    root = KINDS[kind].model_json_schema(by_alias=True)
    ordering = _ORDERING.get(kind, "")
    for steps, how, changed in _below(spec, _resolved(root["properties"]["spec"], root), root):
        if steps != (ordering,):
            yield ("spec", *steps), how, document | {"spec": changed}
    others = [one["spec"].get(ordering, 0) for one in beside if one["kind"] == kind]
    if others and ordering in spec:
        least, most = min(others), max(others)
        if spec[ordering] >= least:
            yield ("spec", ordering), f"-> {least - 1}", document | {"spec": spec | {ordering: least - 1}}
        if spec[ordering] <= most:
            yield ("spec", ordering), f"-> {most + 1}", document | {"spec": spec | {ordering: most + 1}}


def _below(value: Json, schema: Mapping[str, Json], root: Mapping[str, Json]) -> Iterator[Change]:
    """`value` with each change, and where in it that is."""
    match value:
        case dict():
            fields = schema.get("properties", {})
            for key, one in value.items():
                if key in _FOR_PEOPLE:
                    continue
                yield (key,), "removed", {name: other for name, other in value.items() if name != key}
                if key not in fields:
                    renamed = {f"{name}-x" if name == key else name: other for name, other in value.items()}
                    yield (key,), "renamed", renamed
                part = fields[key] if key in fields else schema["additionalProperties"]
                for steps, how, changed in _below(one, _resolved(part, root), root):
                    yield (key, *steps), how, value | {key: changed}
        case list():
            for index, one in enumerate(value):
                rest = [*value[:index], *value[index + 1 :]]
                yield (index,), "removed", rest
                for steps, how, changed in _below(one, _resolved(schema["items"], root), root):
                    yield (index, *steps), how, [*value[:index], changed, *value[index + 1 :]]
        case _:
            yield from (((), f"-> {other}", other) for other in _others(value, schema))


def _others(value: Json, schema: Mapping[str, Json]) -> Iterator[Json]:
    """Other values of a field that has no parts."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (0, 2 * value)
    elif "enum" in schema:
        yield from [one for one in schema["enum"] if one != value][:_MOST_OTHERS]
    elif schema.get("format") == "date-time":
        time = datetime.fromisoformat(value)
        yield from (time.replace(year=time.year + years).isoformat() for years in (-1, 1))
    elif amount := _AMOUNT.fullmatch(value):
        number, unit = int(amount[1]), amount[2]
        yield from (f"{number // 2}{unit}", f"{2 * number}{unit}")
    elif schema.get("title") == "Expression":
        yield f"!({value})"
    else:
        yield f"{value}-x"


def _resolved(schema: Mapping[str, Json], root: Mapping[str, Json]) -> Mapping[str, Json]:
    """Without references, and without null."""
    while True:
        match schema:
            case {"$ref": str(name)}:
                schema = root["$defs"][name.rpartition("/")[2]]
            case {"anyOf": [*choices]}:
                schema = next(one for one in choices if one.get("type") != "null")
            case _:
                return schema
