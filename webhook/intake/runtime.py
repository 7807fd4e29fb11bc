"""A TrainJob's pods: those of the runtime that it names, changed by its patches and by what it says of its trainer.

The rules are Kubeflow Trainer's own (v2.0 to v2.2): pkg/runtime/core/trainingruntime.go merges the patches, the plugins
in pkg/runtime/framework/plugins count the nodes, and plugins/jobset/builder.go sets image, command, resources and
environment. Nothing is copied but the spine that changes.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from webhook.intake.fields import EMPTY, Unreadable, count, flag, found, listed, mapping, objects, text
from webhook.intake.placement import read_placement
from webhook.intake.places import Places
from webhook.intake.roles import RawRole, read_roles
from webhook.model.job import Overlay, PatchShape, PinPatches, PinRecord
from webhook.model.patch import AFFINITY_TERMS, JOBS_IN_PATCH, MANAGER, POD_IN_JOB
from webhook.model.paths import Elsewhere
from webhook.model.placement import Pointer
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference, Surroundings
from webhook.model.workload import Path, Workload

DEFINITION = Reference(
    Kind("apiextensions.k8s.io", "", "CustomResourceDefinition"), "", "trainjobs.trainer.kubeflow.org"
)
"""Its schema says in which field this cluster's TrainJobs are patched."""

_GROUP, _CLUSTER_RUNTIME = "trainer.kubeflow.org", "ClusterTrainingRuntime"
_STEP = ("template", "metadata", "labels")
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER_STEP = "trainer"
_ONCE = frozenset({_TRAINER_STEP, "dataset-initializer", "model-initializer"})
_NODE = "node"
_TRAINER = ("spec", "trainer")
_NUM_NODES = (*_TRAINER, "numNodes")
_TUNE_RUN = ["tune", "run"]
_NEWEST_FIRST = tuple(reversed(PatchShape))
_MOST_PATCHES = 16

_Moved = dict[Pointer, Pointer]


