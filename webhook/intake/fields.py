"""Typed access to decoded JSON: what has the wrong type is named by its path and by what stands there."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from webhook.model.finding import Finding, Phrase
from webhook.model.paths import dotted, printable
from webhook.model.placement import Pointer
from webhook.model.request import Object

EMPTY: Object = MappingProxyType({})
# First what nearly every map is: an abstract class takes much longer to ask.
_MAPS = (dict, Mapping)
MOST = (1 << 31) - 1
"""The largest number that Kubernetes takes for one of pods."""

A_MAP = Phrase("map")
A_LIST = Phrase("list")
A_STRING = Phrase("string")
A_BOOLEAN = Phrase("boolean")
A_NUMBER = Phrase("number", {"low": 0, "high": MOST})


class Unreadable(Exception):
    """A field of the job has a type that Kubernetes does not take there."""

    def __init__(self, at: Pointer, expected: Phrase, value: object) -> None:
        super().__init__(at, expected, value)
        self.at = at
        self.expected = expected
        self.value = value

    def finding(self) -> Finding:
        """SST101, with the field's path and what stands there."""
        where = dotted(self.at)
        return Finding("SST101", where, {"field": where, "expected": self.expected, "got": shown(self.value)})


def mapping(parent: Object, key: str, at: Pointer) -> Object:
    """The map under a key of the map at `at`; empty where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return EMPTY
    if isinstance(value, dict):
        return value
    raise Unreadable((*at, key), A_MAP, value)


def items(parent: Object, key: str, at: Pointer) -> Sequence[Any]:
    """The list under a key; empty where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    raise Unreadable((*at, key), A_LIST, value)


def objects(parent: Object, key: str, at: Pointer) -> Sequence[Object]:
    """The list of maps under a key; empty where it is absent or null."""
    return listed(parent.get(key), (*at, key))


def listed(value: object, at: Pointer) -> Sequence[Object]:
    """The value at `at` as a list of maps; empty where it is null."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Unreadable(at, A_LIST, value)
    for index, one in enumerate(value):
        if not isinstance(one, dict):
            raise Unreadable((*at, index), A_MAP, one)
    return value


def texts(parent: Object, key: str, at: Pointer) -> Sequence[str]:
    """The list of strings under a key; empty where it is absent or null."""
    found = items(parent, key, at)
    for index, value in enumerate(found):
        if not isinstance(value, str):
            raise Unreadable((*at, key, index), A_STRING, value)
    return found


def text(parent: Object, key: str, at: Pointer, default: str = "") -> str:
    """The string under a key; the default where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return default
    if isinstance(value, str):
        return value
    raise Unreadable((*at, key), A_STRING, value)


def found(source: Object, path: Pointer, at: Pointer = ()) -> object:
    """Whatever stands at a path of names below `source`; None where a part of the path is absent or null."""
    value: object = source
    for depth, key in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, _MAPS):
            raise Unreadable((*at, *path[:depth]), A_MAP, value)
        value = value.get(key)
    return value


def mapped(source: Object, path: Pointer, at: Pointer = ()) -> Object:
    """The map at a path of names; empty where it is absent or null."""
    value = found(source, path, at)
    if value is None:
        return EMPTY
    if isinstance(value, dict):
        return value
    raise Unreadable((*at, *path), A_MAP, value)


def count(source: Object, path: tuple[str, ...], at: Pointer = ()) -> int | None:
    """The whole number at a path, as an int32 from zero; None where it is absent or null."""
    value = found(source, path, at)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is int and 0 <= value <= MOST:
        return value
    raise Unreadable((*at, *path), A_NUMBER, value)


def flag(source: Object, path: tuple[str, ...]) -> bool:
    """The boolean at a path; False where it is absent or null."""
    value = found(source, path)
    if value is None or isinstance(value, bool):
        return value is True
    raise Unreadable(path, A_BOOLEAN, value)


def shown(value: object) -> str | Phrase:
    """A value as a message shows it: short, on one line, and safe to encode."""
    match value:
        case Phrase():
            return value
        case None:
            return Phrase("nothing")
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{printable(value)}"'
        case int() if value.bit_length() > 100:
            return Phrase("huge")
        case int() | float():
            return str(value)
        case dict():
            return A_MAP
        case list():
            return A_LIST
    return type(value).__name__
