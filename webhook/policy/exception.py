"""`TrainingPolicyException`: jobs that a policy is not to hold to some of its codes, for a time."""

from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from webhook.model.rules import PolicyException
from webhook.policy.parts import Codes, Kinds, Metadata, Name, Part, Status, Time, epoch

_JobName = Annotated[str, Field(min_length=1, max_length=253)]


class MatchPart(Part):
    """Which jobs of the namespace. All that is given must hold."""

    kinds: Kinds = ()
    """Kinds of job, each as `Kind.group`. Empty: every kind."""
    names: Annotated[tuple[_JobName, ...], Field(max_length=64)] = ()
    """Names of jobs, as shell patterns (`*`, `?`, `[…]`). Empty: every name."""


class Spec(Part):
    """Which jobs, and until when."""

    policies: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)]
    """Names of policies. Each must have `exceptions: Allowed`, else the exception does not count for it."""
    match: MatchPart = MatchPart()
    codes: Codes = ()
    """Findings that never deny these jobs; SST302 among them: they are not pinned either. Empty: the policies are not
    for these jobs at all."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern="[^ \t\r\n]")]
    """Why, for whoever reads it next."""
    until: Time
    """When it ends, as in "2027-01-31T00:00:00Z"."""


class _Metadata(Metadata):
    namespace: Name


class TrainingPolicyException(Part):
    """Jobs of one namespace that policies are not to hold to some of their codes, until a day."""

    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["TrainingPolicyException"]
    metadata: _Metadata
    spec: Spec
    status: SkipValidation[Status | None] = None

    def resolved(self) -> PolicyException:
        """The same as plain settings."""
        spec = self.spec
        return PolicyException(
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            policies=spec.policies,
            until=epoch(spec.until),
            reason=spec.reason,
            kinds=spec.match.kinds,
            names=spec.match.names,
            codes=spec.codes,
        )
