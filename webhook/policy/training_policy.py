"""`TrainingPolicy`: the YAML form of a policy, validated by pydantic.

An unknown field is an error, never ignored.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SkipValidation,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from webhook.catalog.codes import codes, may_deny
from webhook.model.finding import Action
from webhook.model.job import Coupling
from webhook.model.policy import (
    Condition,
    Differing,
    Evidence,
    FleetShown,
    Language,
    Likeness,
    Match,
    PinWhen,
    Policy,
    RoomRule,
    Sameness,
    Strategy,
    TabledMemory,
    UnknownNodes,
    ValidationAction,
)
from webhook.model.quantity import MEBI, units
from webhook.model.workload import Workload, Workloads
from webhook.policy.parts import (
    Code,
    Duration,
    Kinds,
    LabelKey,
    Metadata,
    Part,
    Pattern,
    Percent,
    Quantity,
    Selector,
    Status,
    Text,
    keys_match,
    percent,
    rule,
    ruled,
    seconds,
)

NEVER_DENIES = tuple(code for code in codes() if not may_deny(code))
"""Codes that no policy may raise to Deny."""

_ACTIONS = {
    ValidationAction.DENY: Action.DENY,
    ValidationAction.WARN: Action.WARN,
    ValidationAction.AUDIT: Action.INFORM,
}
_UNKNOWN_MEMORY = "SST203"
_ON_UNKNOWN = {"Allow": Action.INFORM, "Deny": Action.DENY}
_FLAGS, _FLAGS_RULE = keys_match(r"^[^ \t\r\n\f\v]+$", 128, "a flag without spaces")
_RESOURCES, _RESOURCES_RULE = keys_match(r"^[A-Za-z0-9][-A-Za-z0-9_./]*$", 317, "a resource")

_Flags = Annotated[dict[str, Pattern], Field(max_length=16, json_schema_extra=_FLAGS_RULE), _FLAGS]
_Resources = Annotated[dict[str, Percent], Field(max_length=16, json_schema_extra=_RESOURCES_RULE), _RESOURCES]
_LabelKeys = Annotated[tuple[LabelKey, ...], Field(max_length=16)]


class ConditionPart(Part):
    """One expression that must be true."""

    name: Annotated[str, Field(max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
    """What messages call it."""
    expression: Annotated[str, Field(min_length=1, max_length=4096)]
    """CEL over `object`, `request`, `namespaceObject` and `job`; true or false."""


def _conditions_once(conditions: tuple[ConditionPart, ...]) -> tuple[ConditionPart, ...]:
    _no_two("name", (one.name for one in conditions))
    return conditions


class MatchPart(Part):
    """Which jobs the policy is for. All that is given must hold."""

    namespace_selector: Selector = Selector()
    """Labels of the job's namespace."""
    object_selector: Selector = Selector()
    """Labels of the job itself."""
    kinds: Kinds = ()
    """Kinds of job, each as `Kind.group` (`Job.batch`; `Pod` in the core group). Empty: every kind that is known."""
    match_conditions: Annotated[
        tuple[ConditionPart, ...],
        Field(
            max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        ),
        AfterValidator(_conditions_once),
    ] = ()
    """Expressions that must be true. One that fails on a job counts as not true for it."""

    def resolved(self) -> Match:
        return Match(
            namespaces=self.namespace_selector.resolved(),
            objects=self.object_selector.resolved(),
            kinds=self.kinds or None,
            conditions=tuple(Condition(one.name, one.expression) for one in self.match_conditions),
        )