class NotInView(Exception):
    """The runtime that the job names is not in view: not there, not served, or not for us to read."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference)
        self.reference = reference


@dataclass(frozen=True, slots=True)
class Run:
    """What a job comes to with its runtime: its roles, where their parts are written, and how a pin is."""

    roles: list[RawRole]
    places: Places
    patches: PinPatches


def read_run(
    source: Object,
    reference: Reference,
    jobset: Workload,
    *,
    version: str,
    record: PinRecord | None,
    surroundings: Surroundings,
) -> Run:
    """The roles of a TrainJob of this API version, read as those of the JobSet that its controller would make of it.

    Raises NotInView, and Unreadable with the place where the fault is written.
    """
    runtime = surroundings.get(reference)
    if runtime is None:
        raise NotInView(reference)
    effective = _Effective(source, Elsewhere(f"{reference.kind.kind} {reference.name}"), runtime, record)
    view, places = effective.view(), Places(effective.moved)
    below = (effective.name, "spec", "template")
    entry = replace(jobset, roles=tuple(replace(one, at=(*below, *one.at)) for one in jobset.roles))
    try:
        roles = read_roles(view, entry)
    except Unreadable as fault:
        raise places.of_fault(fault) from None
    devices = {role.name for role in roles if role.devices}
    shape, takes_affinity = _shape(source, version, surroundings)
    patches = _patches(source, shape)
    writer = _Writer(effective.layers, devices, patches, takes_affinity, full=_full(source, patches))
    roles = [
        replace(role, numbers=effective.numbers.get(role.name, ()), overlay=writer.overlay(role.name)) for role in roles
    ]
    return Run(roles, places, patches)


def runtime_of(source: Object, at: Path, namespace: str) -> Reference:
    """The runtime that a job in this namespace names at this path; kind and group have defaults. Raises Unreadable."""
    named = _mapped(source, at)
    group = text(named, "apiGroup", at) or _GROUP
    kind = text(named, "kind", at) or _CLUSTER_RUNTIME
    return Reference(Kind(group, "", kind), "" if kind == _CLUSTER_RUNTIME else namespace, text(named, "name", at))


def shortest_job(runtime: Object, workload: Workload, namespace: str) -> tuple[Object, Reference]:
    """The job that says no more than that it wants this runtime, and the reference in it. Raises Unreadable."""
    metadata = mapping(runtime, "metadata", ())
    name = text(metadata, "name", ("metadata",)) or f"{text(metadata, 'generateName', ('metadata',))}*"
    named = {"apiGroup": workload.group, "kind": workload.kind, "name": name}
    reference = Reference(Kind(workload.group, "", workload.kind), "" if workload.cluster_scoped else namespace, name)
    return {"metadata": {"name": name}, "spec": {"runtimeRef": named}}, reference


class _Layer(NamedTuple):
    """One pod spec that is laid over those of the jobs it targets; it stands at `at`. `ours`: we wrote it."""

    shape: PatchShape
    targets: tuple[str, ...]
    pod: Object
    at: Pointer
    ours: bool

    @property
    def terms(self) -> object:
        return found(self.pod, AFFINITY_TERMS, self.at)


class _Effective:
    """The runtime as it is for one job. `moved` says what in it is written in the job, `numbers` which of the job's
    fields hold the number of a role's pods."""

    def __init__(self, source: Object, name: Elsewhere, runtime: Object, record: PinRecord | None) -> None:
        self.name = name
        self.layers = list(_layers(source, record))
        self.moved: _Moved = {}
        self.numbers: dict[str, tuple[Pointer, ...]] = {}
        self._source = source
        self._runtime: Object = {name: runtime}
        self._at = (name, "spec", "template", "spec", "replicatedJobs")
        self._trainer = _mapped(source, _TRAINER)

    def view(self) -> Object:
        """The runtime under its name, with the jobs changed."""
        spec_at, template_at, jobset_at = self._at[:2], self._at[:3], self._at[:4]
        jobs = listed(found(self._runtime, self._at), self._at)
        jobset = {**_mapped(self._runtime, jobset_at), "replicatedJobs": self._jobs(jobs)}
        template = {**_mapped(self._runtime, template_at), "spec": jobset}
        return {self.name: {"spec": {**_mapped(self._runtime, spec_at), "template": template}}}

    def _jobs(self, jobs: Sequence[Object]) -> list[Object]:
        policy = (self.name, "spec", "mlPolicy")
        has_policy, mpi = found(self._runtime, policy), found(self._runtime, (*policy, "mpi")) is not None
        policy_nodes = count(self._runtime, (*policy, "numNodes"))
        as_node = flag(self._runtime, (*policy, "mpi", "runLauncherAsNode"))
        named = [text(job, "name", (*self._at, index)) or str(index) for index, job in enumerate(jobs)]
        steps = [_step(job, (*self._at, index)) for index, job in enumerate(jobs)]
        if _TRAINER_STEP not in steps:
            # Such a runtime trains in nothing by the letter; what is called node is what its author means.
            steps = [_TRAINER_STEP if name == _NODE else step for name, step in zip(named, steps, strict=True)]
        # plugins/mpi counts the job called node, every other one the first that trains.
        counted = next((index for index in range(len(jobs)) if _counts(named[index], steps[index], mpi)), None)
        nodes = count(self._source, _NUM_NODES)
        changed = []
        for index, job in enumerate(jobs):
            at, name, step = (*self._at, index), named[index], steps[index]
            if found(job, ("template",), at) is None:
                changed.append(job)
                continue
            if step == _TRAINER_STEP and has_policy is not None:
                pods = max(1 if policy_nodes is None else policy_nodes, 1)
            else:
                parallelism = count(job, ("template", "spec", "parallelism"), at)
                pods = max(1 if parallelism is None else parallelism, 1)
            if nodes is not None and index == counted:
                launcher = mpi and as_node
                pods = max(nodes - 1, 1) if launcher else nodes
                self.numbers[name] = () if launcher else (_NUM_NODES,)
            trains = step == _TRAINER_STEP
            pod = self._pod(job, at, name, trains=trains, works=trains or (as_node and name == _NODE))
            changed.append(_with_pod(job, at, pod, pods, once=step in _ONCE))
        return changed

    def _pod(self, job: Object, at: Pointer, name: str, *, trains: bool, works: bool) -> Object:
        at = (*at, *POD_IN_JOB)
        pod = _mapped(job, POD_IN_JOB, at[: -len(POD_IN_JOB)])
        for layer in self.layers:
            if name in layer.targets:
                pod = _laid_over(pod, at, layer, self.moved)
        if self._trainer and works:
            containers = list(objects(pod, "containers", at))
            for index, container in enumerate(containers):
                if container.get("name") == _NODE:
                    containers[index] = self._told(container, (*at, "containers", index), trains=trains)
            pod = {**pod, "containers": containers}
        return pod

    def _told(self, container: Object, at: Pointer, *, trains: bool) -> Object:
        """The container called node, with what the job says of its trainer."""
        changed = dict(container)
        if trains:
            for key in ("image", "command", "args"):
                # Of exactly `tune run` the controller makes the recipe and its configuration itself, after the model in
                # the runtime's name (plugins/torch/torchtune.go): the runtime's own command is the nearest to it.
                if (value := self._trainer.get(key)) is not None and value != _TUNE_RUN:
                    changed[key] = value
                    self.moved[(*at, key)] = (*_TRAINER, key)
        resources = mapping(self._trainer, "resourcesPerNode", _TRAINER)
        asked = {key: value for key in ("limits", "requests") if (value := resources.get(key)) is not None}
        if asked:
            changed["resources"] = asked
            self.moved[(*at, "resources")] = (*_TRAINER, "resourcesPerNode")
        if more := objects(self._trainer, "env", _TRAINER):
            changed["env"] = _upserted(
                objects(container, "env", at), more, "name", (*at, "env"), (*_TRAINER, "env"), self.moved
            )
        return changed


