"""A finding: one fact worth telling, with a stable code (`webhook/catalog/codes.yaml`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Facts: TypeAlias = Mapping[str, str | int | float]


class Action(StrEnum):
    """What a finding does under a policy that denies."""

    DENY = "Deny"
    WARN = "Warn"
    INFORM = "Info"


@dataclass(frozen=True, slots=True)
class Finding:
    """`where` is a path into the object, or empty; `facts` fill the placeholders of the code's text.

    `action` None: the code's own. `variant` picks one of the code's texts where it has several.
    """

    code: str
    where: str = ""
    facts: Facts = field(default_factory=dict)
    variant: str = ""
    action: Action | None = None
