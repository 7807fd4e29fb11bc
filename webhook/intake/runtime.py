"""A TrainJob's pods: those of the runtime that it names, changed by its patches and by what it says of its trainer.

The rules are Kubeflow Trainer's own (v2.0 to v2.2): pkg/runtime/core/trainingruntime.go merges the patches, the plugins
in pkg/runtime/framework/plugins count the nodes, and plugins/jobset/builder.go sets image, command, resources and
environment. Nothing is copied but the spine that changes.
"""

from collections.abc import Sequence
from dataclasses import replace

from webhook.intake.claims import ClaimTemplates
from webhook.intake.fields import Unreadable, count, flag, found, listed, mapped, mapping, objects, text
from webhook.intake.overlays import Layer, Recorded, layers, pin_places
from webhook.intake.places import Places
from webhook.intake.roles import RawRole, read_roles
from webhook.model.frozen import frozen
from webhook.model.job import PinPatches
from webhook.model.patch import AFFINITY_TERMS, POD_IN_JOB
from webhook.model.paths import Elsewhere, within
from webhook.model.placement import Pointer
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference
from webhook.model.workload import Path, Workload

_GROUP, _CLUSTER_RUNTIME = "trainer.kubeflow.org", "ClusterTrainingRuntime"
_STEP = ("template", "metadata", "labels")
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER_STEP = "trainer"
_ONCE = frozenset({_TRAINER_STEP, "dataset-initializer", "model-initializer"})
_NODE = "node"
_TRAINER = ("spec", "trainer")
_NUM_NODES = (*_TRAINER, "numNodes")
_TUNE_RUN = ["tune", "run"]


@frozen
class Run:
    """What a job comes to with its runtime: its roles, where their parts are written, and how a pin is."""

    roles: list[RawRole]
    places: Places
    patches: PinPatches


def read_run(
    source: Object,
    name: str,
    runtime: Object,
    jobset: Workload,
    record: Recorded,
    definition: Object | None,
    templates: ClaimTemplates,
) -> Run:
    """The roles of a TrainJob, read as those of the JobSet that its controller would make of it and of this runtime.

    `name` is what to call the runtime, `jobset` how a JobSet is read, `definition` that of TrainJob, where in view.
    Raises Unreadable with the place where the fault is written.
    """
    effective = _Effective(source, Elsewhere(name), runtime, record)
    view, places = effective.view(), effective.places
    below = (effective.name, "spec", "template")
    entry = replace(jobset, roles=tuple(replace(one, at=(*below, *one.at)) for one in jobset.roles))
    try:
        roles = read_roles(view, entry, templates)
    except Unreadable as fault:
        raise places.of_fault(fault) from None
    devices = {role.name for role in roles if role.devices}
    pins = pin_places(source, effective.layers, devices, definition)
    numbers = effective.numbers
    overlays = [replace(pins.overlay(role.name), selected_at=_selected_at(role, places)) for role in roles]
    roles = [
        replace(role, numbers=numbers.get(role.name, ()), overlay=overlay)
        for role, overlay in zip(roles, overlays, strict=True)
    ]
    return Run(roles, places, pins.patches)


def _selected_at(role: RawRole, places: Places) -> dict[str, Pointer]:
    written = {key: places.of((*role.spec, "nodeSelector", key)) for key, _ in role.placement.node_selector}
    return {key: at for key, at in written.items() if within(at)}


def runtime_of(source: Object, at: Path, namespace: str) -> Reference:
    """The runtime that a job in this namespace names at this path; kind and group have defaults. Raises Unreadable."""
    named = mapped(source, at)
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


