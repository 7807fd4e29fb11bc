"""What a policy says, resolved: typed settings with their defaults.

The YAML form and its validation live in `webhook/policy`; the built-in default is `Policy()`.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from webhook.model.finding import Action
from webhook.model.frozen import frozen
from webhook.model.job import Coupling
from webhook.model.placement import Requirement
from webhook.model.workload import Workload


class ValidationAction(StrEnum):
    """Deny: pin, deny. Warn: pin, and admit unpinned with warnings what would be denied. Audit: only record."""

    DENY = "Deny"
    WARN = "Warn"
    AUDIT = "Audit"


class PinWhen(StrEnum):
    """Whether to pin also where one model is there today (Always: for clusters that grow)."""

    WHEN_MIXED = "WhenMixed"
    ALWAYS = "Always"
    NEVER = "Never"


class Strategy(StrEnum):
    """How to choose among the candidates that are left."""

    MOST_FREE = "MostFree"
    BEST_FIT = "BestFit"
    LARGEST = "Largest"
    ORDERED = "Ordered"


class RoomRule(StrEnum):
    """Require: no room denies. Prefer: it ranks. Ignore: neither."""

    REQUIRE = "Require"
    PREFER = "Prefer"
    IGNORE = "Ignore"


class UnknownNodes(StrEnum):
    """Whether memory and room may deny while nodes of unknown model are in the pool."""

    WITHHOLD = "Withhold"
    DENY = "Deny"


class Likeness(StrEnum):
    """What is one candidate: one model, or models that are equivalent to one another as well."""

    MODEL = "Model"
    EQUIVALENT = "Equivalent"


class Differing(StrEnum):
    """What becomes of hosts or fabrics that differ inside a candidate. Require: one value of each label is chosen."""

    IGNORE = "Ignore"
    WARN = "Warn"
    REQUIRE = "Require"


class FleetShown(StrEnum):
    """How much of the fleet a submitter may read in messages. Models: no node names, no pools of other people."""

    FULL = "Full"
    MODELS = "Models"
    NONE = "None"


class Language(StrEnum):
    EN = "en"
    KO = "ko"


LabelSelector: TypeAlias = tuple[Requirement, ...]
"""All of them must hold; none: everything matches. Operators as in metav1.LabelSelector."""


@frozen
class Condition:
    """A CEL expression over object, request, namespaceObject and job that must be true."""

    name: str
    expression: str


@frozen
class Match:
    """The jobs that a policy is for. `kinds` are "Kind.group" ("Pod" in the core group); None: every kind known."""

    namespaces: LabelSelector = ()
    objects: LabelSelector = ()
    kinds: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()


@frozen
class Sameness:
    """What is compared between the nodes inside a candidate: labels by value, and allocatable amounts of resources,
    each with the percent by which they may differ."""

    differing: Differing = Differing.WARN
    labels: tuple[str, ...] = ()
    resources: tuple[tuple[str, float], ...] = ()


@frozen
class TabledMemory:
    """One entry of the policy's own table: what a rank of the jobs that match it needs, in MiB.

    `image` and `model` are shell patterns, empty where they do not matter; `args` are flags, each with a pattern for
    its value. `per_sample_mib` is multiplied with the micro-batch; None: memory does not depend on it.
    """

    fixed_mib: float
    per_sample_mib: float | None = None
    image: str = ""
    model: str = ""
    args: tuple[tuple[str, str], ...] = ()


@frozen
class Evidence:
    """What is learned from runs. `ignore_image_tag`: images that differ in tag or digest alone are the same recipe.

    `query` is a PromQL expression for the memory in use on a device in bytes, beside those of the exporters that are
    known; empty: none. `termination_message`: containers that train are made to end with the last of their log as
    their termination message, so that a device that ran out of memory can be told.
    """

    ignore_image_tag: bool = False
    query: str = ""
    termination_message: bool = False


_HOST = Sameness(Differing.WARN, ("node.kubernetes.io/instance-type",), (("cpu", 10), ("memory", 10)))


@frozen
class Policy:
    """`reserve_mib` is what the driver keeps of a device's reported total (0.4 to 0.7 GiB seen in real captures);
    `headroom_percent` widens the high end of a demand, for the risk warning only. `strategy` None is the default:
    most devices free, or the larger memory where the demand is unknown. Of `tabled`, the first entry that matches
    counts. `model_labels` are node labels that name the model, the first one that a node carries, before the vendors'
    own. `config_maps`: configuration files that pods mount from ConfigMaps may be read.

    The submitter's annotations count as the switches say: `declare` memory and micro-batch, `coupling`, `model` (with
    pool and sized-for), `ignore`, `allow_mixed`. `codes` are findings that do something else here than by default.
    """

    name: str = "one-model-per-job"
    priority: int = 0
    match: Match = Match()
    validation_action: ValidationAction = ValidationAction.DENY
    codes: Mapping[str, Action] = field(default_factory=dict)
    pin_when: PinWhen = PinWhen.WHEN_MIXED
    strategy: Strategy | None = None
    order: tuple[str, ...] = ()
    pin_keys: tuple[str, ...] = ()
    model_labels: tuple[str, ...] = ()
    likeness: Likeness = Likeness.MODEL
    compute_tolerance_percent: float = 10
    bandwidth_tolerance_percent: float = 10
    classes: tuple[tuple[str, ...], ...] = ()
    """Models that count as one, by product or by what messages call them, whatever is known of them."""
    host: Sameness = _HOST
    fabric: Sameness = Sameness()
    reserve_mib: float = 640
    headroom_percent: float = 5
    tabled: tuple[TabledMemory, ...] = ()
    when_unknown: Coupling = Coupling.SYNCHRONOUS
    room: RoomRule = RoomRule.REQUIRE
    unknown_nodes: UnknownNodes = UnknownNodes.WITHHOLD
    stale_after_s: float = 300
    config_maps: bool = False
    evidence: Evidence = Evidence()
    declare: bool = True
    coupling: bool = False
    model: bool = True
    ignore: bool = False
    allow_mixed: bool = False
    exceptions: bool = False
    """Whether TrainingPolicyExceptions may take jobs out of it."""
    kinds: tuple[Workload, ...] = ()
    """The kinds that it teaches, beside those of the catalog and before them."""
    fleet_shown: FleetShown = FleetShown.MODELS
    language: Language = Language.EN
