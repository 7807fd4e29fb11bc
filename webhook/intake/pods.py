"""A raw v1 Pod, projected to what decisions look at of pods that are there already."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

from webhook.catalog.accelerators import accelerators
from webhook.catalog.workloads import workloads
from webhook.intake.annotations import PREFIX, read_record
from webhook.intake.fields import Unreadable
from webhook.intake.groups import read_group
from webhook.intake.resources import read_resources
from webhook.model.finding import Finding
from webhook.model.pods import Pod
from webhook.model.request import Kind, Object

_FINISHED = ("Succeeded", "Failed")
_POD = Kind("", "v1", "Pod")
_NOTHING: Mapping[Any, Any] = {}


class PodError(ValueError):
    """Not a pod; `finding` says where the fault is."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


def read_pod(obj: Object) -> Pod | None:
    """The pod, or None where it has finished. Raises PodError where its requests or its group cannot be read."""
    metadata, spec, status = (_map(_map(obj).get(part)) for part in ("metadata", "spec", "status"))
    if status.get("phase") in _FINISHED:
        return None
    record = read_record(_map(metadata.get("annotations")).get(f"{PREFIX}pinned"))
    namespace = intern(_text(metadata.get("namespace")))
    try:
        requests = read_resources(spec, ("spec",)).requests
        # Only the pins of those that belong together are looked up.
        group = _group(metadata) if record is not None else ""
    except Unreadable as fault:
        raise PodError(fault.finding()) from None
    return Pod(
        uid=_text(metadata.get("uid")) or f"{namespace}/{_text(metadata.get('name'))}",
        namespace=namespace,
        group=group,
        node=intern(_text(spec.get("nodeName"))),
        requests=_shared(tuple(sorted(requests.items()))),
        created=_seconds(_text(metadata.get("creationTimestamp"))),
        record=record,
        waits_for=_waits_for(_map(spec.get("nodeSelector"))) if _passed_over(status) else None,
    )


def _passed_over(status: Mapping[Any, Any]) -> bool:
    """Whether the scheduler has no node for it: Unschedulable, or SchedulingGated."""
    conditions = status.get("conditions")
    found = map(_map, conditions if isinstance(conditions, list) else ())
    return any(one.get("type") == "PodScheduled" and one.get("status") == "False" for one in found)


def _waits_for(selector: Mapping[Any, Any]) -> tuple[str, str] | None:
    """The entry by which a nodeSelector names a GPU model."""
    entries = ((key, value) for key, value in selector.items() if key in accelerators().product_keys)
    return next(((intern(key), intern(value)) for key, value in entries if isinstance(value, str)), None)


def _group(metadata: Object) -> str:
    workload = workloads().of(_POD)
    return read_group(metadata, workload)[0] if workload is not None else ""


@lru_cache(maxsize=4096)
def _shared(requests: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """One value for all pods that ask for the same, of which there are thousands."""
    return MappingProxyType({intern(name): amount for name, amount in requests} | {"pods": 1})


# Pods are created in bursts, and of each time there are many.
@lru_cache(maxsize=4096)
def _seconds(written: str) -> int:
    try:
        return int(datetime.fromisoformat(written).timestamp())
    except ValueError:
        return 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _map(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
