"""Pods as far as decisions look at them: what they take of nodes, and which of them belong together."""

from collections.abc import Mapping
from typing import TypeAlias

from webhook.model.frozen import frozen
from webhook.model.job import PinRecord


@frozen
class Pod:
    """One unfinished pod.

    `node` is empty until it is bound. `requests` are CPU in thousandths under "cpu", everything else in whole units,
    and 1 under "pods". `created` is in seconds since the epoch. `record` is the pin that the pod itself carries, and
    `group` then what it shares with the pods that it belongs to, as in a `TrainingJob`: the name of its pod group, else
    the uid of its controller, else empty. `waits_for` is the label that names a GPU model and its value, by which the
    nodeSelector keeps on that model a pod for which the scheduler has found no node, or which is held back from it.
    """

    uid: str
    namespace: str
    group: str
    node: str
    requests: Mapping[str, int]
    created: int
    record: PinRecord | None = None
    waits_for: tuple[str, str] | None = None

    @property
    def settled(self) -> bool:
        """Whether it is known what it takes: a part of its node, or a place in the queue for a model."""
        return bool(self.node) or self.waits_for is not None


@frozen
class Promise:
    """Devices that are as good as in use, though the fleet does not show it: a pin that this replica has given and
    whose pods are not bound yet, or a pod that has been bound since.

    `pods` pods of `job` in `namespace`, each with `devices` of `resource`, are to come to nodes of one of `products`,
    which are several where the job is pinned to models that count as one. `job` is empty where the name is still to be
    generated, and of a pod that is bound. `given_at` is in seconds since the epoch.
    """

    given_at: float
    namespace: str
    job: str
    products: tuple[str, ...]
    resource: str
    devices: int
    pods: int


Queued: TypeAlias = Mapping[tuple[str, str, str], int]
"""What pods without a node ask for, by resource and by the label and its value that keep them on one model."""

Pinned: TypeAlias = Mapping[tuple[str, str], PinRecord]
"""By namespace and group, the pin of the oldest pod in view that carries one."""
