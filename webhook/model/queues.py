"""Queues that jobs are submitted to, as far as they name nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.model.placement import Toleration


@dataclass(frozen=True, slots=True)
class QueueName:
    """The queue that a job names: `system` is "Kueue", "Volcano" or "KAI"."""

    system: str
    name: str


@dataclass(frozen=True, slots=True)
class Flavor:
    """What a queue may place pods on: nodes that carry `labels`, whose taints `tolerations` are added for.

    `quota` is by resource what the queue may hold of it at the most, its own and what it can borrow; a resource that is
    not there is not covered by the queue, None has no limit.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    quota: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """The flavors of one queue, in the order in which its controller tries them."""

    flavors: tuple[Flavor, ...]


@dataclass(frozen=True, slots=True)
class Queues:
    """All in view: by system, namespace (empty where the queue has none) and name. `flavors` are all of Kueue's, which
    count where a job's queue is not in view."""

    known: Mapping[tuple[str, str, str], Queue] = field(default_factory=dict)
    flavors: tuple[Flavor, ...] = ()


NO_QUEUES = Queues()
