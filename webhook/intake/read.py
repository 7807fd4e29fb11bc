"""From an object to a `TrainingJob`: what the engine reads of every kind, by its entry in workloads.yaml."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from webhook.catalog.workloads import workloads
from webhook.intake.annotations import Annotations, read_annotations
from webhook.intake.batch import read_batch
from webhook.intake.claims import ClaimTemplates
from webhook.intake.coupling import Coupled, read_coupling
from webhook.intake.fields import A_BOOLEAN, A_MAP, Unreadable, found, mapping, text
from webhook.intake.groups import member, read_group
from webhook.intake.overlays import DEFINITION, Recorded
from webhook.intake.places import IN_PLACE, Places
from webhook.intake.queue import read_queue
from webhook.intake.queue_slots import queue_slots
from webhook.intake.roles import RawRole, Told, Written, finished, read_roles, set_apart
from webhook.intake.runtime import read_run, runtime_of
from webhook.intake.signals import disagreements
from webhook.intake.spoken import Around, read_spoken
from webhook.intake.strange import strange_accelerators
from webhook.intake.wrapped import Held, held_objects
from webhook.model.finding import Finding
from webhook.model.frozen import frozen
from webhook.model.job import Coupling, PinPatches, TrainingJob
from webhook.model.owner import controller_of
from webhook.model.paths import dotted, printable
from webhook.model.request import Kind, Object, User
from webhook.model.surroundings import NOTHING_IN_VIEW, Surroundings
from webhook.model.workload import Children, Template, Workload, Workloads

_JOB_SET = ("jobset.x-k8s.io", "JobSet")
_CONTROLLER_MANAGER = "system:kube-controller-manager"
_SERVICE_ACCOUNT = "system:serviceaccount:"


@frozen
class Outside:
    """The object is no training job that can be decided: its kind is not known, or a field of it cannot be read."""

    because: str
    findings: tuple[Finding, ...] = ()


@frozen
class Wrapper:
    """The object runs nothing itself: it holds others, which are decided when they are created."""

    held: tuple[Held, ...]


def read_job(
    obj: Object,
    *,
    kind: Kind,
    namespace: str,
    user: User,
    known: Workloads | None = None,
    surroundings: Surroundings = NOTHING_IN_VIEW,
    config_maps: bool = False,
) -> TrainingJob | Wrapper | Outside:
    """What matters of an object of this kind, created in this namespace by this user.

    `known` are the kinds that can be read, those of the catalog where it is None; `surroundings` the objects that a job
    may refer to, of which files in ConfigMaps are read where `config_maps` says so. A field of the job whose type is
    wrong puts it outside with SST101 naming the field: the API server says it better. An annotation of ours that cannot
    be read is a finding (SST106) on the job. Never raises, whatever JSON `obj` is.
    """
    known = workloads() if known is None else known
    workload = known.of(kind)
    if workload is None:
        return Outside(f"{kind} is not a kind of training job that Samestep reads", strange_accelerators(obj, kind))
    if workload.serves:
        return Outside(f"out of scope: {kind} serves")
    try:
        if not isinstance(obj, dict):
            raise Unreadable((), A_MAP, obj)
        if workload.wraps:
            return Wrapper(tuple(held_objects(obj, workload, namespace)))
        return _read(Subject(obj, workload, kind, namespace, user, known, surroundings, config_maps))
    except Unreadable as fault:
        return Outside("a field of it could not be read", (fault.finding(),))


class Subject(NamedTuple):
    """One object to be read, and with what."""

    source: Object
    workload: Workload
    kind: Kind
    namespace: str
    user: User
    known: Workloads
    surroundings: Surroundings
    config_maps: bool


def _read(subject: Subject) -> TrainingJob | Outside:
    workload, metadata = subject.workload, mapping(subject.source, "metadata", ())
    if workload.only_with and workload.only_with not in mapping(metadata, "annotations", ("metadata",)):
        return Outside(f"out of scope: {subject.kind} serves, unless annotated with {workload.only_with}")
    parent = _parent(metadata, subject.user, subject.known)
    if parent is not None and parent.children is Children.SERVING:
        return Outside(f"out of scope: made by a {parent.kind}, which serves")
    return _job(subject, metadata, parent)


def _job(subject: Subject, metadata: Object, parent: Workload | None) -> TrainingJob:
    source, workload = subject.source, subject.workload
    annotations = read_annotations(metadata)
    group = read_group(metadata, workload)
    pods = _pods(subject, annotations)
    raw_roles = set_apart([member(role, group.total) for role in pods.roles], source, workload)
    device_roles = [role for role in raw_roles if role.devices and not role.apart]
    files = subject.surroundings if subject.config_maps else NOTHING_IN_VIEW
    spoken = read_spoken(raw_roles, source, workload, Around(pods.places, subject.namespace, files))
    told = spoken.told
    coupled = read_coupling(source, workload, device_roles, told, every=raw_roles, grouped=group.said)
    if pods.unseen is not None:
        coupled = Coupled(Coupling.UNKNOWN, "its pods are not in view")
    devices = sum(role.pods * role.devices for role in device_roles)
    batch, differing = read_batch(spoken.batch, annotations.micro_batch, told=spoken.trainer, devices=devices)
    held_back = _held_back(source, workload)
    started = _started(source, workload) if workload.started is not None else not held_back
    findings = [*annotations.findings, *differing, *spoken.faults]
    if device_roles:
        findings += disagreements(device_roles, told)
    for role in raw_roles:
        findings += role.resources.unread
    if pods.unseen is not None:
        findings.append(pods.unseen)
    elif not device_roles:
        findings += _processes_without_devices(source, workload, told)
    written, specs = Written(source, workload, pods.places), [role.spec for role in device_roles]
    return TrainingJob(
        kind=subject.kind,
        namespace=subject.namespace or text(metadata, "namespace", ("metadata",)),
        name=_name(metadata),
        roles=tuple(finished(role, device_roles, told, written) for role in raw_roles),
        coupling=coupled.coupling,
        coupling_because=coupled.because,
        coupling_at=coupled.at,
        batch=batch,
        reads_told=spoken.trainer,
        switches=spoken.switches,
        programs=spoken.programs,
        memory_settings=spoken.memory_settings,
        containers=spoken.containers,
        declared=annotations.declared,
        coupling_wish=annotations.coupling,
        wishes=annotations.wishes,
        queue=read_queue(source, metadata, workload, specs),
        queue_slots=partial(queue_slots, source, workload, specs),
        record=annotations.record,
        given=annotations.given,
        suspended=held_back,
        started=started,
        template_fixed=workload.template is Template.UNTIL_STARTED and (started or not held_back),
        selector_only=workload.selector_only,
        narrows_only=workload.narrows_only,
        pin_patches=pods.patches,
        group=group.name,
        child_of=Kind(parent.group, parent.versions[0], parent.kind) if parent is not None else None,
        annotations_are_a_map=annotations.are_a_map,
        findings=tuple(findings),
    )


class _Pods(NamedTuple):
    """The roles, where their parts are written, and how a pin is; `unseen`: what they depend on is not in view."""

    roles: list[RawRole]
    places: Places = IN_PLACE
    patches: PinPatches | None = None
    unseen: Finding | None = None


def _pods(subject: Subject, ours: Annotations) -> _Pods:
    source, workload = subject.source, subject.workload
    templates = ClaimTemplates(subject.namespace, subject.surroundings)
    if workload.runtime is None:
        return _Pods(read_roles(source, workload, templates))
    jobset = subject.known.of_any_version(*_JOB_SET) or workloads().of_any_version(*_JOB_SET)
    assert jobset is not None
    reference = runtime_of(source, workload.runtime, subject.namespace)
    name, runtime = f"{reference.kind.kind} {reference.name}", subject.surroundings.get(reference)
    if runtime is None:
        return _Pods([], unseen=Finding("SST104", dotted(workload.runtime), {"reference": printable(name)}))
    record = Recorded(ours.record, ours.given)
    run = read_run(source, name, runtime, jobset, record, subject.surroundings.get(DEFINITION), templates)
    return _Pods(run.roles, run.places, run.patches)


def _held_back(source: Object, workload: Workload) -> bool:
    """Whether the suspend field holds it back: true, or a list that is not empty (scheduling gates)."""
    if workload.suspend is None:
        return False
    value = found(source, workload.suspend)
    if value is None or isinstance(value, bool | list):
        return bool(value)
    raise Unreadable(workload.suspend, A_BOOLEAN, value)


def _started(source: Object, workload: Workload) -> bool:
    """Whether anything stands where the controller writes once it has begun; its status is not ours to judge."""
    try:
        return workload.started is not None and bool(found(source, workload.started))
    except Unreadable:
        return False


def name_of(obj: Object) -> str:
    """What to call an object in a message; empty where it has no name that can be read."""
    metadata = obj.get("metadata")
    try:
        return _name(metadata) if isinstance(metadata, dict) else ""
    except Unreadable:
        return ""


def _name(metadata: Object) -> str:
    name = text(metadata, "name", ("metadata",))
    prefix = text(metadata, "generateName", ("metadata",))
    return name or (f"{prefix}*" if prefix else "")


def _parent(metadata: Object, user: User, known: Workloads) -> Workload | None:
    """The kind, Decided or Serving, whose controller made this object.

    Any user can write ownerReferences, so the requester has to be a controller: a ServiceAccount, or the manager itself
    (without --use-service-account-credentials the Job controller asks under its name).
    """
    by_controller = user.name == _CONTROLLER_MANAGER or user.name.startswith(_SERVICE_ACCOUNT)
    return owner_of(metadata, known) if by_controller else None


def owner_of(metadata: Object, known: Workloads) -> Workload | None:
    """The kind, Decided or Serving, that this object says to be made by the controller of; None where it says so of
    none."""
    owner = controller_of(metadata)
    parent = known.of_any_version(owner.kind.group, owner.kind.kind) if owner is not None else None
    return parent if parent is not None and parent.children is not Children.UNDECIDED else None


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
    return Finding("SST107", where, {"said": said, "processes": amount})
