"""The fleet: nodes with accelerators, as the cluster reports them now, in columns.

Sets of nodes are Python integers used as bitsets: node i is bit i. Intersection over 10,000 nodes is one operation on
1.2 kB, so a decision costs about the same at 10 nodes and at 10,000. `webhook/fleet` builds and queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from webhook.model.frozen import frozen
from webhook.model.index import LabelIndex, ThresholdIndex

Nodes: TypeAlias = int
"""A set of nodes: bit i is the i-th node of the fleet."""


@frozen
class Taint:
    key: str
    value: str
    effect: str


@frozen
class Listed:
    """Alike devices of one node that something lists one by one: ResourceSlices, or a fractional plugin's annotation.

    `memory_mib` is of a whole device; `shares` is how many times each is offered, 1 where it is whole.
    """

    vendor: str
    product: str
    memory_mib: int | None
    count: int
    shares: int = 1


@frozen
class Node:
    """One node, projected: what decisions need and nothing else.

    `allocatable`: CPU in thousandths under "cpu", everything else in whole units; `capacity` likewise, of accelerator
    resources only. `known_since` is when this replica first saw the node with its present product, or when the node was
    created if it was there before the replica (seconds since the epoch; 0 offline: always known). `boot_id` is the
    kernel's, empty where not said. `listed` are the devices that something lists, in the order of their products. What
    only the past can tell: `last_product` and its memory are the label's before it came to name something else than the
    allocatable devices (empty while it names them), and `second_product` is another product that the label named since
    the node booted.
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool
    deleting: bool
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int]
    known_since: float = 0.0
    boot_id: str = ""
    listed: tuple[Listed, ...] = ()
    last_product: str = ""
    last_memory_mib: int | None = None
    second_product: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """One product of accelerator.

    `product` is the full name as nodes carry it (the most usual spelling where they differ), `name` what messages call
    it. The figures are the catalog's, or None: memory as the driver reports it, dense BF16 compute and memory
    bandwidth.
    """

    product: str
    name: str
    vendor: str
    memory_mib: int | None = None
    bf16_tflops: float | None = None
    bandwidth_gbps: float | None = None

    def __hash__(self) -> int:
        """One model a product in a fleet: hashing all of it would cost more than the look-up it serves."""
        return hash(self.product)


@frozen
class DeviceColumn:
    """Everything about one accelerator resource ("nvidia.com/gpu") over the whole fleet.

    `there` counts devices whatever the node's passing state, `now` the allocatable ones. `models` maps each known model
    to its nodes; the four sets below and the models' sets are disjoint and together hold every node that offers the
    resource: `unknown` (model or memory not known), `two_models` (devices of two models in one node), `shares` (slices
    of devices). `memory` gives MiB of one device, on nodes of known models, and `spans` its least and most on all nodes
    of a model. `product_keys` are the labels that tell one product from another, first the ones that a policy names.
    `contents` are the nodes by what was read of their devices, from which all these sets are made; only `fleet` knows
    what that is.
    """

    resource: str
    vendor: str
    product_keys: tuple[str, ...]
    there: ThresholdIndex
    now: ThresholdIndex
    memory: ThresholdIndex
    models: Mapping[Model, Nodes]
    spans: Mapping[Model, tuple[int, int]]
    unknown: Nodes
    two_models: Nodes
    shares: Nodes
    contents: Mapping[Any, Nodes]


class Offered(NamedTuple):
    """What nodes of one model offer together *there*: devices of the column's resource, of which each reports from the
    least to the most MiB."""

    column: DeviceColumn
    devices: int
    memory_mib: tuple[int, int]


class Places(NamedTuple):
    """The nodes that hold a pod *there*; those of each model among them, and what they offer."""

    nodes: Nodes
    models: Mapping[Model, Nodes]
    offered: Mapping[Model, Offered]


Asked: TypeAlias = tuple[str, frozenset[tuple[str, int]], Nodes]
"""A device, the amounts that a pod requests, and the nodes that nothing else keeps it off."""


@frozen
class Fleet:
    """An immutable snapshot, swapped whole.

    `names` and `labels` index node names and labels; `taints` index the values of the taints that keep pods out
    (NoSchedule, NoExecute) by (key, effect). `unschedulable` are the cordoned nodes, `not_ready` those that are not
    Ready or being deleted. `resources` index allocatable amounts by resource name; `devices` holds one column for each
    accelerator resource that some node offers; `known_since` gives the time at which this replica first saw each node
    with its present product, in whole seconds. `taken_at` is when the snapshot was last confirmed, in seconds since the
    epoch, None offline (never stale).
    """

    nodes: tuple[Node, ...]
    every: Nodes
    names: LabelIndex
    labels: Mapping[str, LabelIndex]
    taints: Mapping[tuple[str, str], LabelIndex]
    unschedulable: Nodes
    not_ready: Nodes
    resources: Mapping[str, ThresholdIndex]
    devices: Mapping[str, DeviceColumn]
    known_since: ThresholdIndex
    free: Mapping[str, ThresholdIndex] | None = None
    """What bound, unfinished pods leave of the allocatable amounts, by resource, the number of pods among them. None:
    the pods are not in view."""
    grows: str = ""
    """What may add nodes, in a few words; no denial for lack of room then. Empty where nothing in view does."""
    taken_at: float | None = None
    places: dict[Asked, Places] = field(default_factory=dict, repr=False, compare=False)
    """What pods asked for lately, remembered as long as the nodes stay as they are, whatever is free on them."""
