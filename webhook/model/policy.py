"""What a policy says, resolved: typed settings with their defaults.

The YAML form and its validation live in `webhook/policy`; the built-in default is `Policy()`.
"""

from dataclasses import dataclass
from enum import StrEnum

from webhook.model.job import Coupling
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Policy:
    """`reserve_mib` is what the driver keeps of a device's reported total (0.4 to 0.7 GiB seen in real captures);
    `headroom_percent` widens the high end of a demand, for the risk warning only. `strategy` None is the default:
    most devices free, or the larger memory where the demand is unknown. `declare` and `coupling` say whether the
    submitter's memory and coupling annotations count. Of `tabled`, the first entry that matches counts. `model_labels`
    are node labels that name the model, the first one that a node carries, before the vendors' own. `config_maps`:
    configuration files that pods mount from ConfigMaps may be read."""

    name: str = "one-model-per-job"
    validation_action: ValidationAction = ValidationAction.DENY
    pin_when: PinWhen = PinWhen.WHEN_MIXED
    strategy: Strategy | None = None
    order: tuple[str, ...] = ()
    pin_keys: tuple[str, ...] = ()
    model_labels: tuple[str, ...] = ()
    reserve_mib: float = 640
    headroom_percent: float = 5
    tabled: tuple[TabledMemory, ...] = ()
    when_unknown: Coupling = Coupling.SYNCHRONOUS
    room: RoomRule = RoomRule.REQUIRE
    unknown_nodes: UnknownNodes = UnknownNodes.WITHHOLD
    stale_after_s: float = 300
    config_maps: bool = False
    declare: bool = True
    coupling: bool = False
    kinds: tuple[Workload, ...] = ()
    """The kinds that it teaches, beside those of the catalog and before them."""
