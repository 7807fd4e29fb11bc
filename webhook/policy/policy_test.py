"""`PolicyTest`: what a fleet and policies are to make of jobs. A file, `*.test.yaml`, and no custom resource."""

import re
from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from webhook.model.verdict import Verdict
from webhook.policy.parts import Codes, Metadata, Name, Part, Text, Time


def _inside(path: str) -> str:
    if path.startswith(("/", "~")) or "\0" in path:
        raise ValueError("expected a path from the folder of this file")
    return path


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


_File = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_inside)]
_Files = Annotated[tuple[_File, ...], Field(max_length=256)]
_Regex = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_regex)]


class ExpectPart(Part):
    """What becomes of each job of the case. What is not given may be anything; something is given."""

    verdict: Verdict | None = None
    """Admit: unchanged. Pin: held to the models. Deny: refused."""
    models: Annotated[tuple[Text, ...], Field(max_length=64)] | None = None
    """Exactly the models that are left for it, in any order: products, or what messages call them."""
    policy: Name | None = None
    """The policy that steers."""
    pool: Name | None = None
    """The AcceleratorPool that it is given."""
    codes: Codes = ()
    """Findings that are among its own."""
    not_codes: Codes = ()
    """Findings that are not."""
    message: _Regex | None = None
    """A regular expression of Python that the denial or, where it is admitted, one of its warnings contains."""
    not_message: _Regex | None = None
    """One that neither contains: what is not to be said."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError("give at least one thing to expect: a case without any cannot fail")
        return self

    @field_validator("not_codes")
    @classmethod
    def _not_both(cls, codes: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if both := [code for code in codes if code in info.data.get("codes", ())]:
            raise ValueError(f"{both[0]} is among codes as well")
        return codes


class UserPart(Part):
    """Who submits the jobs."""

    name: Text
    """As the API server knows them."""
    groups: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """The groups that they are in, for pools."""


class Case(Part):
    """Jobs that are submitted one by one to the same fleet, each to the same end."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """What is being tested, as a sentence."""
    jobs: Annotated[tuple[_File, ...], Field(min_length=1, max_length=256)]
    """Files with jobs, in any number. An AdmissionReview counts as it is."""
    operation: Literal["CREATE", "UPDATE"] = "CREATE"
    """CREATE, or UPDATE of `oldJobs`."""
    old_jobs: _Files = ()
    """For UPDATE: files with what the jobs were before, found by kind, namespace and name."""
    namespace: Name | None = None
    """The namespace of jobs that name none. Its labels are those of a Namespace in the fleet's files."""
    user: UserPart | None = None
    """Who submits them. Left out: someone in no group."""
    expect: ExpectPart

    @model_validator(mode="after")
    def _updated(self) -> Self:
        if bool(self.old_jobs) != (self.operation == "UPDATE"):
            raise ValueError("oldJobs: goes with operation: UPDATE, and only with it")
        return self


def _named_once(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    name, count = Counter(one.name for one in cases).most_common(1)[0]
    if count > 1:
        raise ValueError(f"name: {name!r} comes twice")
    return cases


class Spec(Part):
    """A fleet, policies, and cases."""

    fleet: Annotated[tuple[_File, ...], Field(min_length=1, max_length=256)]
    """Files with nodes and whatever else would be looked up in a cluster, from `kubectl get -o yaml` or a snapshot."""
    policies: Annotated[tuple[_File, ...], Field(min_length=1, max_length=256)] = (".",)
    """Files or folders with policies, pools, exceptions and accelerators. `.` is the folder of this file."""
    now: Time = "2027-01-01T00:00:00Z"
    """What time it is, for exceptions that end."""
    cases: Annotated[tuple[Case, ...], Field(min_length=1, max_length=1024), AfterValidator(_named_once)]
    """Each by itself: nothing is left over from the one before."""


class PolicyTest(Part):
    """What a fleet and policies are to make of jobs."""

    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["PolicyTest"]
    metadata: Metadata
    spec: Spec
