"""Where the name of a queue can be written into a job that names none."""

from collections.abc import Mapping, Sequence

from webhook.catalog.queues import system_of
from webhook.model.paths import within
from webhook.model.placement import Pointer
from webhook.model.queues import Slot
from webhook.model.request import Object
from webhook.model.workload import Workload

_METADATA = ("metadata",)


def queue_slots(source: Object, workload: Workload, pods: Sequence[Pointer], scheduler: str) -> Sequence[Slot]:
    """The field that the kind has for it, else the label or annotation of the system that queues what this scheduler
    places: on the object where that is looked for there, else on the template of each of the `pods` (pod specs).
    Nowhere, where those are in another object, or something else stands in the way."""
    system = system_of(scheduler, workload.group)
    paths: list[Pointer]
    if (field := workload.queues.get(system.system)) is not None:
        paths = [field]
    elif system.labels:
        paths = [(*_METADATA, "labels", system.labels[0])]
    else:
        # Its controller makes the group of each pod from what the pod itself says.
        paths = [(*spec[:-1], *_METADATA, "annotations", system.annotations[0]) for spec in pods]
    slots = [_slot(source, path) for path in paths if within(path)]
    found = [one for one in slots if one is not None]
    return found if len(found) == len(paths) else ()


def _slot(source: Object, path: Pointer) -> Slot | None:
    inner: object = source
    for depth, step in enumerate(path):
        below = _below(inner, step)
        if below is None or below == "":
            made = path[depth + 1 :]
            return Slot(path[: depth + 1], made) if isinstance(inner, Mapping) else None
        inner = below
    return None


def _below(inner: object, step: str | int) -> object:
    if isinstance(step, int):
        return inner[step] if isinstance(inner, list) and step < len(inner) else None
    return inner.get(step) if isinstance(inner, Mapping) else None
