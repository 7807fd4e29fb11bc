"""Flags as parsers take them: spellings, and tables in which each flag stands once."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

_Value = TypeVar("_Value")


class Spelling(StrEnum):
    """Whether a parser takes `-` and `_` inside a long flag alike."""

    EXACT = "Exact"
    BOTH = "Both"


def spelled(flags: Iterable[str], spelling: Spelling) -> Iterator[str]:
    """The flags in every way that the parser takes."""
    for flag in flags:
        yield flag
        if spelling is Spelling.BOTH and flag.startswith("--"):
            name = flag[2:]
            yield from ({f"--{name.replace('_', '-')}", f"--{name.replace('-', '_')}"} - {flag})


def once(pairs: Iterable[tuple[str, _Value]]) -> Mapping[str, _Value]:
    """A table of these pairs. Raises ValueError where two have one name."""
    found: dict[str, _Value] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name}: claimed by two entries")
        found[name] = value
    return MappingProxyType(found)