class _Effective:
    """The runtime as it is for one job. `places` says what in it is written in the job, `numbers` which of the job's
    fields hold the number of a role's pods."""

    def __init__(self, source: Object, name: Elsewhere, runtime: Object, record: Recorded) -> None:
        self.name = name
        self.layers = list(layers(source, record))
        self.places = Places()
        self.numbers: dict[str, tuple[Pointer, ...]] = {}
        self._source = source
        self._runtime: Object = {name: runtime}
        self._at = (name, "spec", "template", "spec", "replicatedJobs")
        self._trainer = mapped(source, _TRAINER)

    def view(self) -> Object:
        """The runtime under its name, with the jobs changed."""
        spec_at, template_at, jobset_at = self._at[:2], self._at[:3], self._at[:4]
        jobs = listed(found(self._runtime, self._at), self._at)
        jobset = {**mapped(self._runtime, jobset_at), "replicatedJobs": self._jobs(jobs)}
        template = {**mapped(self._runtime, template_at), "spec": jobset}
        return {self.name: {"spec": {**mapped(self._runtime, spec_at), "template": template}}}

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
        pod = mapped(job, POD_IN_JOB, at[: -len(POD_IN_JOB)])
        for layer in self.layers:
            if name in layer.targets:
                pod = _laid_over(pod, at, layer, self.places)
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
                    self.places.move((*at, key), (*_TRAINER, key))
        resources = mapping(self._trainer, "resourcesPerNode", _TRAINER)
        asked = {key: value for key in ("limits", "requests") if (value := resources.get(key)) is not None}
        if asked:
            changed["resources"] = asked
            self.places.move((*at, "resources"), (*_TRAINER, "resourcesPerNode"))
        if more := objects(self._trainer, "env", _TRAINER):
            changed["env"] = _upserted(
                objects(container, "env", at), more, "name", (*at, "env"), (*_TRAINER, "env"), self.places
            )
        return changed


def _counts(name: str, step: str, mpi: bool) -> bool:  # noqa: FBT001
    return name == _NODE if mpi else step == _TRAINER_STEP


def _step(job: Object, at: Pointer) -> str:
    """What the job is to the TrainJob, by its label."""
    return text(mapped(job, _STEP, at), _STEP_LABEL, (*at, *_STEP))


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


def _laid_over(pod: Object, at: Pointer, layer: Layer, places: Places) -> Object:
    """A strategic merge of the fields that matter: maps by key, tolerations and affinity terms as a whole, containers,
    variables and volumes by name (k8s.io/api/core/v1, the patchStrategy of each)."""
    changed, laid, there = dict(pod), layer.pod, layer.at
    if selector := mapping(laid, "nodeSelector", there):
        changed["nodeSelector"] = {**mapping(pod, "nodeSelector", at), **selector}
        for key in selector:
            places.move((*at, "nodeSelector", key), (*there, "nodeSelector", key))
    if laid.get("tolerations"):
        changed["tolerations"] = laid["tolerations"]
        places.move((*at, "tolerations"), (*there, "tolerations"))
    if (terms := layer.terms) is not None:
        node, required, inner = AFFINITY_TERMS[1:]
        changed["affinity"] = {node: {required: {inner: terms}}}
        places.move((*at, *AFFINITY_TERMS), (*there, *AFFINITY_TERMS))
    if volumes := objects(laid, "volumes", there):
        base = objects(pod, "volumes", at)
        changed["volumes"] = _upserted(base, volumes, "name", (*at, "volumes"), (*there, "volumes"), places)
    if containers := objects(laid, "containers", there):
        by_name = {one.get("name"): index for index, one in enumerate(containers) if isinstance(one.get("name"), str)}
        merged = list(objects(pod, "containers", at))
        for index, container in enumerate(merged):
            name = container.get("name")
            if isinstance(name, str) and (which := by_name.get(name)) is not None:
                here, over = (*at, "containers", index), (*there, "containers", which)
                merged[index] = _container(container, containers[which], here, over, places)
        changed["containers"] = merged
    return changed


def _container(container: Object, laid: Object, at: Pointer, there: Pointer, places: Places) -> Object:
    changed = dict(container)
    for field, key in (("env", "name"), ("volumeMounts", "mountPath")):
        if more := objects(laid, field, there):
            base = objects(container, field, at)
            changed[field] = _upserted(base, more, key, (*at, field), (*there, field), places)
    return changed


def _upserted(
    base: Sequence[Object], more: Sequence[Object], key: str, at: Pointer, there: Pointer, places: Places
) -> list[Object]:
    """A list of maps with others put in: in the place of those of the same key, else behind."""
    merged, sources = list(base), places.items(at)
    known = {name: index for index, one in enumerate(merged) if isinstance(name := one.get(key), str)}
    for index, one in enumerate(more):
        name = one.get(key)
        place = known.get(name) if isinstance(name, str) else None
        if place is None:
            place = len(merged)
            merged.append(one)
            if isinstance(name, str):
                known[name] = place
        else:
            merged[place] = one
        sources[place] = (there, index)
    return merged
