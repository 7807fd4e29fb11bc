"""The roles of a job: how many pods each has, what one asks for, where it may land."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from webhook.catalog.accelerators import accelerators
from webhook.intake.claims import ClaimTemplates
from webhook.intake.evidence import Evidence
from webhook.intake.fields import A_MAP, MOST, Unreadable, count, flag, found, listed, mapping, objects, text
from webhook.intake.placement import read_placement
from webhook.intake.places import Places
from webhook.intake.resources import Resources, read_resources
from webhook.model.finding import Phrase
from webhook.model.frozen import frozen
from webhook.model.job import Edit, Overlay, Role, no_edit
from webhook.model.paths import within
from webhook.model.placement import Placement, Pointer
from webhook.model.request import Object
from webhook.model.workload import Each, Roles, Workload

# With more roles, a change of each would have to name the launchers of all.
_MOST_ROLES = 32
# One process for each device, without a number (torchrun, PyTorchJob).
_BY_DEVICES = ("auto", "gpu")
_AS_MANY = tuple(f"={word}" for word in _BY_DEVICES)


@frozen
class RawRole:
    """One role as its fields have it, before its command lines are read.

    `pod` is the pod spec, which stands at `spec`, and `devices` how many devices one pod asks for. `numbers` are the
    paths of the fields that hold the number of pods, `also` what else has to change with them. `overlay`: as in `Role`.
    """

    name: str
    pods: int
    gang: int
    runs: int
    numbers: tuple[Pointer, ...]
    pod: Object
    spec: Pointer
    resources: Resources
    devices: int
    placement: Placement
    overlay: Overlay | None = None
    also: tuple[Edit, ...] = ()
    apart: bool = False


def read_roles(source: Object, workload: Workload, templates: ClaimTemplates | None = None) -> list[RawRole]:
    """Every role of the object that has a pod template; claims are counted by their `templates`. Raises Unreadable."""
    roles = [role for roles in workload.roles for role in _roles(source, roles, templates)]
    at = workload.together
    if at is None or not (least := count(source, at)):
        return roles
    pods, gang = sum(one.pods for one in roles), sum(one.gang for one in roles)
    number = _number(at, least)
    told = []
    for role in roles:
        # Of each role what is missing once all the others are there, and no fewer than its own least, unless those
        # come to more.
        others = pods - role.pods
        needed = min(role.pods, max(0, least - others, role.gang if gang <= least else 0))
        if least == pods:
            told.append(replace(role, gang=needed, also=(number._replace(plus=others),)))
        else:
            told.append(replace(role, gang=needed, numbers=()))
    return told


def set_apart(roles: Sequence[RawRole], source: Object, workload: Workload) -> list[RawRole]:
    """The roles, with those set apart that have devices and no ranks. Where no others have pods with devices, none is:
    then they are the job. Raises Unreadable."""
    if not workload.apart:
        return list(roles)
    joined = {name for name, path in workload.joining.items() if flag(source, path)}
    apart = workload.apart - joined
    if not any(role.pods and role.devices and role.name not in apart for role in roles):
        return list(roles)
    return [replace(role, apart=True) if role.devices and role.name in apart else role for role in roles]


Told: TypeAlias = Sequence[tuple[RawRole, Evidence]]
"""What containers say, with the role that each belongs to."""


class Written(NamedTuple):
    """The object that a role is read from, and where its parts are written."""

    source: Object
    workload: Workload
    places: Places


def finished(role: RawRole, device_roles: Sequence[RawRole], told: Told, written: Written) -> Role:
    """The role with what the command lines of all device roles (none of them apart) say of its gang, and of how to
    change its pods and the devices of each."""
    workload = written.workload
    gang, ranks = role.gang, role.devices and not role.apart
    if ranks and len(device_roles) == 1:
        # --nnodes=MIN:MAX, where the kind has no field of its own for it.
        ranges = [one.nodes.low for _, one in told if one.nodes and one.nodes.low and one.nodes.low != one.nodes.high]
        if ranges and not workload.elastic:
            gang = min(gang, max(ranges))
    return Role(
        name=role.name,
        pods=role.pods,
        gang=gang,
        runs=role.runs,
        requests=role.resources.requests,
        device=role.resources.device,
        products=role.resources.products,
        fraction=next((name for name in role.resources.requests if name in accelerators().fractions), ""),
        devices=role.devices,
        placement=role.placement,
        spec=role.spec,
        replicas=partial(_replicas, role, device_roles, told, workload) if ranks and gang == role.pods else no_edit,
        per_pod=partial(_per_pod, role, told, _processes(written), written.places) if ranks else no_edit,
        overlay=role.overlay,
        apart=role.apart,
    )


def pod_specs(source: Object, workload: Workload) -> Iterator[tuple[Object, Pointer]]:
    """The pod spec of every role, and where it stands. Raises Unreadable."""
    for roles in workload.roles:
        for _, at, entry in _entries(source, roles):
            if (pod := _pod(roles, entry, at)) is not None:
                yield pod, (*at, *roles.template, "spec")


def _roles(source: Object, roles: Roles, templates: ClaimTemplates | None) -> Iterator[RawRole]:
    for name, at, entry in _entries(source, roles):
        pod = _pod(roles, entry, at)
        if pod is not None:
            yield _role(source, roles, name, entry, at, pod, templates)


def _pod(roles: Roles, entry: Object, at: Pointer) -> Object | None:
    """A role's pod spec; None where it has no template."""
    template = found(entry, roles.template, at)
    if template is None:
        return None
    if not isinstance(template, dict):
        raise Unreadable((*at, *roles.template), A_MAP, template)
    return mapping(template, "spec", (*at, *roles.template))


