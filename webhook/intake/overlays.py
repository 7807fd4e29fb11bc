"""What a TrainJob lays over the pods of its runtime, and where among it a pin can be written.

The rules are those of Kubeflow Trainer v2.0 to v2.2; docs/decisions/0030-trainjob-pins.md says what follows from them.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from webhook.intake.fields import EMPTY, Unreadable, found, listed, mapped, mapping, objects, text
from webhook.intake.placement import read_placement
from webhook.model.frozen import frozen
from webhook.model.job import Overlay, PatchShape, PinPatches, PinRecord
from webhook.model.patch import AFFINITY_TERMS, JOBS_IN_PATCH, MANAGER, POD_IN_JOB
from webhook.model.placement import Pointer
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference

DEFINITION = Reference(
    Kind("apiextensions.k8s.io", "", "CustomResourceDefinition"), "", "trainjobs.trainer.kubeflow.org"
)
"""Its schema says in which field this cluster's TrainJobs are patched."""

_NEWEST_FIRST = tuple(reversed(PatchShape))
_MOST_PATCHES = 16
_OF_A_POOL = frozenset({"nodeSelector", "affinity", "tolerations"})


class Recorded(NamedTuple):
    """What an earlier answer recorded: the pin and the name of the pool, or one of them, or nothing."""

    pin: PinRecord | None = None
    pool: str = ""


class Layer(NamedTuple):
    """One pod spec that is laid over those of the jobs it targets; it stands at `at`. `ours`: we wrote it."""

    shape: PatchShape
    targets: tuple[str, ...]
    pod: Object
    at: Pointer
    ours: bool

    @property
    def terms(self) -> object:
        return found(self.pod, AFFINITY_TERMS, self.at)


def layers(source: Object, record: Recorded) -> Iterator[Layer]:
    """What is laid over the runtime's pods, in the order in which it is: the last that says something stands."""
    spec, shape = mapping(source, "spec", ()), PatchShape.POD_SPEC_OVERRIDES
    for at, entry in _entries(spec, shape):
        yield Layer(shape, _targets(entry, at), entry, at, ours=False)
    shape = PatchShape.POD_TEMPLATE_OVERRIDES
    for at, entry in _entries(spec, shape):
        ours = _is_as_recorded(entry, record)
        yield Layer(shape, _targets(entry, at), mapping(entry, "spec", at), (*at, "spec"), ours)
    shape = PatchShape.RUNTIME_PATCHES
    for at, entry in _entries(spec, shape):
        ours = entry.get("manager") == MANAGER
        for index, job in enumerate(listed(found(entry, JOBS_IN_PATCH, at), (*at, *JOBS_IN_PATCH))):
            here = (*at, *JOBS_IN_PATCH, index)
            yield Layer(shape, (text(job, "name", here),), mapped(job, POD_IN_JOB, here), (*here, *POD_IN_JOB), ours)


def _entries(spec: Object, shape: PatchShape) -> Iterator[tuple[Pointer, Object]]:
    for index, entry in enumerate(objects(spec, shape, ("spec",))):
        yield ("spec", shape.value, index), entry


def _targets(entry: Object, at: Pointer) -> tuple[str, ...]:
    here = (*at, "targetJobs")
    return tuple(text(one, "name", (*here, index)) for index, one in enumerate(objects(entry, "targetJobs", at)))


def _is_as_recorded(entry: Object, record: Recorded) -> bool:
    """Whether an override is as we write it: with the recorded pin and nothing besides, or what a pool takes as well.
    It has no place for a name."""
    return _holds_pool(entry, record.pin) if record.pool else record.pin is not None and _holds_pin(entry, record.pin)


def _holds_pin(entry: Object, record: PinRecord) -> bool:
    match entry:
        case {"targetJobs": list(), "spec": {"nodeSelector": {**selector}, **rest}, **more}:
            alone = not rest and not more
            return alone and len(record.values) == 1 and selector == {record.key: record.values[0]}
        case {"targetJobs": list(), "spec": {"affinity": dict(), **rest}, **more}:
            return not rest and not more and len(record.values) > 1
    return False


def _holds_pool(entry: Object, record: PinRecord | None) -> bool:
    match entry:
        case {"targetJobs": list(), "spec": {**spec}, **more}:
            if more or not spec or not spec.keys() <= _OF_A_POOL:
                return False
            selector = spec.get("nodeSelector")
            if record is None or len(record.values) > 1:
                return record is None or "affinity" in spec
            return isinstance(selector, dict) and selector.get(record.key) == record.values[0]
    return False


def pin_places(
    source: Object, laid: Sequence[Layer], devices: Collection[str], definition: Object | None
) -> "PinPlaces":
    """Where pins of the roles with devices, given by name, can be written into the job. Raises Unreadable."""
    shape, takes_affinity = _shape(source, definition or EMPTY)
    patches = _patches(source, shape)
    return PinPlaces(laid, devices, patches, takes_affinity, full=_full(source, patches))


def _shape(source: Object, definition: Object) -> tuple[PatchShape, bool]:
    """The field to write a pin into, and whether it takes affinity: the one that the job uses (what the API does not
    have, it has dropped), else the newest that the definition has, else the newest of all."""
    known = _schema(definition)
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


def _schema(definition: Object) -> Object:
    """The fields of a TrainJob's spec; nothing where the definition cannot be read."""
    try:
        versions = objects(mapping(definition, "spec", ()), "versions", ("spec",))
        ours = next((one for one in versions if one.get("name") == "v1alpha1"), EMPTY)
        return mapped(ours, ("schema", "openAPIV3Schema", "properties", "spec", "properties"))
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


@frozen
class PinPlaces:
    """Where a pin of each role can be written; `full`: the list has no place for an entry more."""

    layers: Sequence[Layer]
    devices: Collection[str]
    patches: PinPatches
    takes_affinity: bool
    full: bool

    def overlay(self, name: str) -> Overlay:
        """What is laid over the role of this name."""
        over = [layer for layer in self.layers if name in layer.targets]
        in_force = next((layer for layer in reversed(over) if layer.terms is not None), None)
        terms_at = in_force.at if in_force is not None and self._alone(in_force) else None
        own = next((layer for layer in over if self._is_ours(layer)), None)
        tolerating = next((layer for layer in reversed(over) if layer.pod.get("tolerations")), None)
        tolerations_at = tolerating.at if tolerating is not None and self._alone(tolerating) else None
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
            tolerations_at=tolerations_at,
            takes_tolerations=tolerations_at is not None or (tolerating is None and not closed),
        )

    def _is_ours(self, layer: Layer) -> bool:
        if layer.shape is not self.patches.shape or not self._alone(layer):
            return False
        if layer.shape is PatchShape.RUNTIME_PATCHES:
            return layer.ours and self.patches.own_jobs
        return layer.ours or layer.shape is PatchShape.POD_SPEC_OVERRIDES

    def _alone(self, layer: Layer) -> bool:
        """Whether it is laid over roles with devices and no others."""
        return set(layer.targets) <= set(self.devices)
