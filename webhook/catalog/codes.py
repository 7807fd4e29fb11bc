"""The list of finding codes (`codes.yaml`)."""

from functools import cache
from importlib.resources import files
from types import MappingProxyType

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from webhook.model.finding import Action, Finding


class Code(BaseModel):
    """One code: what it does by default, and what a person reads about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str = Field(pattern=r"^SST\d{3}$")
    action: Action
    title: str
    meaning: str
    way_out: str


@cache
def codes() -> MappingProxyType[str, Code]:
    """Every code by its name, in the order of the file. Raises pydantic's ValidationError on a bad file (a test)."""
    text = files("webhook.catalog").joinpath("codes.yaml").read_text("utf-8")
    rows = TypeAdapter(list[Code]).validate_python(yaml.safe_load(text))
    return MappingProxyType({row.code: row for row in rows})


def action_of(finding: Finding) -> Action:
    """What this finding does under a policy that denies: its own say, else its code's."""
    return finding.action or codes()[finding.code].action


def may_deny(code: str) -> bool:
    """Whether a policy may raise this code to Deny. What passes by itself, what cannot be told from a typo, what is
    wrong with policies and what is wrong with us is no fault of the job's."""
    return code not in ("SST402", "SST403") and not code.startswith(("SST7", "SST9"))
