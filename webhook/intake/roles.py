"""The roles of a job: how many pods each has, what one asks for, where it may land."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webhook.catalog.workloads import Each, Roles, Workload
from webhook.intake.evidence import Evidence
from webhook.intake.fields import EMPTY, Unreadable, count, found
from webhook.intake.placement import read_placement
from webhook.intake.resources import Resources, read_resources
from webhook.model.job import Edit, Role
from webhook.model.placement import Placement, Pointer
from webhook.model.request import Object

# With more roles, a change of each would have to name the launchers of all.
_MOST_ROLES = 32


@dataclass(frozen=True, slots=True)
class RawRole:
    """One role as its fields have it, before its command lines are read.

    `pod` is the pod spec, which stands at `spec`. `numbers` are the paths of the fields that hold the number of pods.
    """

    name: str
    pods: int
    gang: int
    runs: int
    numbers: tuple[Pointer, ...]
    pod: Object
    spec: Pointer
    resources: Resources
    placement: Placement

    @property
    def devices(self) -> int:
        """How many devices one pod asks for."""
        return self.resources.requests.get(self.resources.device, 0)


def read_roles(source: Object, workload: Workload) -> list[RawRole]:
    """Every role of the object. Raises Unreadable."""
    return [role for roles in workload.roles for role in _roles(source, roles)]


Told: TypeAlias = Sequence[tuple[RawRole, Evidence]]
"""What containers say, with the role that each belongs to."""


def finished(role: RawRole, device_roles: Sequence[RawRole], told: Told, workload: Workload) -> Role:
    """The role with what the command lines of all device roles say of its gang and of how to change its pods."""
    gang = role.gang
    if role.devices and len(device_roles) == 1 and not workload.elastic:
        # --nnodes=MIN:MAX, where the kind has no field of its own for it.
        nodes = [one.nodes for _, one in told if one.nodes]
        least = max((one.low for one in nodes if one.low and one.low != one.high), default=gang)
        gang = min(gang, least)
    return Role(
        name=role.name,
        pods=role.pods,
        gang=gang,
        runs=role.runs,
        requests=role.resources.requests,
        device=role.resources.device,
        devices=role.devices,
        placement=role.placement,
        spec=role.spec,
        replicas=_replicas(role, device_roles, told, workload) if role.devices and gang == role.pods else None,
    )


def _roles(source: Object, roles: Roles) -> Iterator[RawRole]:
    value = found(source, roles.at)
    if value is None:
        return
    if not isinstance(value, dict):
        raise Unreadable(roles.at, "a map", value)
    if roles.each is Each.ONE:
        yield _role(source, roles, roles.name, value, roles.at)
        return
    for name, entry in value.items():
        if entry is None:
            continue
        if not isinstance(name, str):
            raise Unreadable(roles.at, "names of roles", name)
        if not isinstance(entry, dict):
            raise Unreadable((*roles.at, name), "a map", entry)
        yield _role(source, roles, name, entry, (*roles.at, name))


def _role(source: Object, roles: Roles, name: str, entry: Object, at: Pointer) -> RawRole:
    set_numbers = [(path, number) for path in roles.pods if (number := count(entry, path, at)) is not None]
    numbers = [number for _, number in set_numbers]
    if count(entry, roles.pods[0], at) is None:
        numbers.append(1)
    pods = gang = min(numbers)
    runs = count(entry, roles.runs, at) if roles.runs else None
    least = count(source, roles.gang[name]) if name in roles.gang else None
    if least is not None:
        gang = min(pods, max(least, 1))
    path = (*roles.template, "spec")
    pod = found(entry, path, at)
    if pod is None:
        pod = EMPTY
    elif not isinstance(pod, dict):
        raise Unreadable((*at, *path), "a map", pod)
    spec = (*at, *path)
    return RawRole(
        name=name,
        pods=pods,
        gang=gang,
        runs=pods if runs is None else runs,
        numbers=tuple((*at, *path) for path, number in set_numbers if number == pods and name not in roles.fixed),
        pod=pod,
        spec=spec,
        resources=read_resources(pod, spec),
        placement=read_placement(pod, spec),
    )


def _replicas(role: RawRole, device_roles: Sequence[RawRole], told: Told, workload: Workload) -> Edit | None:
    """The number to change for fewer pods, with every number that has to follow; None where one of them cannot."""
    if not role.numbers or len(device_roles) > _MOST_ROLES:
        return None
    pods = sum(one.pods for one in device_roles)
    if pods < 2:
        return None
    also = [_number(path, role.pods) for path in role.numbers[1:]]
    known = {(edit.path, len(edit.prefix)) for edit in also}
    for owner, one in told:
        if not one.spans(owner.devices):
            continue
        if one.nodes is None and one.total is None:
            return None
        for stated, is_total in ((one.nodes, False), (one.total, True)):
            if stated is None:
                continue
            if stated.low is None:
                if stated.references and stated.references <= workload.environment:
                    continue
                return None
            per_pod = stated.low // pods if is_total else 1
            edit = stated.edit(plus=pods - role.pods, times=per_pod)
            if edit.path is None or stated.low != per_pod * pods:
                return None
            if (place := (edit.path, len(edit.prefix))) not in known:
                known.add(place)
                also.append(edit)
    return _number(role.numbers[0], role.pods, tuple(also))


def _number(path: Pointer, value: int, also: tuple[Edit, ...] = ()) -> Edit:
    return Edit(str(path[-1]), path, in_string=False, sign=": ", old=str(value), also=also)
