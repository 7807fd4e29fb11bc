"""What the API server asks: one admission request, or its offline likeness."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

from webhook.model.frozen import frozen

Object: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as decoded JSON. Only `intake` and `fleet` look inside."""


class Stage(StrEnum):
    """Which of our three callers asks."""

    MUTATE = "Mutate"
    VALIDATE = "Validate"
    AUDIT = "Audit"


@frozen
class Kind:
    """Group, version and kind of an object; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


@frozen
class User:
    """Who asks, as the API server authenticated them."""

    name: str = ""
    groups: tuple[str, ...] = ()


@frozen
class Request:
    """One admission request.

    `namespace` comes from the request: on CREATE the object may lack it (kubernetes#46107, topolvm#54).
    `now` is in seconds since the epoch; `review()` reads no clock of its own.
    `raw` is the request map without the two objects, for CEL.
    """

    kind: Kind
    operation: str
    object: Object
    old_object: Object | None = None
    stage: Stage = Stage.MUTATE
    namespace: str = ""
    subresource: str = ""
    user: User = User()
    dry_run: bool = False
    uid: str = ""
    now: float = 0.0
    raw: Object = field(default_factory=dict)
