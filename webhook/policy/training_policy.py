"""`TrainingPolicy`: the YAML form of a policy, validated by pydantic.

The fields here are those that act today; an unknown one is an error, never ignored. More come with
policies as custom resources.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from webhook.model.job import Coupling
from webhook.model.policy import PinWhen, Policy, RoomRule, Strategy, TabledMemory, UnknownNodes, ValidationAction
from webhook.model.quantity import MEBI, QuantityError, units
from webhook.model.workload import Workload, Workloads


def _quantity(text: str) -> str:
    try:
        if units(text) < 0:
            raise QuantityError(f"expected 0 or more, got {text!r}")
    except QuantityError as error:
        raise ValueError(str(error)) from None
    return text


def _flag(text: str) -> str:
    if not text or text != "".join(text.split()) or len(text) > _LONGEST_FLAG:
        raise ValueError(f"expected a flag of at most {_LONGEST_FLAG} characters without spaces, got {text[:40]!r}")
    return text


_LONGEST_FLAG = 128
_Quantity = Annotated[str, AfterValidator(_quantity)]
_Pattern = Annotated[str, Field(max_length=512)]
_Flag = Annotated[str, AfterValidator(_flag)]
_Value = Annotated[str, Field(max_length=512)]
_MOST_ARGS = 16
_LabelKey = Annotated[str, Field(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9._-]{1,63}$")]
_Percent = Annotated[str, Field(pattern=r"^\d{1,3}%$")]
_PLAIN = re.compile(r"<\w+\.\w+: |(?<=')>|^Value error, ")
"""pydantic shows the members of an enum as Python does; a person is told their values."""
_IN_YAML = {"unexpected_keyword_argument": "Extra inputs are not permitted", "tuple_type": "Input should be a list"}
_MOST_KINDS = 32


def _once_each(kinds: tuple[Workload, ...]) -> tuple[Workload, ...]:
    Workloads(kinds)
    return kinds


_Kinds = Annotated[tuple[Workload, ...], Field(max_length=_MOST_KINDS), AfterValidator(_once_each)]
_Duration = Annotated[str, Field(pattern=r"^(\d{1,6}h)?(\d{1,6}m)?(\d{1,6}s)?$", min_length=2)]


class _Part(BaseModel):
    """Fields are documented below them; docs/reference/policy.md is made from that."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        use_attribute_docstrings=True,
    )


class PinPart(_Part):
    when: PinWhen = PinWhen.WHEN_MIXED
    """WhenMixed: where the job could land on several models. Always: also where one model is there today, for clusters
    that grow. Never: no job is changed."""
    strategy: Strategy | None = None
    """How to choose among the models that are left. MostFree: most devices. BestFit: least memory. Largest: most
    memory. Ordered: by `order`. Left out: MostFree, but most memory where the job's demand is unknown."""
    order: tuple[str, ...] = ()
    """Model names for Ordered, first choice first: the product, or what messages call it."""
    keys: tuple[str, ...] = ()
    """Node label keys to pin by, tried before the product labels of vendors and clouds."""


class DeclaredMatch(_Part):
    """Which jobs an entry of the table is for; all that is given must match, and at least one thing is."""

    image: _Pattern = ""
    """The image of a container with devices, as a shell pattern (`*`, `?`, `[…]`) for the whole of it."""
    args: dict[_Flag, _Value] = Field(default={}, max_length=_MOST_ARGS)
    """Flags of that container's programs, as they are written there, with a pattern for the value of each. `"*"` is any
    value, or none. A name that ends in `=` stands for `key=value` without dashes."""
    model: _Pattern = ""
    """What the trainer is told as its model, as a pattern without regard to case. Of a path the last part counts
    too."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.image or self.args or self.model):
            raise ValueError("give at least one of image, args and model: an entry for every job is no measurement")
        return self


class DeclaredPart(_Part):
    match: DeclaredMatch
    fixed: _Quantity
    """What a rank takes whatever its micro-batch."""
    per_sample: _Quantity | None = None
    """What each sample of the micro-batch adds. Left out: memory does not depend on it."""

    def resolved(self) -> TabledMemory:
        """The same in MiB."""
        return TabledMemory(
            fixed_mib=units(self.fixed) / MEBI,
            per_sample_mib=None if self.per_sample is None else units(self.per_sample) / MEBI,
            image=self.match.image,
            model=self.match.model,
            args=tuple(self.match.args.items()),
        )


class MemoryPart(_Part):
    reserve: _Quantity = "640Mi"
    """What the driver keeps of the memory that a device reports, as a Kubernetes quantity. Usable is the rest."""
    headroom: _Percent = "5%"
    """Added to the high end of a demand before a job is warned that memory is tight. Never denies."""
    declared: tuple[DeclaredPart, ...] = ()
    """The team's own measurements. The first entry that matches a job counts, after what the job itself declares."""


