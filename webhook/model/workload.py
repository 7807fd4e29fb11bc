"""How one kind of object is read, as data: where it keeps its roles, replicas, templates and states.

The catalog (workloads.yaml) and policies are read into these by pydantic; what is said here is their schema.
"""

from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, StrictBool, StrictInt, WithJsonSchema

from webhook.model.frozen import frozen
from webhook.model.job import Coupling
from webhook.model.request import Kind

_CONFIG = ConfigDict(extra="forbid")


def _checked(*checks: tuple[str, str, str]) -> ConfigDict:
    """For the API server the checks of `__post_init__`: each a field to name, what must hold in CEL, and what is
    said."""
    rules: list[JsonValue] = [{"rule": rule, "message": said, "fieldPath": f".{field}"} for field, rule, said in checks]
    return ConfigDict(extra="forbid", json_schema_extra={"x-kubernetes-validations": rules})


def _split(path: object) -> object:
    """A dotted path; empty for the place itself."""
    return (tuple(path.split(".")) if path else ()) if isinstance(path, str) else path


Path = Annotated[
    tuple[Annotated[str, Field(min_length=1, pattern=r"^[^\s'\"\\]+$")], ...],
    BeforeValidator(_split),
    WithJsonSchema({"type": "string", "pattern": r"^([^\s'\"\\.]+(\.[^\s'\"\\.]+)*)?$"}),
]
"""A dotted path, split once at load. The empty path is the place from which it starts."""

# What Kubernetes takes as each, so that they can stand in the name and the conditions of a webhook. No `\w`: to Rust
# that is every letter of Unicode, more than Kubernetes takes, and up to 61 of them make an automaton of 4 MiB.
_KIND = r"^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
_LABEL = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
_GROUP = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*)?$"
_KEY = r"^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"


class Children(StrEnum):
    """What the kind's controller makes: it follows this object (Decided), is decided when it is created (Undecided), or
    serves and is none of our business (Serving)."""

    DECIDED = "Decided"
    UNDECIDED = "Undecided"
    SERVING = "Serving"


class Each(StrEnum):
    """What lies at a path: one thing itself, a map of things by name, or a list of them."""

    ONE = "One"
    ENTRY = "Entry"
    ITEM = "Item"


class Template(StrEnum):
    """When the API server, or the kind's own webhook, takes a change of the pod template."""

    FREE = "Free"
    UNTIL_STARTED = "UntilStarted"


@frozen
class Roles:
    """Where roles are and how they count. All paths start at the role, those of `gang`, `sets` and `scales` at the
    object. A role without a pod template is not there.

    `pods` at once is the least of the numbers that are set, the first of them `default` where it is not, and 1 where no
    path is given; one less where `beside` is set (the template of another role that is one of them); never less than
    `least`, which is the number that must run. Where `scales` is a path, that number is only for where it is true, and
    so many as `most` may come then. All this `times` over in one gang, and in as many `sets` as there are gangs. `runs`
    in all over the life, `pods` where not set. `gang` maps a role's name to the path of the least number that must run.
    `fixed` are roles whose number of pods cannot be changed.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _checked(
        (
            "name",
            "(self.each == 'One') == (has(self.name) && self.name != '')",
            "goes with each: One, and only with it",
        ),
        ("most", "!has(self.most) || has(self.scales)", "goes with scales:"),
    )
    at: Path
    each: Each
    template: Path
    pods: tuple[Path, ...] = ()
    default: Annotated[StrictInt, Field(ge=0)] = 1
    name: str = ""
    named: Annotated[Path, Field(json_schema_extra={"default": "name"})] = ("name",)
    runs: Path | None = None
    times: tuple[Path, ...] = ()
    beside: Path | None = None
    least: Path | None = None
    most: Path | None = None
    scales: Path | None = None
    sets: Path | None = None
    gang: dict[str, Path] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if (self.each is Each.ONE) != bool(self.name):
            raise ValueError("name: goes with each: One, and only with it")
        if self.most is not None and self.scales is None:
            raise ValueError("most: goes with scales:")


class HeldAs(StrEnum):
    """How a wrapper holds an object: whole; as its metadata and spec (the kind is `kind`); as YAML in a string; as a
    workflow's step that becomes a pod; or as a runtime of that kind's jobs, for what the shortest of them would be."""

    OBJECT = "Object"
    TEMPLATE = "Template"
    MANIFEST = "Manifest"
    STEP = "Step"
    RUNTIME = "Runtime"


@frozen
class Holds:
    """Objects of other kinds inside this one, which its controller creates later. `object` starts at what `at` gives.

    `kind` is "Kind.version.group" for what is held as a template or a runtime."""

    __pydantic_config__: ClassVar[ConfigDict] = _checked(
        (
            "kind",
            "(self.held in ['Template', 'Runtime']) == (has(self.kind) && self.kind != '')",
            "goes with held: Template or Runtime, and only with these",
        ),
    )
    at: Path
    each: Each
    held: HeldAs
    object: Path = ()
    kind: Annotated[str, Field(pattern=r"^[^.]+\.[^.]+\.")] = ""

    def __post_init__(self) -> None:
        if (self.held in (HeldAs.TEMPLATE, HeldAs.RUNTIME)) != bool(self.kind):
            raise ValueError("kind: goes with held: Template or Runtime, and only with these")


@frozen
class ByField:
    """A place that means another coupling: some values there, or that anything is there at all."""

    __pydantic_config__: ClassVar[ConfigDict] = _checked(
        (
            "values",
            "(has(self.values) && size(self.values) > 0) != has(self.there)",
            "values: or there:, one of them",
        ),
    )
    at: Path
    values: dict[str, Coupling] = field(default_factory=dict)
    there: Coupling | None = None

    def __post_init__(self) -> None:
        if bool(self.values) == (self.there is not None):
            raise ValueError("values: or there:, one of them")


@frozen
class CouplingRule:
    """The coupling of several pods with devices where no launcher says more; the first of `by` that applies, else
    `several`."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    several: Coupling
    by: Annotated[tuple[ByField, ...], Field(max_length=32)] = ()