class CodePart(Part):
    """What one finding does here."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            rule(f"self.action != 'Deny' || !(self.code in {list(NEVER_DENIES)})", "this code may not deny", "action")
        )
    )

    code: Code
    """A finding code."""
    action: ValidationAction
    """Deny: it refuses the job. Warn: it is told to the submitter. Audit: it stands in audit annotations and JSON,
    which the list of codes calls Info. SST301, SST402, SST403, SST7xx and SST9xx may not deny."""

    @field_validator("action")
    @classmethod
    def _may_deny(cls, action: ValidationAction, info: ValidationInfo) -> ValidationAction:
        if action is ValidationAction.DENY and info.data.get("code") in NEVER_DENIES:
            raise ValueError(f"{info.data['code']} may not deny")
        return action


def _codes_once(entries: tuple[CodePart, ...]) -> tuple[CodePart, ...]:
    _no_two("code", (one.code for one in entries))
    return entries


class PinPart(Part):
    """How a job is held to one GPU model."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            rule(
                "(has(self.order) && size(self.order) > 0) == (has(self.strategy) && self.strategy == 'Ordered')",
                "goes with strategy: Ordered, and only with it",
                "order",
            )
        )
    )

    when: PinWhen = PinWhen.WHEN_MIXED
    """WhenMixed: where the job could land on several models. Always: also where one model is there today, for clusters
    that grow. Never: no job is changed."""
    strategy: Strategy | None = None
    """How to choose among the models that are left. MostFree: most devices. BestFit: least memory. Largest: most
    memory. Ordered: by `order`. Left out: MostFree, but most memory where the job's demand is unknown."""
    order: Annotated[tuple[Text, ...], Field(max_length=64, validate_default=True)] = ()
    """Model names for Ordered, first choice first: the product, or what messages call it."""
    keys: _LabelKeys = ()
    """Node label keys to pin by, tried before the product labels of vendors and clouds."""

    @field_validator("order")
    @classmethod
    def _ordered(cls, order: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "strategy" in info.data and bool(order) != (info.data["strategy"] is Strategy.ORDERED):
            raise ValueError("goes with strategy: Ordered, and only with it")
        return order


class HostPart(Part):
    """What is compared between the hosts of one model's nodes."""

    action: Differing = Differing.WARN
    """Ignore: nothing. Warn: the submitter is told where they differ. Require: the job gets nodes with one value of
    each label."""
    labels: _LabelKeys = ("node.kubernetes.io/instance-type",)
    """Node labels that must have one value."""
    resources: _Resources = Field(default={"cpu": "10%", "memory": "10%"})
    """Allocatable amounts, each with how much it may differ."""

    def resolved(self) -> Sameness:
        return Sameness(
            self.action, self.labels, tuple((name, percent(by)) for name, by in sorted(self.resources.items()))
        )


class FabricPart(Part):
    """The same for the network between them, which only labels tell."""

    action: Differing = Differing.WARN
    """As for `host`."""
    labels: _LabelKeys = ()
    """Node labels that must have one value."""

    def resolved(self) -> Sameness:
        return Sameness(self.action, self.labels)


class LikenessPart(Part):
    """Which nodes are alike."""

    require: Likeness = Likeness.MODEL
    """Model: one product is one choice. Equivalent: models of equal memory and about equal speed are one choice as
    well."""
    compute_tolerance: Percent = "10%"
    """For Equivalent: how much dense BF16 compute may differ between any two of them."""
    bandwidth_tolerance: Percent = "10%"
    """For Equivalent: how much memory bandwidth may differ between any two of them."""
    classes: Annotated[
        tuple[Annotated[tuple[Text, ...], Field(min_length=2, max_length=16)], ...], Field(max_length=16)
    ] = ()
    """Models that count as one whatever is known of them: lists of products, or of what messages call them."""
    host: HostPart = HostPart()
    fabric: FabricPart = FabricPart()


class DeclaredMatch(Part):
    """Which jobs an entry of the table is for; all that is given must match, and at least one thing is."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            rule(
                "(has(self.image) && self.image != '') || (has(self.args) && size(self.args) > 0)"
                " || (has(self.model) && self.model != '')",
                "give at least one of image, args and model",
            )
        )
    )

    image: Pattern = ""
    """The image of a container with devices, as a shell pattern (`*`, `?`, `[…]`) for the whole of it."""
    args: _Flags = Field(default={})
    """Flags of that container's programs, as they are written there, with a pattern for the value of each. `"*"` is any
    value, or none. A name that ends in `=` stands for `key=value` without dashes."""
    model: Pattern = ""
    """What the trainer is told as its model, as a pattern without regard to case. Of a path the last part counts
    too."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.image or self.args or self.model):
            raise ValueError("give at least one of image, args and model: an entry for every job is no measurement")
        return self


class DeclaredPart(Part):
    """What jobs of one sort take."""

    match: DeclaredMatch
    fixed: Quantity
    """What a rank takes whatever its micro-batch."""
    per_sample: Quantity | None = None
    """What each sample of the micro-batch adds. Left out: memory does not depend on it."""

    def resolved(self) -> TabledMemory:
        """The same in MiB."""
        return TabledMemory(
            fixed_mib=units(self.fixed) / MEBI,
            per_sample_mib=None if self.per_sample is None else units(self.per_sample) / MEBI,
            image=self.match.image,
            model=self.match.model,
            args=tuple(sorted(self.match.args.items())),
        )


class MemoryPart(Part):
    """How the memory that a job needs is held against what its devices have."""

    reserve: Quantity = "640Mi"
    """What the driver keeps of the memory that a device reports, as a Kubernetes quantity. Usable is the rest."""
    headroom: Percent = "5%"
    """Added to the high end of a demand before a job is warned that memory is tight. Never denies."""
    on_unknown: Literal["Allow", "Warn", "Deny"] = "Warn"
    """What becomes of a job whose demand is unknown: short for an entry of SST203 in `codes`, which goes before it.
    Allow is Audit there."""
    declared: Annotated[tuple[DeclaredPart, ...], Field(max_length=128)] = ()
    """The team's own measurements. The first entry that matches a job counts, after what the job itself declares."""


class CouplingPart(Part):
    """What is made of jobs that do not say whether their pods run in lockstep."""

    when_unknown: Literal[Coupling.SYNCHRONOUS, Coupling.INDEPENDENT] = Coupling.SYNCHRONOUS
    """What to take a job for whose pods may or may not be coupled (an Indexed Job without a launcher). Synchronous: it
    is pinned, and never denied for mixing or room."""


class AnnotationsPart(Part):
    """Which of the submitter's annotations count."""

    declare_: StrictBool = Field(default=True, alias="declare")
    """Whether `memory-per-device`, `memory-fixed`, `memory-per-sample` and `micro-batch` count."""
    coupling: StrictBool = False
    """Whether `coupling` may make a job less coupled. Making it Synchronous is always allowed."""
    model: StrictBool = True
    """Whether the wishes `model` and `pool` count, and `sized-for`."""
    ignore: StrictBool = False
    """Whether `ignore`, with a reason, takes a job out of the policy."""
    allow_mixed: StrictBool = False
    """Whether `allow-mixed`, with a reason, lets a job run on several models."""


class EvidencePart(Part):
    """What is learned from runs, where the observer is on."""

    ignore_image_tag: StrictBool = False
    """Whether images that differ in tag or digest alone are one recipe."""
    query: Annotated[str, Field(max_length=1024)] = ""
    """A PromQL expression for the memory in use on a device, in bytes, by namespace and pod, for monitoring that is not
    known by itself. Empty: none."""
    termination_message: StrictBool = False
    """Whether containers that train get `terminationMessagePolicy: FallbackToLogsOnError` where they set none, so that
    a device that ran out of memory can be told from how the pod ended."""

    def resolved(self) -> Evidence:
        return Evidence(self.ignore_image_tag, self.query, self.termination_message)


class MessagesPart(Part):
    """What submitters read."""

    fleet: FleetShown = FleetShown.MODELS
    """How much of the fleet a submitter may read. Full: all. Models: no node names, no pools of other namespaces. None:
    only what the job itself is about."""


def _kinds_once(kinds: tuple[Workload, ...]) -> tuple[Workload, ...]:
    Workloads(kinds)
    return kinds


_KINDS_ONCE_RULE = ruled(
    rule(
        "self.all(a, self.exists_one(b,"
        " a.kind == b.kind && a.group == b.group && a.versions.exists(v, v in b.versions)))",
        "a kind has two entries for one version",
    )
)


class Spec(Part):
    """A field that is left out has the default that is named with it."""

    priority: Annotated[StrictInt, Field(ge=-1_000_000_000, le=1_000_000_000)] = 0
    """Of all policies that match a job every one is asked whether it may run, but one alone says how it is placed: the
    one of highest priority; of equal ones the oldest, then the first by name."""
    match: MatchPart = MatchPart()
    validation_actions: Annotated[tuple[ValidationAction, ...], Field(min_length=1, max_length=1)] = (
        ValidationAction.DENY,
    )
    """Exactly one. Deny: pin, deny. Warn: pin, and admit with warnings what would be denied. Audit: change nothing,
    only record."""
    codes: Annotated[
        tuple[CodePart, ...],
        Field(
            max_length=64, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["code"]}
        ),
        AfterValidator(_codes_once),
    ] = ()
    """Findings that do something else here than by default."""
    pin: PinPart = PinPart()
    model_labels: _LabelKeys = ()
    """Extra node labels that name the GPU model, before the vendors' own: the first one that a node carries counts."""
    likeness: LikenessPart = LikenessPart()
    memory: MemoryPart = MemoryPart()
    coupling: CouplingPart = CouplingPart()
    room: RoomRule = RoomRule.REQUIRE
    """What becomes of a job for whose ranks no single model has room. Require: denied. Prefer: pinned all the same.
    Ignore: room is not looked at."""
    unknown_nodes: UnknownNodes = UnknownNodes.WITHHOLD
    """Withhold: neither memory nor room denies while nodes of unknown model are among those that the job may use.
    Deny: they do."""
    stale_after: Duration = "5m"
    """Once the view of the fleet is older than this, denials that rest on nodes become warnings."""
    annotations: AnnotationsPart = AnnotationsPart()
    exceptions: Literal["Forbidden", "Allowed"] = "Forbidden"
    """Whether a TrainingPolicyException may name this policy."""
    config_maps: StrictBool = False
    """Whether configuration files that pods mount from ConfigMaps are read, by name, when a job is created."""
    kinds: Annotated[
        tuple[Workload, ...], Field(max_length=32, json_schema_extra=_KINDS_ONCE_RULE), AfterValidator(_kinds_once)
    ] = ()
    """Kinds of job that Samestep does not know, or is to read otherwise: entries as in webhook/catalog/workloads.yaml.
    One of the same group, version and kind goes before the entry there."""
    evidence: EvidencePart = EvidencePart()
    messages: MessagesPart = MessagesPart()
    language: Language = Language.EN
    """Of messages. A namespace's label `samestep.dev/lang` goes before it."""