class CouplingPart(_Part):
    when_unknown: Literal[Coupling.SYNCHRONOUS, Coupling.INDEPENDENT] = Coupling.SYNCHRONOUS
    """What to take a job for whose pods may or may not be coupled (an Indexed Job without a launcher). Synchronous: it
    is pinned, and never denied for mixing or room."""


class AnnotationsPart(_Part):
    """Which of the submitter's annotations count."""

    declare_: StrictBool = Field(default=True, alias="declare")
    """Whether `memory-per-device`, `memory-fixed`, `memory-per-sample` and `micro-batch` count."""
    coupling: StrictBool = False
    """Whether `coupling` may make a job less coupled. Making it Synchronous is always allowed."""


class Spec(_Part):
    validation_actions: tuple[ValidationAction, ...] = Field(
        default=(ValidationAction.DENY,), min_length=1, max_length=1
    )
    """Exactly one. Deny: pin, deny. Warn: pin, and admit with warnings what would be denied. Audit: change nothing,
    only record."""
    pin: PinPart = PinPart()
    model_labels: tuple[_LabelKey, ...] = ()
    """Extra node labels that name the GPU model, before the vendors' own: the first one that a node carries counts."""
    memory: MemoryPart = MemoryPart()
    coupling: CouplingPart = CouplingPart()
    room: RoomRule = RoomRule.REQUIRE
    """What becomes of a job for whose ranks no single model has room. Require: denied. Prefer: pinned all the same.
    Ignore: room is not looked at."""
    unknown_nodes: UnknownNodes = UnknownNodes.WITHHOLD
    """Withhold: neither memory nor room denies while nodes of unknown model are among those that the job may use.
    Deny: they do."""
    stale_after: _Duration = "5m"
    """Once the view of the fleet is older than this, denials that rest on nodes become warnings."""
    annotations: AnnotationsPart = AnnotationsPart()
    config_maps: bool = False
    """Whether configuration files that pods mount from ConfigMaps are read, by name, when a job is created."""
    kinds: _Kinds = ()
    """Kinds of job that Samestep does not know, or is to read otherwise: entries as in webhook/catalog/workloads.yaml.
    One of the same group, version and kind goes before the entry there."""


class Metadata(BaseModel):
    """Only the name matters here; labels and annotations may be there."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1, max_length=253)


class TrainingPolicy(_Part):
    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["TrainingPolicy"]
    metadata: Metadata
    spec: Spec = Spec()

    def resolved(self) -> Policy:
        """The same as plain settings: MiB, percent and seconds."""
        spec = self.spec
        return Policy(
            name=self.metadata.name,
            validation_action=spec.validation_actions[0],
            pin_when=spec.pin.when,
            strategy=spec.pin.strategy,
            order=spec.pin.order,
            pin_keys=spec.pin.keys,
            model_labels=spec.model_labels,
            reserve_mib=units(spec.memory.reserve) / MEBI,
            headroom_percent=int(spec.memory.headroom.removesuffix("%")),
            tabled=tuple(one.resolved() for one in spec.memory.declared),
            when_unknown=spec.coupling.when_unknown,
            room=spec.room,
            unknown_nodes=spec.unknown_nodes,
            stale_after_s=_seconds(spec.stale_after),
            declare=spec.annotations.declare_,
            coupling=spec.annotations.coupling,
            config_maps=spec.config_maps,
            kinds=spec.kinds,
        )


def faults(error: ValidationError) -> list[str]:
    """What pydantic found, as "spec.pin.when: …" lines."""
    return [
        f"{'.'.join(str(step) for step in one['loc']) or 'document'}: "
        f"{_IN_YAML.get(one['type']) or _PLAIN.sub('', one['msg'])}"
        for one in error.errors()
    ]


def _seconds(duration: str) -> float:
    unit = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(number) * unit[letter] for number, letter in re.findall(r"(\d+)([hms])", duration)))
