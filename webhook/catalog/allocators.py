"""Frameworks, and how each takes device memory (allocators.yaml)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, ClassVar

import yaml
from pydantic import ConfigDict, Field, TypeAdapter

from webhook.catalog.launchers import launchers
from webhook.catalog.stacks import ImageSign, is_signed
from webhook.model.profile import Allocator

_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, what shows it, and the environment that changes how it `takes` memory: with one of the values in
    `grows` as it needs it, with those of `variables` in another way or measure."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    framework: Annotated[str, Field(min_length=1)]
    takes: Allocator
    source: str
    kinds: frozenset[str] = frozenset()
    images: tuple[ImageSign, ...] = ()
    programs: frozenset[str] = frozenset()
    grows: Mapping[str, frozenset[str]] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()


@cache
def frameworks() -> tuple[Framework, ...]:
    """The catalog. Raises pydantic's ValidationError on a bad file (a test)."""
    text = files(__package__).joinpath("allocators.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Framework, ...]).validate_python(yaml.safe_load(text))


@cache
def memory_variables() -> frozenset[str]:
    """Every variable of the environment that changes how much device memory a framework takes, or how a trainer shares
    it among ranks."""
    shared = (parser.variables for parser in launchers().trainers.parsers.values())
    return frozenset(name for one in frameworks() for name in (*one.grows, *one.variables)).union(*shared)


@lru_cache(4096)
def frameworks_in(image: str) -> tuple[Framework, ...]:
    """Those that an image shows."""
    return tuple(one for one in frameworks() if any(is_signed(image, sign) for sign in one.images))