def _entries(source: Object, roles: Roles) -> Iterator[tuple[str, Pointer, Object]]:
    """Name, place and content of each role."""
    value = found(source, roles.at)
    if value is None:
        return
    if roles.each is Each.ITEM:
        for index, entry in enumerate(listed(value, roles.at)):
            yield text(entry, roles.named[0], (*roles.at, index)) or str(index), (*roles.at, index), entry
        return
    if not isinstance(value, dict):
        raise Unreadable(roles.at, A_MAP, value)
    if roles.each is Each.ONE:
        yield roles.name, roles.at, value
        return
    for name, entry in value.items():
        if entry is None:
            continue
        if not isinstance(name, str):
            raise Unreadable(roles.at, Phrase("role_names"), name)
        if not isinstance(entry, dict):
            raise Unreadable((*roles.at, name), A_MAP, entry)
        yield name, (*roles.at, name), entry


def _role(
    source: Object, roles: Roles, name: str, entry: Object, at: Pointer, pod: Object, templates: ClaimTemplates | None
) -> RawRole:
    spec = (*at, *roles.template, "spec")
    pods, gang, numbers = _pods(source, roles, entry, at)
    times, multipliers = 1, []
    for path in roles.times:
        if (number := count(entry, path, at)) is not None:
            times *= number
            multipliers.append((*at, *path))
    sets = 1 if roles.sets is None or (number := count(source, roles.sets)) is None else number
    runs = count(entry, roles.runs, at) if roles.runs else None
    least = count(source, roles.gang[name]) if name in roles.gang else None
    if least is not None:
        gang = min(gang, max(least, 1))
    if times != 1 or sets != 1:
        # One pod so many times over: then that is the number to change. Of two factors neither is.
        numbers = multipliers if pods == 1 and sets == 1 and len(multipliers) == 1 else []
    resources = read_resources(pod, spec, templates)
    return RawRole(
        name=name,
        pods=pods * times * sets,
        gang=gang * times,
        runs=(pods if runs is None else runs) * times * sets,
        numbers=() if name in roles.fixed else tuple(numbers),
        pod=pod,
        spec=spec,
        resources=resources,
        devices=resources.requests.get(resources.device, 0),
        placement=read_placement(pod, spec),
    )


