"""`AcceleratorPool`: nodes that belong together, and who may use them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, SkipValidation, StrictInt, ValidationInfo, field_validator

from webhook.model.placement import Toleration
from webhook.model.rules import AcceleratorPool as Resolved
from webhook.policy.parts import LabelKey, LabelValue, Metadata, Part, Selector, Status, Text, rule, ruled

_QueueName = Annotated[str, Field(max_length=63, pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")]
_SchedulerName = Annotated[str, Field(max_length=253, pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")]


class AllowedPart(Part):
    """Who may use the pool: namespaces that are selected, or users in one of the groups. Left empty: everyone."""

    namespace_selector: Selector = Selector()
    """Labels of the job's namespace."""
    groups: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Groups of the user who submits the job."""


class CapacityPart(Part):
    """How the pool may grow."""

    max: Annotated[StrictInt, Field(ge=0, le=10_000_000)] | None = None
    """Devices that may be there one day. Above what is there, a job that finds no room is warned and not denied."""


class TolerationPart(Part):
    """As in a pod."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            rule(
                "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
                "without a key, the operator is Exists",
                "operator",
            ),
            rule(
                "!has(self.value) || self.value == '' || !has(self.operator) || self.operator == 'Equal'",
                "goes with the operator Equal",
                "value",
            ),
        )
    )

    key: LabelKey | None = None
    """The taint's key. Left out, with Exists: every taint."""
    operator: Annotated[Literal["Equal", "Exists"], Field(validate_default=True)] = "Equal"
    """Equal: the taint has this value. Exists: whatever its value."""
    value: LabelValue = ""
    """The taint's value, for Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect. Left out: every effect."""

    @field_validator("operator")
    @classmethod
    def _has_a_key(cls, operator: str, info: ValidationInfo) -> str:
        if info.data.get("key", "") is None and operator != "Exists":
            raise ValueError("without a key, the operator is Exists")
        return operator

    @field_validator("value")
    @classmethod
    def _has_no_value(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("operator") == "Exists":
            raise ValueError("goes with the operator Equal")
        return value

    def resolved(self) -> Toleration:
        return Toleration(self.key or "", self.operator, self.value, self.effect or "")


class InjectPart(Part):
    """What a job in this pool gets where it says nothing itself. Nothing is overwritten."""

    tolerations: Annotated[tuple[TolerationPart, ...], Field(max_length=16)] = ()
    """Tolerations for the taints that keep other pods off these nodes."""
    queue_name: _QueueName = ""
    """The queue of Kueue, Volcano or KAI."""
    scheduler_name: _SchedulerName = ""
    """The scheduler of the pods."""


class Spec(Part):
    """Which nodes, and for whom."""

    node_selector: Selector
    """Labels of the nodes in the pool. `{}`: every node."""
    order: Annotated[StrictInt, Field(ge=-1_000_000_000, le=1_000_000_000)] = 0
    """A job that names no pool gets the first one that has a choice for it: lowest order, then by name."""
    model_label: LabelKey | None = None
    """The node label that tells the GPU models in this pool apart, before all others."""
    allowed: AllowedPart = AllowedPart()
    capacity: CapacityPart = CapacityPart()
    inject: InjectPart = InjectPart()


class AcceleratorPool(Part):
    """A resource group: nodes, who may use them, and what a job needs to run there."""

    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["AcceleratorPool"]
    metadata: Metadata
    spec: Spec
    status: SkipValidation[Status | None] = None

    def resolved(self) -> Resolved:
        """The same as plain settings."""
        spec = self.spec
        return Resolved(
            name=self.metadata.name,
            nodes=spec.node_selector.resolved(),
            order=spec.order,
            model_label=spec.model_label or "",
            namespaces=spec.allowed.namespace_selector.resolved(),
            groups=spec.allowed.groups,
            most=spec.capacity.max,
            tolerations=tuple(one.resolved() for one in spec.inject.tolerations),
            queue=spec.inject.queue_name,
            scheduler=spec.inject.scheduler_name,
        )
