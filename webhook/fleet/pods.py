"""What pods take of nodes, and the pins of pods that belong together, kept up as pods come, change and go."""

from collections.abc import Iterable
from typing import TypeAlias

from webhook.model.job import PinRecord
from webhook.model.pods import Pinned, Pod, Queued

Change: TypeAlias = tuple[Pod | None, Pod | None]
"""A pod before and after; None where it was not there, or is no more."""


class Usage:
    """Sums over the pods that are bound to each node, and over those that wait for one.

    `used` is by node and resource; `queued` is what waits for a model, and `pinned` gives, by namespace and group, the
    pin of the oldest pod in view that carries one: both are swapped whole.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.used: dict[str, dict[str, int]] = {}
        self.pinned: Pinned = {}
        self.queued: Queued = {}
        self._of_group: dict[tuple[str, str], dict[str, Pod]] = {}
        for pod in pods:
            self.change(None, pod)

    def change(self, before: Pod | None, now: Pod | None) -> set[str]:
        """One pod has come, changed or gone. The nodes of which more or less is in use now."""
        grouped = [one for one in (before, now) if one is not None and one.group and one.record is not None]
        if grouped and (before is None or now is None or before.record != now.record or before.group != now.group):
            self._regroup(grouped, now)
        if before and now and _takes(before) == _takes(now):
            return set()
        self.queued = requeued(self.queued, before, now)
        touched = set()
        for pod, sign in ((before, -1), (now, 1)):
            if pod is not None and pod.node:
                self._add(pod, sign)
                touched.add(pod.node)
        return touched

    def _add(self, pod: Pod, sign: int) -> None:
        here = self.used.setdefault(pod.node, {})
        for resource, amount in pod.requests.items():
            left = here.get(resource, 0) + sign * amount
            if left:
                here[resource] = left
            else:
                here.pop(resource, None)
        if not here:
            del self.used[pod.node]

    def _regroup(self, pods: list[Pod], now: Pod | None) -> None:
        pinned = dict(self.pinned)
        for pod in pods:
            key = (pod.namespace, pod.group)
            group = self._of_group.setdefault(key, {})
            group.pop(pod.uid, None)
            if pod is now:
                group[pod.uid] = pod
            oldest = min(group.values(), key=lambda one: (one.created, one.uid), default=None)
            if oldest is not None and oldest.record is not None:
                pinned[key] = oldest.record
            else:
                pinned.pop(key, None)
                del self._of_group[key]
        self.pinned = pinned


def requeued(queued: Queued, before: Pod | None, now: Pod | None) -> Queued:
    """What is queued after this change; the same value where nothing waits or waited."""
    if not any(pod is not None and pod.waits_for for pod in (before, now)):
        return queued
    left = dict(queued)
    for pod, sign in ((before, -1), (now, 1)):
        label, value = pod.waits_for if pod and pod.waits_for else ("", "")
        for resource, amount in pod.requests.items() if pod and label else ():
            key = (resource, label, value)
            left[key] = left.get(key, 0) + sign * amount
            if not left[key]:
                del left[key]
    return left


def _takes(pod: Pod) -> tuple[object, ...]:
    return pod.node, pod.requests, pod.waits_for


def siblings(pinned: Pinned, namespace: str, group: str) -> PinRecord | None:
    """The pin of the oldest pod in view that is of this group (as in a `TrainingJob`) and carries one, else None."""
    return pinned.get((namespace, group)) if group else None
