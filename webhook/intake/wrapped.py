"""What a wrapper holds: the objects that its controller will create, as they stand in it."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from webhook.catalog.strict_yaml import YamlError, load_all
from webhook.intake.fields import A_MAP, Unreadable, found, listed, mapping, objects, text
from webhook.intake.runtime import shortest_job
from webhook.model.finding import Phrase
from webhook.model.placement import Pointer
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference, Surroundings
from webhook.model.workload import Each, HeldAs, Holds, Workload

# A template of an Argo Workflow holds what its pod takes from here where it has none of its own.
_INHERITED = ("nodeSelector", "affinity", "tolerations")
_LONGEST_MANIFEST = 256 * 1024
_MOST = 64
DEEPEST = 4
"""Wrappers in wrappers are looked into so many times: an AppWrapper around a Workflow that creates a CronJob is two."""
_POD = Kind("", "v1", "Pod")


class Held(NamedTuple):
    """One object inside another, which stands at `at`. `refers_to`: what it names is the object that holds it."""

    kind: Kind
    object: Object
    at: Pointer
    refers_to: Reference | None = None

    def sees(self, known: Surroundings, holder: Object) -> Surroundings:
        """What it can refer to: what its `holder` can, and where it names the holder, that as well."""
        return known if self.refers_to is None else {**known, self.refers_to: holder}


def held_objects(source: Object, workload: Workload, namespace: str = "") -> Iterator[Held]:
    """The objects inside a wrapper in this namespace, at most so many of them. Raises Unreadable."""
    for holds in workload.holds:
        if holds.held is HeldAs.RUNTIME:
            job, reference = shortest_job(source, workload, namespace)
            yield Held(_kind_named(holds), job, (), reference)
            continue
        for number, (entry, at) in enumerate(_entries(source, holds)):
            if number == _MOST:
                break
            yield from _held(source, holds, entry, at)


def _entries(source: Object, holds: Holds) -> Iterator[tuple[Object, Pointer]]:
    value = found(source, holds.at)
    if value is None:
        return
    if holds.each is Each.ITEM:
        for index, entry in enumerate(listed(value, holds.at)):
            yield entry, (*holds.at, index)
    elif not isinstance(value, dict):
        raise Unreadable(holds.at, A_MAP, value)
    elif holds.each is Each.ONE:
        yield value, holds.at
    else:
        for name in value:
            yield mapping(value, name, holds.at), (*holds.at, name)


def _held(source: Object, holds: Holds, entry: Object, at: Pointer) -> Iterator[Held]:
    if holds.held is HeldAs.STEP:
        yield from _step(source, entry, at)
        return
    value, at = found(entry, holds.object, at), (*at, *holds.object)
    if value is None:
        return
    if holds.held is HeldAs.TEMPLATE:
        if isinstance(value, dict):
            yield Held(_kind_named(holds), _named(value, source, at), at)
            return
        raise Unreadable(at, A_MAP, value)
    documents: Iterable[Any] = _manifests(value, at) if holds.held is HeldAs.MANIFEST else (value,)
    for one in documents:
        yield Held(_kind(one, at), one, at)


def _kind_named(holds: Holds) -> Kind:
    kind, version, group = holds.kind.split(".", 2)
    return Kind(group, version, kind)


def _named(template: Object, source: Object, at: Pointer) -> Object:
    """The template with the name that its objects get, as far as it is known: it begins with that of the wrapper."""
    metadata = mapping(template, "metadata", at)
    name = text(mapping(source, "metadata", ()), "name", ("metadata",))
    return {**template, "metadata": {"generateName": f"{name}-", **metadata}} if name else template


def _manifests(value: object, at: Pointer) -> Iterator[Any]:
    """The documents of a manifest. Where a placeholder of the workflow stands in the way, there is nothing to read yet:
    the object is decided when it is created."""
    if not isinstance(value, str):
        raise Unreadable(at, Phrase("manifest"), value)
    if len(value) > _LONGEST_MANIFEST:
        raise Unreadable(
            at, Phrase("at_most", {"most": _LONGEST_MANIFEST}), Phrase("characters", {"count": len(value)})
        )
    try:
        yield from (one for one in load_all(value) if one is not None)
    except YamlError as error:
        if "{{" not in value:
            raise Unreadable(at, Phrase("yaml", {"error": str(error)}), value) from None


def _kind(obj: object, at: Pointer) -> Kind:
    match obj:
        case {"apiVersion": str(api_version), "kind": str(kind)}:
            group, _, version = api_version.rpartition("/")
            return Kind(group, version, kind)
    raise Unreadable(at, Phrase("object"), obj)


def _step(source: Object, entry: Object, at: Pointer) -> Iterator[Held]:
    """The pod of a workflow's template, as far as it decides where the pod may land."""
    containers = [container for container in (_container(entry, at), _script(entry, at)) if container is not None]
    if (several := entry.get("containerSet")) is not None:
        if not isinstance(several, dict):
            raise Unreadable((*at, "containerSet"), A_MAP, several)
        containers += objects(several, "containers", (*at, "containerSet"))
    if not containers:
        return
    whole = mapping(source, "spec", ())
    spec = {key: value for key in _INHERITED if (value := entry.get(key) or whole.get(key)) is not None}
    spec |= {"containers": containers, "initContainers": list(objects(entry, "initContainers", at))}
    yield Held(_POD, {"metadata": {"name": text(entry, "name", at)}, "spec": spec}, at)


def _container(entry: Object, at: Pointer) -> Object | None:
    return mapping(entry, "container", at) or None


def _script(entry: Object, at: Pointer) -> Object | None:
    """A script with what runs it: the source stands in a file that is the last argument of the command."""
    script = mapping(entry, "script", at)
    if not script:
        return None
    command = script.get("command")
    source = text(script, "source", (*at, "script"))
    shell = isinstance(command, list) and bool(command) and str(command[-1]).endswith("sh")
    return {**script, "command": [*command, "-c", source]} if shell and isinstance(command, list) else script
