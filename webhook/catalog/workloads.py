"""Kinds of training job: where each keeps its roles, replicas, templates and states (workloads.yaml)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter

from webhook.model.job import Coupling
from webhook.model.request import Kind

_CONFIG = ConfigDict(extra="forbid")


def _split(path: object) -> object:
    return tuple(path.split(".")) if isinstance(path, str) else path


Path = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_split)]
"""A dotted path, split once at load."""


class Children(StrEnum):
    """Whether what the kind's controller makes follows this object, or is decided when it is created."""

    DECIDED = "Decided"
    UNDECIDED = "Undecided"


class Each(StrEnum):
    """What lies at a role's path: the role itself, or a map of roles by name."""

    ONE = "One"
    ENTRY = "Entry"


class Template(StrEnum):
    """When the API server takes a change of the pod template."""

    FREE = "Free"
    UNTIL_STARTED = "UntilStarted"


@dataclass(frozen=True, slots=True)
class Roles:
    """Where roles are and how they count. `template`, `pods` and `runs` are paths inside a role.

    `pods` at once is the least of the numbers that are set, the first of them 1 where it is not; `runs` in all, `pods`
    where not set; `gang` maps a role's name to the path, from the object, of the least number that must run; `fixed`
    are roles whose number of pods cannot be changed.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    at: Path
    each: Each
    template: Path
    pods: Annotated[tuple[Path, ...], Field(min_length=1)]
    name: str = ""
    runs: Path | None = None
    gang: dict[str, Path] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if (self.each is Each.ONE) != bool(self.name):
            raise ValueError("name: goes with each: One, and only with it")


@dataclass(frozen=True, slots=True)
class ByField:
    """Values of a field that mean another coupling."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    field: Path
    values: dict[str, Coupling]


@dataclass(frozen=True, slots=True)
class CouplingRule:
    """The coupling of several pods with devices where no launcher says more."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    several: Coupling
    by: ByField | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind. `started` is a path whose value, if not empty, says that the controller has begun to run the job;
    `processes` the path of the processes per node; `environment` what the controller itself sets in each container."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    kind: str
    group: str
    versions: Annotated[tuple[str, ...], Field(min_length=1)]
    plural: str
    children: Children
    roles: Annotated[tuple[Roles, ...], Field(min_length=1)]
    coupling: CouplingRule
    started: Path
    source: str
    suspend: Path | None = None
    template: Template = Template.FREE
    processes: Path | None = None
    environment: frozenset[str] = frozenset()

    @property
    def elastic(self) -> bool:
        """Whether the kind has a field of its own for the least number of pods."""
        return any(roles.gang for roles in self.roles)


class Workloads:
    """The catalog, with its look-ups. Raises ValueError where a kind is there twice."""

    def __init__(self, entries: Iterable[Workload]) -> None:
        self.entries = tuple(entries)
        self._by_kind: Mapping[Kind, Workload] = {
            Kind(one.group, version, one.kind): one for one in self.entries for version in one.versions
        }
        if len(self._by_kind) != sum(len(one.versions) for one in self.entries):
            raise ValueError("a kind has two entries for one version")

    def of(self, kind: Kind) -> Workload | None:
        """The entry for exactly this group, version and kind."""
        return self._by_kind.get(kind)

    def of_any_version(self, group: str, kind: str) -> Workload | None:
        """The entry for this group and kind, as owner references are to be read: versions come and go."""
        return next((one for one in self.entries if one.kind == kind and one.group == group), None)


def read_workloads(text: str) -> Workloads:
    """The catalog written in this YAML. Raises pydantic's ValidationError, or ValueError, naming the entry."""
    return Workloads(TypeAdapter(tuple[Workload, ...]).validate_python(yaml.safe_load(text)))


@cache
def workloads() -> Workloads:
    """The catalog that comes with the package."""
    return read_workloads(files(__package__).joinpath("workloads.yaml").read_text(encoding="utf-8"))
