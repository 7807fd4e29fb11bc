"""Pods that belong together without an object that says so: their group, by label or annotation, or their owner."""

from dataclasses import replace
from typing import NamedTuple

from webhook.intake.fields import mapping
from webhook.intake.roles import RawRole
from webhook.model.owner import controller_of
from webhook.model.request import Object
from webhook.model.workload import Workload

_MOST = 1_000_000


class Group(NamedTuple):
    """`name` of the pod group that this object says it is part of, or the uid of its controller, or empty. `said`: it
    is a pod group, whose pods belong together; those of one controller may be replicas as well. `total` is the number
    of the group's pods, 0 where it is not said."""

    name: str = ""
    said: bool = False
    total: int = 0


def read_group(metadata: Object, workload: Workload) -> Group:
    """The group of this object. Raises Unreadable where labels or annotations are no map."""
    groups = workload.groups
    if groups is None:
        return Group()
    labels = mapping(metadata, "labels", ("metadata",))
    annotations = mapping(metadata, "annotations", ("metadata",))
    named = [labels.get(key) for key in groups.labels] + [annotations.get(key) for key in groups.annotations]
    name = next((one for one in named if isinstance(one, str)), "")
    total = annotations.get(groups.total)
    number = int(total) if isinstance(total, str) and total.isascii() and total.isdigit() and len(total) < 10 else 0
    if name:
        return Group(name, said=True, total=min(number, _MOST))
    owner = controller_of(metadata)
    return Group(owner.uid if owner is not None else "")


def member(role: RawRole, total: int) -> RawRole:
    """The role of a pod of a group of so many: the group is the gang, and its other pods are taken to be alike."""
    return replace(role, pods=total, gang=total, runs=total) if total > 1 else role