def _counts(name: str, step: str, mpi: bool) -> bool:  # noqa: FBT001
    return name == _NODE if mpi else step == _TRAINER_STEP


def _step(job: Object, at: Pointer) -> str:
    """What the job is to the TrainJob, by its label."""
    return text(_mapped(job, _STEP, at), _STEP_LABEL, (*at, *_STEP))


def _with_pod(job: Object, at: Pointer, pod: Object, pods: int, *, once: bool) -> Object:
    template = mapping(job, "template", at)
    spec = mapping(template, "spec", (*at, "template"))
    pod_template = mapping(spec, "template", (*at, "template", "spec"))
    changed = {
        **job,
        "template": {
            **template,
            "spec": {
                **spec,
                "parallelism": pods,
                "completions": pods,
                "template": {**pod_template, "spec": pod},
            },
        },
    }
    return {**changed, "replicas": 1} if once else changed


def _layers(source: Object, record: PinRecord | None) -> Iterator[_Layer]:
    """What is laid over the runtime's pods, in the order in which it is: the last that says something stands."""
    spec, shape = mapping(source, "spec", ()), PatchShape.POD_SPEC_OVERRIDES
    for at, entry in _entries(spec, shape):
        yield _Layer(shape, _targets(entry, at), entry, at, ours=False)
    shape = PatchShape.POD_TEMPLATE_OVERRIDES
    for at, entry in _entries(spec, shape):
        ours = record is not None and _is_as_recorded(entry, record)
        yield _Layer(shape, _targets(entry, at), mapping(entry, "spec", at), (*at, "spec"), ours)
    shape = PatchShape.RUNTIME_PATCHES
    for at, entry in _entries(spec, shape):
        ours = entry.get("manager") == MANAGER
        for index, job in enumerate(listed(found(entry, JOBS_IN_PATCH, at), (*at, *JOBS_IN_PATCH))):
            here = (*at, *JOBS_IN_PATCH, index)
            yield _Layer(shape, (text(job, "name", here),), _mapped(job, POD_IN_JOB, here), (*here, *POD_IN_JOB), ours)


