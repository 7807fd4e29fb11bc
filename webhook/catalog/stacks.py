"""Software stacks: which one an image or a program was built for (stacks.yaml)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, ClassVar, NamedTuple

import yaml
from pydantic import ConfigDict, Field, TypeAdapter

_CONFIG = ConfigDict(extra="forbid")
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class ImageSign:
    """What shows that an image is of a stack: its repository (a shell pattern), something in its tag, or both together.
    A group in `tag` is the major version."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str = ""
    tag: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if not self.name and self.tag is None:
            raise ValueError("name: or tag:, or both")


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack with the `vendors` whose devices run it; none: no vendor's that the catalog knows."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    stack: Annotated[str, Field(min_length=1)]
    vendors: frozenset[str]
    images: tuple[ImageSign, ...] = ()
    programs: frozenset[str] = frozenset()
    driver_labels: tuple[str, ...] = ()


class Built(NamedTuple):
    """What an image was built for. `major` is the version of the stack, 0 where the tag does not say."""

    stack: Stack
    major: int = 0


@cache
def stacks() -> tuple[Stack, ...]:
    """The catalog. Raises pydantic's ValidationError on a bad file (a test)."""
    text = files(__package__).joinpath("stacks.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Stack, ...]).validate_python(yaml.safe_load(text))


@lru_cache(4096)
def built_for(image: str) -> Built | None:
    """What this image was built for; None where nothing shows it, or where its name shows several."""
    if len(image) > _LONGEST:
        return None
    name, tag = _parts(image)
    found: dict[str, Built] = {}
    for stack in stacks():
        majors = [major for sign in stack.images if (major := _major(sign, name, tag)) is not None]
        if majors:
            found[stack.stack] = Built(stack, max(majors))
    return next(iter(found.values())) if len(found) == 1 else None


def is_signed(image: str, sign: ImageSign) -> bool:
    """Whether an image shows this."""
    return len(image) <= _LONGEST and _major(sign, *_parts(image)) is not None


def stack_of_program(words: tuple[str, ...]) -> tuple[str, Stack] | None:
    """The first of these words that names a program of one stack alone, as a file name, and that stack."""
    known = _programs()
    for word in words:
        name = word.rpartition("/")[2]
        if name in known:
            return name, known[name]
    return None


@cache
def _programs() -> Mapping[str, Stack]:
    """The stack of each program; of two that name it, the first."""
    return {name: stack for stack in reversed(stacks()) for name in stack.programs}


def _major(sign: ImageSign, name: str, tag: str) -> int | None:
    """The major version that a sign shows, 0 where it shows none; None where it is not there."""
    if sign.name and not (fnmatchcase(name, sign.name) or fnmatchcase(name, f"*/{sign.name}")):
        return None
    if sign.tag is None:
        return 0
    match = sign.tag.search(tag)
    if match is None:
        return None
    return int(match[1]) if sign.tag.groups else 0


def _parts(image: str) -> tuple[str, str]:
    """Repository and tag; a digest says nothing, and a port is no tag."""
    image = image.partition("@")[0]
    head, _, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{head}/{name}" if head else name, tag
