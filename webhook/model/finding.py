"""A finding: one fact worth telling, with a stable code (`webhook/catalog/codes.yaml`)."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from webhook.model.frozen import frozen

Plain: TypeAlias = str | int | float


@frozen
class Phrase:
    """Words that stand inside a text, in the reader's language as well: `key` names them among the texts' phrases,
    `facts` fill their placeholders."""

    key: str
    facts: Mapping[str, Plain] = field(default_factory=dict)


Facts: TypeAlias = Mapping[str, "Plain | Phrase"]


class Action(StrEnum):
    """What a finding does under a policy that denies."""

    DENY = "Deny"
    WARN = "Warn"
    INFORM = "Info"


@frozen
class Finding:
    """`where` is a path into the object, or empty; `facts` fill the placeholders of the code's text.

    `action` None: the code's own. `variant` picks one of the code's texts where it has several.
    """

    code: str
    where: str = ""
    facts: Facts = field(default_factory=dict)
    variant: str = ""
    action: Action | None = None
