"""Flags as parsers take them: spellings, what numbers mean, and tables in which each flag stands once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

_Value = TypeVar("_Value")


class Spelling(StrEnum):
    """Whether a parser takes `-` and `_` inside a long flag alike."""

    EXACT = "Exact"
    BOTH = "Both"


class Means(StrEnum):
    """What a number on a command line, or in a configuration file, is."""

    NODES = "nodes"
    PER_NODE = "perNode"
    TOTAL = "total"
    MICRO_BATCH = "microBatch"
    ACCUMULATION = "accumulation"
    GLOBAL_BATCH = "globalBatch"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a flag, key or variable says.

    Of a micro-batch: `certain` where it is that of one device, `by_launcher` where a launcher that starts a process for
    each device makes it so; `accumulation_flag` is how accumulation is spelled beside it, empty if unknown. Of a global
    batch: `shared` where each device takes its share of it, so that the micro-batch follows.
    """

    means: Means
    certain: bool = True
    by_launcher: bool = False
    shared: bool = False
    accumulation_flag: str = ""


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
