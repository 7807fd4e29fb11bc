"""Objects that a job refers to: a training runtime, a ConfigMap, a claim template, the definition of its kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from webhook.model.request import Kind, Object


@dataclass(frozen=True, slots=True)
class Reference:
    """Which object is meant; `namespace` is empty for cluster-scoped kinds."""

    kind: Kind
    namespace: str
    name: str


Surroundings: TypeAlias = Mapping[Reference, Object]
"""The objects in view, as decoded JSON. Only `intake` looks inside."""

NOTHING_IN_VIEW: Surroundings = MappingProxyType({})
