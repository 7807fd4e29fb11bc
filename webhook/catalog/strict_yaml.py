"""YAML as kubectl reads it: JSON's types and no others, dates stay text, keys are strings, and no key comes twice."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from webhook.catalog.templates import braces_in, not_rendered

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""An escape in JSON: a pair of two for one character, half of one, or another."""


class YamlError(ValueError):
    """Not YAML that Kubernetes takes. `line` and `column` count from 1, and are in the message; 0: it has no place."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {problem}" if line else problem)
        self.problem, self.line, self.column = problem, line, column


def load_all(text: str) -> Iterator[Any]:
    """The documents of a text, one after the other. Raises YamlError, and nothing else.

    JSON is YAML, but its own parser is some fifty times as fast: 10,000 nodes from kubectl are over 100 MB.
    """
    if text[:1] == "{":
        try:
            loaded = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
        except (ValueError, RecursionError):
            pass  # several documents, or flow style, or a fault that the YAML parser has a place for
        else:
            _whole_characters(text)
            yield loaded
            return
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _fault(error, text) from None
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except RecursionError:
        raise YamlError("nested too deeply") from None
    except UnicodeEncodeError as error:
        raise _half(error.object, error.start, "") from None


def items_of(listed: Mapping[str, Any]) -> list[Any] | None:
    """What a Kubernetes List holds, each with the kind and apiVersion that the API server leaves out of the items of
    its own lists; None for what is no List."""
    items, kind = listed.get("items"), listed["kind"]
    if not kind.endswith("List") or not isinstance(items, list):
        return None
    said = {"apiVersion": listed["apiVersion"], "kind": kind.removesuffix("List")}
    return [{**said, **item} if isinstance(item, dict) and said["kind"] else item for item in items]


def places_in(text: str, ways: Iterable[Iterable[str | int]]) -> Iterator[tuple[int, int]]:
    """For each way, line and column, from 1, of the field or item that its steps lead to in the one document of this
    text, or of the last one before the way ends; 0, 0 where that cannot be told."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError):
        root = None
    for way in ways:
        node, mark = root, root.start_mark if root else None
        for step in way:
            found = _below(node, step)
            if found is None:
                break
            mark, node = found
        yield (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _below(node: yaml.Node | None, step: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in reversed(node.value) if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _fault(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    """What is wrong, with its place; where braces of a template are the reason, that this is what it is."""
    problem = error.problem or error.context or "not YAML"
    mark = error.problem_mark
    if mark is None:
        return YamlError(problem)
    tool = braces_in(text, mark.line)
    hint = f" ({not_rendered(tool)})" if tool else ""
    return YamlError(f"{problem}{hint}", mark.line + 1, mark.column + 1)


def _whole_characters(text: str) -> None:
    """Raises YamlError where JSON escapes half of a pair (RFC 8259, section 8.2): UTF-8 cannot say it, so no object in
    a cluster holds it, and YAML does not take it."""
    if "\\ud" in text or "\\uD" in text:
        for found in _ESCAPE.finditer(text):
            if found["half"]:
                raise _half(text, found.start(), f" ({found[0]})")


def _half(text: str, at: int, told: str) -> YamlError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return YamlError(f"half of a surrogate pair{told}, which is no character", line, column)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key comes twice")
    return members


def _no_number(text: str) -> Any:  # noqa: ANN401 - never returns
    raise ValueError(f"{text} is not JSON")


class _Loader(yaml.CSafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002, FBT001, FBT002
        if not isinstance(node, yaml.MappingNode):
            raise yaml.MarkedYAMLError(problem="not a map", problem_mark=node.start_mark)
        own = list(node.value)
        self.flatten_mapping(node)
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="expected a plain key", problem_mark=key_node.start_mark)
        seen: set[str] = set()
        for key_node, _ in own:  # what a merge brings in may be overridden
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f'key "{key_node.value}" comes twice', problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        # Deep: an alias to what it stands in is an error, not an object that contains itself.
        return {key_node.value: self.construct_object(value_node, deep=True) for key_node, value_node in node.value}


def _number_or_boolean(loader: _Loader, node: yaml.ScalarNode) -> object:
    if ":" in node.value:  # 12:30 is a number of base 60 in YAML 1.1, which Go's YAML never took up
        return node.value
    try:
        return yaml.CSafeLoader.yaml_constructors[node.tag](loader, node)
    except (ValueError, LookupError):  # more digits than Python takes from text, or "!!int" before something else
        problem = f"not {'a boolean' if node.tag.endswith('bool') else 'a number'}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None


_YAML = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_YAML) not in ("timestamp", "value")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.CSafeLoader.yaml_constructors.items()
    if tag is None or tag.removeprefix(_YAML) in ("null", "str", "seq", "map")
}
for _name in ("bool", "int", "float"):
    _Loader.add_constructor(f"{_YAML}{_name}", _number_or_boolean)
