"""How jobs and their pods ended, by what their objects say. Data: webhook/catalog/terminations.yaml."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from webhook.catalog.accelerators import accelerators
from webhook.catalog.terminations import terminations
from webhook.model.owner import controller_of
from webhook.model.quantity import QuantityError, units
from webhook.model.request import Object
from webhook.model.run import Ending, Rank
from webhook.model.workload import Path

_NOTHING: Mapping[Any, Any] = {}
# What the kubelet keeps of a termination message.
_LONGEST = 4096


def read_end(obj: Object) -> tuple[Ending, float | None]:
    """Whether an object of a kind of job has ended, how, and when, where it says so."""
    jobs = terminations().jobs
    said = {Ending.BADLY: list[float | None](), Ending.WELL: list[float | None]()}
    for condition in _conditions(obj):
        if condition.get("type") in jobs.badly:
            said[Ending.BADLY].append(_seconds(condition.get("lastTransitionTime")))
        elif condition.get("type") in jobs.well:
            said[Ending.WELL].append(_seconds(condition.get("lastTransitionTime")))
    for field in jobs.fields:
        word = _at(obj, field.at)
        if isinstance(word, str) and word in field.badly:
            said[Ending.BADLY].append(None)
        elif isinstance(word, str) and word in field.well:
            said[Ending.WELL].append(None)
    for ending, times in said.items():
        if times:
            named = (_seconds(_at(obj, path)) for path in jobs.times)
            return ending, next((at for at in (*named, *times) if at is not None), None)
    return Ending.GOES_ON, None


def says_out_of_memory(obj: Object) -> bool:
    """Whether a job's own status quotes a program whose device ran out of memory."""
    messages = [_at(obj, path) for path in terminations().jobs.messages]
    messages += [one.get("message") for one in _conditions(obj) if one.get("type") in terminations().jobs.badly]
    return any(isinstance(one, str) and _says(one) for one in messages)


def read_rank(obj: Object) -> Rank | None:
    """What matters of a v1 Pod; None where it asks for no devices, or cannot be read."""
    metadata, spec, status = (_map(obj.get(part)) for part in ("metadata", "spec", "status"))
    devices = _devices(spec)
    uid, name, namespace = (metadata.get(part) for part in ("uid", "name", "namespace"))
    if not (devices or spec.get("resourceClaims")):
        return None
    if not (isinstance(uid, str) and isinstance(name, str) and isinstance(namespace, str)):
        return None
    ended = list(_ended(status))
    from_outside = _from_outside(status)
    memory = [at for one, at in ended if not from_outside and _ran_out(one)]
    ending = {"Succeeded": Ending.WELL, "Failed": Ending.BADLY}.get(str(status.get("phase")), Ending.GOES_ON)
    if from_outside:
        ending = Ending.BADLY
    node, owner = spec.get("nodeName"), controller_of(metadata)
    times = [at for _, at in ended if at is not None]
    began = _seconds(status.get("startTime")) or _seconds(metadata.get("creationTimestamp")) or 0.0
    return Rank(
        uid=uid,
        namespace=namespace,
        name=name,
        owner=owner.uid if owner is not None else "",
        node=node if isinstance(node, str) else "",
        devices=devices,
        began_at=began,
        ending=ending,
        ended_at=max(times, default=None) if ending is not Ending.GOES_ON else None,
        out_of_memory_at=max((began if at is None else at for at in memory), default=None),
    )


def _devices(spec: Mapping[Any, Any]) -> dict[str, int]:
    """What the containers of a pod ask for of accelerators, all together."""
    found: dict[str, int] = {}
    containers = spec.get("containers")
    for container in map(_map, containers if isinstance(containers, list) else ()):
        resources = _map(container.get("resources"))
        asked = {**_map(resources.get("requests")), **_map(resources.get("limits"))}
        for name, amount in asked.items():
            if isinstance(name, str) and accelerators().is_device(name):
                try:
                    found[name] = found.get(name, 0) + units(amount)
                except QuantityError:
                    continue
    return {name: amount for name, amount in found.items() if amount > 0}


def _ended(status: Mapping[Any, Any]) -> Iterator[tuple[Mapping[Any, Any], float | None]]:
    """Every end of a container that the status still tells of, the last one and the one before."""
    containers = status.get("containerStatuses")
    for container in map(_map, containers if isinstance(containers, list) else ()):
        for state in ("lastState", "state"):
            ended = _map(_map(container.get(state)).get("terminated"))
            if ended:
                yield ended, _seconds(ended.get("finishedAt"))


def _ran_out(ended: Mapping[Any, Any]) -> bool:
    """Whether a container ended because a device ran out of memory: by its last words, and by no one else's doing."""
    containers = terminations().containers
    code, message = ended.get("exitCode"), ended.get("message")
    if not isinstance(code, int) or code == 0 or code in containers.exit_codes:
        return False
    return ended.get("reason") not in containers.reasons and isinstance(message, str) and _says(message)


def _says(message: str) -> bool:
    return bool(terminations().framework_out_of_memory(message[-_LONGEST:]))


def _from_outside(status: Mapping[Any, Any]) -> bool:
    pods = terminations().pods
    conditions = status.get("conditions")
    found = map(_map, conditions if isinstance(conditions, list) else ())
    return status.get("reason") in pods.reasons or any(
        one.get("type") in pods.conditions and one.get("status") == "True" for one in found
    )


def _conditions(obj: Object) -> Iterator[Mapping[Any, Any]]:
    """Those that are true."""
    conditions = _map(obj.get("status")).get("conditions")
    for one in map(_map, conditions if isinstance(conditions, list) else ()):
        if one.get("status") == "True":
            yield one


def _at(obj: Object, path: Path) -> object:
    found: object = obj
    for step in path:
        found = _map(found).get(step)
    return found


def _seconds(written: object) -> float | None:
    try:
        return datetime.fromisoformat(written).timestamp() if isinstance(written, str) else None
    except ValueError:
        return None


def _map(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
