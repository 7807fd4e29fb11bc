"""Configuration files as trees: JSON, YAML and TOML, each by its library, and the values in them by key."""

import re
import tomllib
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import orjson
import yaml

from webhook.catalog.strict_yaml import load_all

Tree: TypeAlias = Mapping[str, Any]
"""Maps, lists and scalars, as decoded."""

_DEEPEST = 12
_MOST = 2_000
# tomllib takes time by the square of the number of a key's parts.
_LONG_KEY = re.compile(r"(?:\.[ \t]{0,4}[^.=\s]{1,64}[ \t]{0,4}){16}")


class Fault(NamedTuple):
    """Why a text is no configuration, with the line and the column where there is one."""

    problem: str


def parsed(text: str, *, toml: bool = False) -> Tree | Fault:
    """The map that a text holds: TOML, JSON where it begins with a brace, else YAML. Never raises."""
    return _remembered(text, toml) if len(text) <= _LONGEST_REMEMBERED else _parsed(text, toml)


def _parsed(text: str, toml: bool) -> Tree | Fault:  # noqa: FBT001
    try:
        if toml:
            if _LONG_KEY.search(text):
                return Fault("a key of too many parts")
            return tomllib.loads(text)
        found = _json(text) if text.lstrip()[:1] == "{" else _yaml(text)
    except (ValueError, RecursionError) as error:
        return Fault(str(error) or "nested too deeply")
    return found if isinstance(found, dict) else Fault("expected a map")


# All roles of a job, and both calls of the webhook, bring the same file. Nobody changes what is given.
_LONGEST_REMEMBERED = 8192
_remembered = lru_cache(maxsize=32)(_parsed)


def entries(tree: Tree, whole: Container[str] = ()) -> Iterator[tuple[str, object]]:
    """The values of a tree, each under its dotted key, down to so many and so deep. A scalar, or a list of scalars, is
    text as a command line would have it; maps under a key in `whole` are given as they are. What is null is not there.
    """
    waiting: list[tuple[str, Tree, int]] = [("", tree, 0)]
    left = _MOST
    while waiting:
        prefix, branch, depth = waiting.pop()
        for name, value in branch.items():
            left -= 1
            if not left:
                return
            key = f"{prefix}{name}"
            if isinstance(value, dict):
                if key in whole:
                    yield key, value
                elif depth < _DEEPEST:
                    waiting.append((f"{key}.", value, depth + 1))
            elif isinstance(value, list):
                if not any(isinstance(one, dict | list) for one in value):
                    yield key, ",".join(_text(one) for one in value[:_MOST])
            elif value is not None:
                yield key, _text(value)


def span(text: str, key: str) -> tuple[int, int] | None:
    """Where the number under a dotted key stands in a JSON or YAML text that can be read; None where it stands nowhere
    as such."""
    return _remembered_span(text, key) if len(text) <= _LONGEST_REMEMBERED else _span(text, key)


def _span(text: str, key: str) -> tuple[int, int] | None:
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    rest = key
    while isinstance(node, yaml.MappingNode):
        found = [
            (name.value, value)
            for name, value in node.value
            if isinstance(name, yaml.ScalarNode) and (rest == name.value or rest.startswith(f"{name.value}."))
        ]
        if len(found) != 1:
            return None
        name, node = found[0]
        rest = rest[len(name) + 1 :]
    if rest or not isinstance(node, yaml.ScalarNode) or not node.value.isdigit():
        return None
    start, end = node.start_mark.index, node.end_mark.index
    if text[start : start + 1] in "'\"":
        start, end = start + 1, end - 1
    return (start, end) if text[start:end] == node.value else None


_remembered_span = lru_cache(maxsize=32)(_span)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except ValueError:
        # Flow style YAML begins with a brace too, and DeepSpeed takes JSON with comments and a comma too many (hjson).
        return _yaml(text)


def _yaml(text: str) -> object:
    documents = load_all(text)
    return next(documents, None)