def _entries(spec: Object, shape: PatchShape) -> Iterator[tuple[Pointer, Object]]:
    for index, entry in enumerate(objects(spec, shape, ("spec",))):
        yield ("spec", shape.value, index), entry


def _targets(entry: Object, at: Pointer) -> tuple[str, ...]:
    here = (*at, "targetJobs")
    return tuple(text(one, "name", (*here, index)) for index, one in enumerate(objects(entry, "targetJobs", at)))


def _is_as_recorded(entry: Object, record: PinRecord) -> bool:
    """Whether an override is as we write it: with the recorded pin and nothing besides. It has no place for a name."""
    match entry:
        case {"targetJobs": list(), "spec": {"nodeSelector": {**selector}, **rest}, **more}:
            alone = not rest and not more
            return alone and len(record.values) == 1 and selector == {record.key: record.values[0]}
        case {"targetJobs": list(), "spec": {"affinity": dict(), **rest}, **more}:
            return not rest and not more and len(record.values) > 1
    return False


def _laid_over(pod: Object, at: Pointer, layer: _Layer, moved: _Moved) -> Object:
    """A strategic merge of the fields that matter: maps by key, tolerations and affinity terms as a whole, containers,
    variables and volumes by name (k8s.io/api/core/v1, the patchStrategy of each)."""
    changed, laid, there = dict(pod), layer.pod, layer.at
    if selector := mapping(laid, "nodeSelector", there):
        changed["nodeSelector"] = {**mapping(pod, "nodeSelector", at), **selector}
        moved.update({(*at, "nodeSelector", key): (*there, "nodeSelector", key) for key in selector})
    if laid.get("tolerations"):
        changed["tolerations"] = laid["tolerations"]
        moved[*at, "tolerations"] = (*there, "tolerations")
    if (terms := layer.terms) is not None:
        node, required, inner = AFFINITY_TERMS[1:]
        changed["affinity"] = {node: {required: {inner: terms}}}
        moved[*at, *AFFINITY_TERMS] = (*there, *AFFINITY_TERMS)
    if volumes := objects(laid, "volumes", there):
        base = objects(pod, "volumes", at)
        changed["volumes"] = _upserted(base, volumes, "name", (*at, "volumes"), (*there, "volumes"), moved)
    if containers := objects(laid, "containers", there):
        by_name = {one.get("name"): index for index, one in enumerate(containers) if isinstance(one.get("name"), str)}
        merged = list(objects(pod, "containers", at))
        for index, container in enumerate(merged):
            name = container.get("name")
            if isinstance(name, str) and (which := by_name.get(name)) is not None:
                here, over = (*at, "containers", index), (*there, "containers", which)
                merged[index] = _container(container, containers[which], here, over, moved)
        changed["containers"] = merged
    return changed


def _container(container: Object, laid: Object, at: Pointer, there: Pointer, moved: _Moved) -> Object:
    changed = dict(container)
    for field, key in (("env", "name"), ("volumeMounts", "mountPath")):
        if more := objects(laid, field, there):
            base = objects(container, field, at)
            changed[field] = _upserted(base, more, key, (*at, field), (*there, field), moved)
    return changed


def _upserted(
    base: Sequence[Object], more: Sequence[Object], key: str, at: Pointer, there: Pointer, moved: _Moved
) -> list[Object]:
    """A list of maps with others put in: in the place of those of the same key, else behind."""
    merged = list(base)
    places = {name: index for index, one in enumerate(merged) if isinstance(name := one.get(key), str)}
    for index, one in enumerate(more):
        name = one.get(key)
        place = places.get(name) if isinstance(name, str) else None
        if place is None:
            place = len(merged)
            merged.append(one)
        else:
            merged[place] = one
        if isinstance(name, str):
            places[name] = place
        moved[*at, place] = (*there, index)
    return merged


def _mapped(source: Object, path: Pointer, at: Pointer = ()) -> Object:
    """The map at a path; empty where it is absent or null."""
    value: Any = found(source, path, at)  # type: ignore[arg-type] # names alone: no list is on the way
    if value is None:
        return EMPTY
    if isinstance(value, dict):
        return value
    raise Unreadable((*at, *path), "a map", value)


