"""The queue that a job is submitted to, by label, annotation or a field of its kind."""

from collections.abc import Iterable, Iterator, Mapping

from webhook.catalog.queues import QueueSystem, queue_keys, queue_systems
from webhook.intake.fields import EMPTY, found, mapping
from webhook.model.placement import Operator, Pointer, Requirement
from webhook.model.queues import QueueName
from webhook.model.request import Object
from webhook.model.workload import Workload


def read_queue(source: Object, metadata: Object, workload: Workload, pods: Iterable[Pointer]) -> QueueName | None:
    """The first queue that the object names; None where it names none. `pods` point at the pod specs of its roles with
    devices, beside which the metadata of the templates stand. Raises Unreadable where labels or annotations are no map.
    """
    own = (mapping(metadata, "labels", ("metadata",)), mapping(metadata, "annotations", ("metadata",)))
    templates = [_template(source, spec) for spec in pods]
    fields = {system: found(source, path) for system, path in workload.queues.items()}
    # Most jobs name none.
    if not any(fields.values()) and all(queue_keys().isdisjoint(one) for place in (own, *templates) for one in place):
        return None
    for system in queue_systems():
        places = [own, *templates] if system.in_template else [own]
        labels, annotations = [one[0] for one in places], [one[1] for one in places]
        named = [fields.get(system.system), *_values(labels, system.labels), *_values(annotations, system.annotations)]
        name = next((one for one in named if isinstance(one, str) and one), "")
        nodes = tuple(_said_of_nodes(labels, system))
        if name or nodes:
            return QueueName(system.system, name, nodes)
    return None


def _values(places: Iterable[Mapping[str, object]], keys: Iterable[str]) -> Iterator[object]:
    return (place.get(key) for key in keys for place in places)


def _said_of_nodes(labels: list[Mapping[str, object]], system: QueueSystem) -> Iterator[Requirement]:
    for key in system.says_nodes:
        value = next((one for one in _values(labels, (key,)) if isinstance(one, str) and one), "")
        if value:
            yield Requirement(key, Operator.IN, (value,))


def _template(source: Object, spec: Pointer) -> tuple[Object, Object]:
    """Labels and annotations of the template around a pod spec; what is no map is not there: its controller says so."""
    value: object = source
    for step in spec[:-1]:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return EMPTY, EMPTY
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    return labels if isinstance(labels, dict) else EMPTY, annotations if isinstance(annotations, dict) else EMPTY