@frozen
class Groups:
    """What binds objects of a kind that has one pod each: the first of these labels or annotations that is there names
    the group; `total` is the annotation with the number of its pods."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    total: str = ""


@frozen
class Workload:
    """One kind: a job with `roles`, a wrapper that `holds` other objects, a job whose templates are those of the
    `runtime` that it names at this path, or, with none of these, a kind that serves.

    `suspend` is a path whose value, true or not empty, holds the job back; `started` one whose value, if not empty,
    says that the controller has begun to run it (None: it has, unless it is held back). `together` is the path of how
    many pods of all roles must run; `apart` are roles that are no ranks, but for those for which `joining` has a path,
    where that is true; `scripts` the paths of command lines outside the pods. `processes` is the path of the processes
    per node; `environment` what the controller itself sets in each container. `selector_only`: of a template that may
    change, only nodeSelector and tolerations may; `narrows_only`: selectors and affinity may only be added to.
    `only_with` names an annotation without which the kind is none of ours. `queues` are the paths of fields that name
    the job's queue, by its system (queues.yaml).
    """

    __pydantic_config__: ClassVar[ConfigDict] = _checked(
        (
            "roles",
            (
                "[has(self.roles) && size(self.roles) > 0, has(self.holds) && size(self.holds) > 0, has(self.runtime)]"
                ".filter(shape, shape).size() == (self.children == 'Serving' ? 0 : 1)"
            ),
            "one of roles:, holds: and runtime:, or children: Serving",
        ),
        (
            "coupling",
            "((has(self.roles) && size(self.roles) > 0) || has(self.runtime)) == has(self.coupling)",
            "goes with roles: or runtime:",
        ),
    )
    kind: Annotated[str, Field(pattern=_KIND, max_length=63)]
    group: Annotated[str, Field(pattern=_GROUP, max_length=253)]
    versions: Annotated[
        tuple[Annotated[str, Field(pattern=_LABEL, max_length=63)], ...], Field(min_length=1, max_length=8)
    ]
    plural: Annotated[str, Field(pattern=_LABEL)]
    children: Children
    source: str
    roles: Annotated[tuple[Roles, ...], Field(max_length=32)] = ()
    holds: Annotated[tuple[Holds, ...], Field(max_length=32)] = ()
    runtime: Path | None = None
    coupling: CouplingRule | None = None
    cluster_scoped: StrictBool = False
    suspend: Path | None = None
    started: Path | None = None
    template: Template = Template.FREE
    selector_only: StrictBool = False
    narrows_only: StrictBool = False
    together: Path | None = None
    apart: frozenset[str] = frozenset()
    joining: dict[str, Path] = field(default_factory=dict)
    scripts: tuple[Path, ...] = ()
    processes: Path | None = None
    environment: frozenset[str] = frozenset()
    groups: Groups | None = None
    only_with: Annotated[str, Field(pattern=_KEY)] = ""
    queues: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = sum((bool(self.roles), bool(self.holds), self.runtime is not None))
        if shapes > 1 or (shapes == 0) != (self.children is Children.SERVING):
            raise ValueError("one of roles:, holds: and runtime:, or children: Serving")
        if bool(self.roles or self.runtime) != (self.coupling is not None):
            raise ValueError("coupling: goes with roles: or runtime:")
        if not self.joining.keys() <= self.apart:
            raise ValueError("joining: names roles that are not in apart:")

    @property
    def elastic(self) -> bool:
        """Whether the kind has a field of its own for the least number of pods."""
        return self.together is not None or any(roles.gang or roles.least for roles in self.roles)

    @property
    def wraps(self) -> bool:
        """Whether what runs is held inside, to be decided when it is created."""
        return bool(self.holds)

    @property
    def serves(self) -> bool:
        """Whether it is a kind of server, read for nothing but what it owns."""
        return not (self.roles or self.holds or self.runtime)


class Workloads:
    """Kinds by name. Raises ValueError where a kind is there twice."""

    def __init__(self, entries: Iterable[Workload]) -> None:
        self.entries = tuple(entries)
        self._by_kind = {(one.group, version, one.kind): one for one in self.entries for version in one.versions}
        kinds = [Kind(one.group, version, one.kind) for one in self.entries for version in one.versions]
        if twice := next((kind for kind in kinds if kinds.count(kind) > 1), None):
            raise ValueError(f"{twice} has two entries for version {twice.version}")

    @property
    def reviewed(self) -> tuple[Workload, ...]:
        """The kinds whose objects are reviewed: all but those that serve."""
        return tuple(one for one in self.entries if not one.serves)

    def of(self, kind: Kind) -> Workload | None:
        """The entry for exactly this group, version and kind."""
        return self._by_kind.get((kind.group, kind.version, kind.kind))

    def of_any_version(self, group: str, kind: str) -> Workload | None:
        """The entry for this group and kind, as owner references are to be read: versions come and go."""
        return next((one for one in self.entries if one.kind == kind and one.group == group), None)

    def with_also(self, more: Iterable[Workload]) -> "Workloads":
        """These and `more`, which replace those of the same group, version and kind."""
        taught = tuple(more)
        known = {(one.group, version, one.kind) for one in taught for version in one.versions}
        kept = (one for one in self.entries if not any((one.group, v, one.kind) in known for v in one.versions))
        return Workloads((*kept, *taught))