def _pods(source: Object, roles: Roles, entry: Object, at: Pointer) -> tuple[int, int, list[Pointer]]:
    """Pods at once in one set, the least of them that must run, and where their number stands."""
    if not roles.pods:
        return 1, 1, []
    stated = [(path, number) for path in roles.pods if (number := count(entry, path, at)) is not None]
    numbers = [number for _, number in stated]
    if not stated or stated[0][0] != roles.pods[0]:
        numbers.append(roles.default)
    pods = gang = min(numbers)
    if roles.beside is not None and found(entry, roles.beside, at) is not None:
        return max(pods - 1, 0), max(pods - 1, 0), []
    if roles.least is not None and (least := count(entry, roles.least, at)) is not None:
        stated.append((roles.least, least))
        pods = max(pods, least)
        gang = least if roles.scales is None else pods
    if roles.scales is not None and flag(source, roles.scales):
        gang = 0 if roles.least is None else count(entry, roles.least, at) or 0
        pods = max(pods, _most(entry, roles, at))
    return pods, gang, [(*at, *path) for path, number in stated if number == pods]


def _most(entry: Object, roles: Roles, at: Pointer) -> int:
    most = None if roles.most is None else count(entry, roles.most, at)
    # No limit at all: more than one, which is all that coupling asks.
    return 2 if most is None or most == MOST else most


def _replicas(role: RawRole, device_roles: Sequence[RawRole], told: Told, workload: Workload) -> Edit | None:
    """The number to change for fewer pods, with every number that has to follow; None where one of them cannot."""
    if not role.numbers or len(device_roles) > _MOST_ROLES:
        return None
    pods = sum(one.pods for one in device_roles)
    if pods < 2:
        return None
    also = [*(_number(path, role.pods) for path in role.numbers[1:]), *role.also]
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


class _Processes(NamedTuple):
    """The field of the kind for the processes of a pod."""

    at: Pointer
    value: object


def _processes(written: Written) -> _Processes | None:
    """None where the kind has no such field, or this object nothing in it. Raises Unreadable."""
    at = written.workload.processes
    value = None if at is None else found(written.source, at)
    return None if at is None or value is None else _Processes(at, value)


def _per_pod(role: RawRole, told: Told, processes: _Processes | None, places: Places) -> Edit | None:
    """The devices that the one container with devices asks for, and the processes of a pod where as many are told."""
    if len(role.resources.containers) != 1:
        return None
    index = role.resources.containers[0]
    at = (*role.spec, "containers", index, "resources")
    resources = mapping(objects(role.pod, "containers", role.spec)[index], "resources", at[:-1])
    edits: list[Edit] = []
    for part in ("limits", "requests"):
        value = mapping(resources, part, at).get(role.resources.device)
        if value is None:
            continue
        path = places.of((*at, part, role.resources.device))
        if str(value) != str(role.devices) or not within(path):
            return None
        edits.append(_field(role.resources.device, path, value))
    for owner, one in told:
        stated = one.processes if owner is role else None
        if stated is None or (stated.low is None and stated.says.endswith(_AS_MANY)):
            continue
        edit = stated.edit(plus=0, times=1)
        if edit.path is None or stated.low != role.devices:
            return None
        edits.append(edit)
    if processes is not None and processes.value not in _BY_DEVICES:
        if str(processes.value) != str(role.devices):
            return None
        edits.append(_field(str(processes.at[-1]), processes.at, processes.value))
    return edits[0]._replace(also=tuple(edits[1:])) if edits else None


def _field(name: str, path: Pointer, value: object) -> Edit:
    return Edit(name, path, in_string=isinstance(value, str), sign=": ", old=str(value))


def _number(path: Pointer, value: int, also: tuple[Edit, ...] = ()) -> Edit:
    return Edit(str(path[-1]), path, in_string=False, sign=": ", old=str(value), also=also)
