"""From an object to a `TrainingJob`: what the engine reads of every kind, by its entry in workloads.yaml."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webhook.catalog.workloads import Children, Template, Workload, workloads
from webhook.intake.annotations import read_annotations
from webhook.intake.batch import Sighting, read_batch, sightings
from webhook.intake.commands import invocations
from webhook.intake.coupling import read_coupling
from webhook.intake.environment import Environment
from webhook.intake.evidence import Evidence, evidence
from webhook.intake.fields import Unreadable, flag, found, mapping, objects, text
from webhook.intake.roles import RawRole, Told, finished, read_roles
from webhook.intake.settings import read_told, trainers_told
from webhook.intake.strange import strange_accelerators
from webhook.intake.words import Budget
from webhook.model.finding import Finding
from webhook.model.job import Told as TrainerTold
from webhook.model.job import TrainingJob
from webhook.model.paths import dotted
from webhook.model.request import Kind, Object, User

_CONTROLLER_MANAGER = "system:kube-controller-manager"
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Outside:
    """The object is no training job that can be decided: its kind is not known, or a field of it cannot be read."""

    because: str
    findings: tuple[Finding, ...] = ()


def read_job(obj: Object, *, kind: Kind, namespace: str, user: User) -> TrainingJob | Outside:
    """What matters of an object of this kind, created in this namespace by this user.

    A field of the job whose type is wrong puts it outside with SST101 naming the field: the API server says it better.
    An annotation of ours that cannot be read is a finding (SST106) on the job. Never raises, whatever JSON `obj` is.
    """
    workload = workloads().of(kind)
    if workload is None:
        return Outside(f"{kind} is not a kind of training job that Samestep reads", strange_accelerators(obj, kind))
    try:
        if not isinstance(obj, dict):
            raise Unreadable((), "a map", obj)
        return _job(obj, workload, kind, namespace, user)
    except Unreadable as fault:
        return Outside("a field of it could not be read", (fault.finding(),))


def _job(source: Object, workload: Workload, kind: Kind, namespace: str, user: User) -> TrainingJob:
    metadata = mapping(source, "metadata", ())
    annotations = read_annotations(metadata)
    raw_roles = read_roles(source, workload)
    device_roles = [role for role in raw_roles if role.devices]
    read = _commands(raw_roles)
    told = [(role, one) for role, spoken, _, _ in read for one in spoken]
    coupling, because = read_coupling(source, workload, device_roles, told)
    batch, disagreements = read_batch([one for _, _, seen, _ in read for one in seen], annotations.micro_batch)
    suspended = workload.suspend is not None and flag(source, workload.suspend)
    started = _started(source, workload)
    findings = [*annotations.findings, *disagreements]
    if not device_roles:
        findings += _processes_without_devices(source, workload, told)
    return TrainingJob(
        kind=kind,
        namespace=namespace or text(metadata, "namespace", ("metadata",)),
        name=_name(metadata),
        roles=tuple(finished(role, device_roles, told, workload) for role in raw_roles),
        coupling=coupling,
        coupling_because=because,
        batch=batch,
        told=read_told([one for *_, trained in read for one in trained]),
        declared=annotations.declared,
        coupling_wish=annotations.coupling,
        record=annotations.record,
        suspended=suspended,
        started=started,
        template_fixed=workload.template is Template.UNTIL_STARTED and (started or not suspended),
        child_of=_parent(metadata, user),
        annotations_are_a_map=annotations.are_a_map,
        findings=tuple(findings),
    )


class _Read(NamedTuple):
    """What one container of a role says."""

    role: RawRole
    evidence: list[Evidence]
    batch: list[Sighting]
    trainers: list[TrainerTold]


def _commands(roles: Sequence[RawRole]) -> list[_Read]:
    """What each container with devices says; where no container has any, what all of them say."""
    budget = Budget()
    anywhere = any(role.devices for role in roles)
    read: list[_Read] = []
    for role in roles:
        containers = objects(role.pod, "containers", role.spec)
        for index in role.resources.containers if anywhere else range(len(containers)):
            container, at = containers[index], (*role.spec, "containers", index)
            environment = Environment(container, at, budget)
            programs = invocations(container, at, environment, budget)
            seen = sightings(programs, environment, at) if anywhere else []
            trained = trainers_told(programs, at) if anywhere else []
            read.append(_Read(role, evidence(programs, environment), seen, trained))
    return read


def _started(source: Object, workload: Workload) -> bool:
    """Whether anything stands where the controller writes once it has begun; its status is not ours to judge."""
    try:
        return bool(found(source, workload.started))
    except Unreadable:
        return False


def _name(metadata: Object) -> str:
    name = text(metadata, "name", ("metadata",))
    prefix = text(metadata, "generateName", ("metadata",))
    return name or (f"{prefix}*" if prefix else "")


def _parent(metadata: Object, user: User) -> Kind | None:
    """The Decided kind whose controller made this object.

    Any user can write ownerReferences, so the requester has to be a controller: a ServiceAccount, or the manager itself
    (without --use-service-account-credentials the Job controller asks under its name).
    """
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or not (user.name == _CONTROLLER_MANAGER or user.name.startswith(_SERVICE_ACCOUNT)):
        return None
    for owner in owners:
        match owner:
            case {"controller": True, "apiVersion": str(api_version), "kind": str(kind)}:
                group, _, version = api_version.rpartition("/")
                parent = workloads().of_any_version(group, kind)
                if parent is not None and parent.children is Children.DECIDED:
                    return Kind(group, version, kind)
    return None


def _processes_without_devices(source: Object, workload: Workload, told: Told) -> Iterator[Finding]:
    """SST107: several processes on each node and not one device (cluster-readiness-engine#58)."""
    if workload.processes is not None:
        value = found(source, workload.processes)
        if _several(value):
            where = dotted(workload.processes)
            yield _without_devices(where, f"{where}: {value}", str(value))
            return
    for role, one in told:
        stated = one.processes
        if stated is not None and (_several(stated.high) or stated.says.endswith("=gpu")):
            amount = stated.says.partition("=")[2]
            at = (stated.number and stated.number.edit().path) or role.spec
            yield _without_devices(dotted(at), f"{one.says} {stated.says}".strip(), amount)
            return


def _several(value: object) -> bool:
    if isinstance(value, str):
        return value == "gpu" or (value.isascii() and value.isdigit() and value.strip("0") not in ("", "1"))
    return type(value) is int and value > 1


def _without_devices(where: str, said: str, amount: str) -> Finding:
    problem = f"{said} sets processes per node, but no container asks for a device"
    return Finding("SST107", where, {"problem": problem, "processes": amount})