class TrainingPolicy(Part):
    """What training jobs are held to, and how they are kept on one GPU model."""

    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["TrainingPolicy"]
    metadata: Metadata
    spec: Spec = Spec()
    status: SkipValidation[Status | None] = None

    def resolved(self) -> Policy:
        """The same as plain settings: MiB, percent and seconds."""
        spec = self.spec
        return Policy(
            name=self.metadata.name,
            priority=spec.priority,
            match=spec.match.resolved(),
            validation_action=spec.validation_actions[0],
            codes=_codes(spec),
            pin_when=spec.pin.when,
            strategy=spec.pin.strategy,
            order=spec.pin.order,
            pin_keys=spec.pin.keys,
            model_labels=spec.model_labels,
            likeness=spec.likeness.require,
            compute_tolerance_percent=percent(spec.likeness.compute_tolerance),
            bandwidth_tolerance_percent=percent(spec.likeness.bandwidth_tolerance),
            classes=spec.likeness.classes,
            host=spec.likeness.host.resolved(),
            fabric=spec.likeness.fabric.resolved(),
            reserve_mib=units(spec.memory.reserve) / MEBI,
            headroom_percent=percent(spec.memory.headroom),
            tabled=tuple(one.resolved() for one in spec.memory.declared),
            when_unknown=spec.coupling.when_unknown,
            room=spec.room,
            unknown_nodes=spec.unknown_nodes,
            stale_after_s=seconds(spec.stale_after),
            declare=spec.annotations.declare_,
            coupling=spec.annotations.coupling,
            model=spec.annotations.model,
            ignore=spec.annotations.ignore,
            allow_mixed=spec.annotations.allow_mixed,
            exceptions=spec.exceptions == "Allowed",
            config_maps=spec.config_maps,
            evidence=spec.evidence.resolved(),
            kinds=spec.kinds,
            fleet_shown=spec.messages.fleet,
            language=spec.language,
        )


def _codes(spec: Spec) -> dict[str, Action]:
    on_unknown = _ON_UNKNOWN.get(spec.memory.on_unknown)  # Warn is what SST203 does by itself
    short = {_UNKNOWN_MEMORY: on_unknown} if on_unknown else {}
    return short | {one.code: _ACTIONS[one.action] for one in spec.codes}


def _no_two(field: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{field}: {value} comes twice")
        seen.add(value)
