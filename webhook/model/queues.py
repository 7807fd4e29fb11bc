"""Queues that jobs are submitted to, as far as they name nodes."""

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from webhook.model.fleet import Taint
from webhook.model.frozen import frozen
from webhook.model.placement import Pointer, Requirement, Toleration


@frozen
class QueueName:
    """The queue that a job names: `system` is "Kueue", "Volcano" or "KAI". `nodes` are what the job itself says beside
    it of the nodes that its queue is served from."""

    system: str
    name: str
    nodes: tuple[Requirement, ...] = ()


class Slot(NamedTuple):
    """Where the name of a queue can be written: `at` is not there yet, and `below` is to be made inside it."""

    at: Pointer
    below: Pointer = ()


@frozen
class Flavor:
    """A ResourceFlavor in a queue: pods that get it are put on nodes that carry `labels`, with `tolerations` added.

    `taints` are said of its nodes: pods that tolerate them neither themselves nor by `tolerations` do not get it.
    `quota` is by resource what the queue may hold of it at the most, its own and what it can borrow (CPU in thousandths
    under "cpu", everything else in whole units): a bound that nothing beats, None where there is none. A resource that
    is not there is not covered. None in all: what the queue holds is not in view.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    quota: Mapping[str, int | None] | None = None

    def covers(self, resource: str) -> bool:
        return self.quota is None or resource in self.quota

    def holds(self, requests: Mapping[str, int]) -> int | None:
        """How many pods with these requests its quota can ever hold; None: any number."""
        if self.quota is None:
            return None
        amounts = {**requests, "pods": 1}
        limits = ((self.quota.get(name), amount) for name, amount in amounts.items() if amount > 0)
        return min((limit // amount for limit, amount in limits if limit is not None), default=None)


@frozen
class Queue:
    """Where a queue lets pods land.

    `flavors` stand in the order in which Kueue tries them; it gives each group of equal pods one of those that cover
    what they ask for. Nodes have to meet all of `nodes` (Volcano, KAI). `missing` is what of it is not in view.
    """

    flavors: tuple[Flavor, ...] = ()
    nodes: tuple[Requirement, ...] = ()
    missing: tuple[str, ...] = ()


@frozen
class Queues:
    """All in view: by system, namespace (empty where the queue has none) and name. `flavors` are all of Kueue's, which
    count where a job's queue is not in view, and `cluster_queues` what its ClusterQueues let pods land on, by name."""

    known: Mapping[tuple[str, str, str], Queue] = field(default_factory=dict)
    flavors: tuple[Flavor, ...] = ()
    cluster_queues: Mapping[str, Queue] = field(default_factory=dict)


NO_QUEUES = Queues()
