"""Objects that a job refers to: a training runtime, a ConfigMap, a claim template, the definition of its kind."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from webhook.model.frozen import frozen
from webhook.model.request import Kind, Object


@frozen
class Reference:
    """Which object is meant. `namespace` is empty for cluster-scoped kinds, and the version of `kind` always: a
    reference seldom knows it, and an object is the same whatever version it is served in (its own apiVersion says)."""

    kind: Kind
    namespace: str
    name: str


Surroundings: TypeAlias = Mapping[Reference, Object]
"""The objects in view, as decoded JSON. Only `intake` looks inside."""

NOTHING_IN_VIEW: Surroundings = MappingProxyType({})


def reference_of(obj: Object, namespace: str = "") -> Reference | None:
    """What this object is looked up by; `namespace` is that of an object that names none. None where it has no name."""
    match obj:
        case {"apiVersion": str(api_version), "kind": str(kind), "metadata": {"name": str(name), **metadata}}:
            own = metadata.get("namespace")
            return Reference(
                Kind(api_version.rpartition("/")[0], "", kind), own if isinstance(own, str) else namespace, name
            )
    return None