def _shape(source: Object, version: str, surroundings: Surroundings) -> tuple[PatchShape, bool]:
    """The field to write a pin into, and whether it takes affinity: the one that the job uses (what the API does not
    have, it has dropped), else the newest that the definition has, else the newest of all."""
    known = _schema(surroundings.get(DEFINITION, EMPTY), version)
    spec = mapping(source, "spec", ())
    offered = [shape for shape in _NEWEST_FIRST if shape in known]
    used = [shape for shape in _NEWEST_FIRST if spec.get(shape) is not None]
    shape = (used or offered or _NEWEST_FIRST)[0]
    if shape is not PatchShape.POD_SPEC_OVERRIDES:
        return shape, True
    try:
        return shape, found(known, (shape, "items", "properties", "affinity")) is not None
    except Unreadable:
        return shape, False


def _schema(definition: Object, version: str) -> Object:
    """The fields of a TrainJob's spec in this version; nothing where the definition cannot be read."""
    try:
        versions = objects(mapping(definition, "spec", ()), "versions", ("spec",))
        ours = next((one for one in versions if one.get("name") == version), EMPTY)
        return _mapped(ours, ("schema", "openAPIV3Schema", "properties", "spec", "properties"))
    except Unreadable:
        return EMPTY


def _patches(source: Object, shape: PatchShape) -> PinPatches:
    spec = mapping(source, "spec", ())
    there = isinstance(spec.get(shape), list)
    if shape is not PatchShape.RUNTIME_PATCHES:
        return PinPatches(shape, there)
    for at, entry in _entries(spec, shape):
        if entry.get("manager") == MANAGER:
            jobs = found(entry, JOBS_IN_PATCH, at)
            whole = isinstance(jobs, list) and all(found(job, POD_IN_JOB, at) is not None for job in jobs)
            return PinPatches(shape, there, own=int(at[-1]), own_jobs=whole)
    return PinPatches(shape, there)


def _full(source: Object, patches: PinPatches) -> bool:
    """Whether the list has no place for an entry of ours."""
    if patches.shape is not PatchShape.RUNTIME_PATCHES or patches.own is not None:
        return False
    return len(objects(mapping(source, "spec", ()), patches.shape, ("spec",))) >= _MOST_PATCHES


@dataclass(frozen=True, slots=True)
class _Writer:
    """Where a pin of each role can be written."""

    layers: Sequence[_Layer]
    devices: Collection[str]
    patches: PinPatches
    takes_affinity: bool
    full: bool

    def overlay(self, name: str) -> Overlay:
        over = [layer for layer in self.layers if name in layer.targets]
        in_force = next((layer for layer in reversed(over) if layer.terms is not None), None)
        terms_at = in_force.at if in_force is not None and self._alone(in_force) else None
        own = next((layer for layer in over if self._is_ours(layer)), None)
        # v2.0 takes one override for each job (plugins/jobset/jobset.go, Validate): there has to be no other.
        single = self.patches.shape is PatchShape.POD_SPEC_OVERRIDES and bool(over)
        closed = own is None and (self.full or single)
        placement = read_placement(own.pod, own.at) if own is not None else None
        return Overlay(
            at=own.at if own is not None else None,
            node_selector=dict(placement.node_selector) if placement and placement.node_selector_is_a_map else None,
            affinity_depth=placement.affinity_depth if placement else 0,
            terms_at=terms_at,
            takes_selector=not closed,
            takes_affinity=self.takes_affinity and (terms_at is not None or (in_force is None and not closed)),
        )

    def _is_ours(self, layer: _Layer) -> bool:
        if layer.shape is not self.patches.shape or not self._alone(layer):
            return False
        if layer.shape is PatchShape.RUNTIME_PATCHES:
            return layer.ours and self.patches.own_jobs
        return layer.ours or layer.shape is PatchShape.POD_SPEC_OVERRIDES

    def _alone(self, layer: _Layer) -> bool:
        """Whether it is laid over roles with devices and no others."""
        return set(layer.targets) <= set(self.devices)
