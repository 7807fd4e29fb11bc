"""A raw ResourceClaim (resource.k8s.io), projected to what it takes of a node."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from webhook.catalog.accelerators import accelerators
from webhook.model.pods import Pod
from webhook.model.request import Object

_NOTHING: Mapping[str, Any] = {}


def read_claim(obj: Object) -> Pod | None:
    """The devices that a claim holds, as those of a pod that asks for nothing else; None where it holds none on one
    node that are an accelerator's.

    They are counted under the name of their driver, as nodes offer them: a device in several parts of the claim once,
    and not at all where it is there for administration, which takes it from nobody.
    """
    metadata, allocation = _map(_map(obj).get("metadata")), _map(_map(_map(obj).get("status")).get("allocation"))
    node = _node(allocation)
    if not node:
        return None
    held: dict[str, set[tuple[str, str]]] = {}
    for result in _maps(_map(allocation.get("devices")).get("results")):
        driver = result.get("driver")
        if isinstance(driver, str) and driver in accelerators().drivers and result.get("adminAccess") is not True:
            held.setdefault(driver, set()).add((str(result.get("pool")), str(result.get("device"))))
    if not held:
        return None
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    return Pod(
        uid=str(metadata.get("uid") or f"{namespace}/{name}"),
        namespace=namespace,
        group="",
        node=node,
        requests={driver: len(devices) for driver, devices in held.items()},
        created=_seconds(metadata.get("creationTimestamp")),
    )


def _node(allocation: Mapping[str, Any]) -> str:
    """The one node from which the devices can be reached; empty where there are several."""
    for term in _maps(_map(allocation.get("nodeSelector")).get("nodeSelectorTerms")):
        for field in _maps(term.get("matchFields")):
            values = field.get("values")
            if field.get("key") == "metadata.name" and isinstance(values, list) and len(values) == 1:
                return str(values[0])
    return ""


def _seconds(written: object) -> int:
    try:
        return int(datetime.fromisoformat(str(written)).timestamp())
    except ValueError:
        return 0


def _maps(raw: object) -> Iterator[Mapping[str, Any]]:
    return map(_map, raw if isinstance(raw, list) else ())


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
