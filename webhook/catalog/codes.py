"""The list of finding codes (`codes.yaml`), and what they say in other languages (`codes.ko.yaml`)."""

from functools import cache
from importlib.resources import files
from types import MappingProxyType

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from webhook.model.finding import Action, Finding
from webhook.model.policy import Language


class Said(BaseModel):
    """What a person reads about a code; `tune` is for who writes the policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str = Field(pattern=r"^SST\d{3}$")
    title: str
    meaning: str
    way_out: str
    tune: str = ""


class Code(Said):
    """One code, and what it does by default."""

    action: Action


@cache
def codes(language: Language = Language.EN) -> MappingProxyType[str, Code]:
    """Every code by its name, in the order of the file. Raises pydantic's ValidationError on a bad file (a test).

    What a code says in another language stands beside the list; one that is not there yet speaks English.
    """
    rows = TypeAdapter(list[Code]).validate_python(_read("codes.yaml"))
    if language is Language.EN:
        return MappingProxyType({row.code: row for row in rows})
    said = TypeAdapter(list[Said]).validate_python(_read(f"codes.{language}.yaml"))
    own = {one.code: one.model_dump(exclude_unset=True) for one in said}
    return MappingProxyType({row.code: row.model_copy(update=own.get(row.code, {})) for row in rows})


def _read(name: str) -> object:
    return yaml.safe_load(files("webhook.catalog").joinpath(name).read_text("utf-8"))


def action_of(finding: Finding) -> Action:
    """What this finding does under a policy that denies: its own say, else its code's."""
    return finding.action or codes()[finding.code].action


def may_deny(code: str) -> bool:
    """Whether a policy may raise this code to Deny. What we did for the job, what passes by itself, what cannot be told
    from a typo or a node on its way, what is wrong with policies and what is wrong with us is no fault of the job's."""
    return code not in ("SST301", "SST402", "SST403") and not code.startswith(("SST7", "SST9"))
