"""What differs between two submissions of the same training (volatile.yaml)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, ClassVar, NamedTuple

import yaml
from pydantic import ConfigDict, Field, TypeAdapter

_CONFIG = ConfigDict(extra="forbid")
_Names = tuple[Annotated[str, Field(min_length=1)], ...]
_MASK = "~"
_DIGIT_OR_SLASH = re.compile(r"[0-9/]")
# Nothing in a longer word is looked for: it is a program or a document, not an argument.
_LONGEST = 2048
_REMEMBERED = 256


class Volatile(NamedTuple):
    """The catalog, ready to look up. `flags` take a value, `switches` do not, both as `flag_name` spells them; `values`
    is what may stand in any word; `telling` are endings of files by whose name trainings differ; `preparing` are
    programs; `variables` are those of the environment by which programs are told what to train."""

    flags: frozenset[str]
    switches: frozenset[str]
    values: re.Pattern[str]
    telling: tuple[str, ...]
    preparing: frozenset[str]
    variables: frozenset[str]


@cache
def volatile() -> Volatile:
    """The catalog. Raises pydantic's ValidationError on a bad file, ValueError where a flag stands twice (a test)."""
    file = TypeAdapter(_File).validate_python(
        yaml.safe_load(files(__package__).joinpath("volatile.yaml").read_text(encoding="utf-8"))
    )
    names = [name for part in file.flags for name in part.names]
    if twice := {one for one in (*names, *file.switches) if (*names, *file.switches).count(one) > 1}:
        raise ValueError(f"{min(twice)}: stands twice")
    return Volatile(
        frozenset(names),
        frozenset(file.switches),
        re.compile("|".join(_alternatives(file.values)), re.ASCII),
        file.telling,
        frozenset(file.preparing),
        frozenset(file.variables),
    )


def flag_name(text: str) -> str:
    """How a flag or key is known here: without leading dashes (of one letter: with one) and with `-` for `_`. Hydra's
    `+` and `~` before a key do not matter."""
    name = text.lstrip("-+~").replace("_", "-")
    return f"-{name}" if len(name) == 1 and text[:1] == "-" else name


def is_among(name: str, names: frozenset[str]) -> bool:
    """Whether a `flag_name` is one of these; of a key with dots the last part counts as well."""
    return name in names or ("." in name and name.rpartition(".")[2] in names)


def steady(text: str) -> str:
    """A word without what is volatile in it."""
    if len(text) > _LONGEST or not _DIGIT_OR_SLASH.search(text):
        return text
    return _remembered(text) if len(text) <= _REMEMBERED else _steady(text)


def _steady(text: str) -> str:
    known = volatile()
    if text.endswith(known.telling):
        folder, slash, name = text.rpartition("/")
        return f"{known.values.sub(_MASK, folder + slash)}{name}" if slash else text
    return known.values.sub(_MASK, text)


_remembered = lru_cache(8192)(_steady)


_DIGIT_OR_SLASH = re.compile(r"[0-9/]")


@dataclass(frozen=True, slots=True)
class _Flags:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    names: Annotated[_Names, Field(min_length=1)]
    why: str


@dataclass(frozen=True, slots=True)
class _Value:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    pattern: Annotated[str, Field(min_length=1, max_length=400)]
    why: str


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    flags: tuple[_Flags, ...]
    switches: _Names
    values: tuple[_Value, ...]
    telling: _Names
    preparing: _Names
    variables: _Names


def _alternatives(values: tuple[_Value, ...]) -> Iterator[str]:
    for one in values:
        re.compile(one.pattern)  # says which of them is wrong
        yield f"(?:{one.pattern})"
