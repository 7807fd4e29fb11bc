"""How runs end, in the words of Kubernetes and of the frameworks (terminations.yaml)."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import ClassVar

import yaml
from pydantic import ConfigDict, TypeAdapter

from webhook.model.workload import Path

_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object that says by one word whether it has ended, and how."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    at: Path
    well: frozenset[str]
    badly: frozenset[str]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Types of conditions, fields, and the paths of messages and of times."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    well: frozenset[str]
    badly: frozenset[str]
    fields: tuple[Field, ...]
    messages: tuple[Path, ...]
    times: tuple[Path, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Pods:
    """What ends a pod from outside."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    reasons: frozenset[str]
    conditions: frozenset[str]
    source: str


@dataclass(frozen=True, slots=True)
class Containers:
    """What ends a container and is no device's doing."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    reasons: frozenset[str]
    exit_codes: frozenset[int]
    source: str


@dataclass(frozen=True, slots=True)
class Words:
    """What a framework says at its end."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    framework: str
    pattern: re.Pattern[str]
    source: str


@dataclass(frozen=True, slots=True)
class Terminations:
    """All of the file."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    jobs: Jobs
    pods: Pods
    containers: Containers
    device_memory: tuple[Words, ...]
    not_device_memory: tuple[Words, ...]

    def framework_out_of_memory(self, message: str) -> str:
        """The framework that says in this message that a device ran out of memory; empty: none does."""
        if any(one.pattern.search(message) for one in self.not_device_memory):
            return ""
        return next((one.framework for one in self.device_memory if one.pattern.search(message)), "")


@cache
def terminations() -> Terminations:
    """The catalog. Raises pydantic's ValidationError on a bad file (a test)."""
    text = files("webhook.catalog").joinpath("terminations.yaml").read_text("utf-8")
    return TypeAdapter(Terminations).validate_python(yaml.safe_load(text))
