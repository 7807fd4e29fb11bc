"""What was expected of a job against what became of it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.cli.check import verdict
from webhook.cli.outcomes import Outcome
from webhook.model.fleet import Model
from webhook.policy.policy_test import ExpectPart

_NONE = "none"


@dataclass(frozen=True, slots=True)
class Difference:
    """One expectation that was not met. `found` may have several lines."""

    field: str
    expected: str
    found: str


def differences(expect: ExpectPart, found: Outcome) -> Iterator[Difference]:
    """The expectations that were not met, in the order in which they are written down."""
    decided = found.decided
    if expect.verdict is not None and expect.verdict is not found.verdict:
        yield Difference("verdict", expect.verdict, verdict(found.denying or decided))
    if expect.models is not None and not _are(found.models, expect.models):
        yield Difference("models", _listed(sorted(expect.models)), _listed(sorted(one.name for one in found.models)))
    if expect.policy is not None and expect.policy != decided.policy.name:
        yield Difference("policy", expect.policy, decided.policy.name or _NONE)
    if expect.pool is not None and expect.pool != decided.decision.pool_name:
        yield Difference("pool", expect.pool, decided.decision.pool_name or _NONE)
    if missing := [code for code in expect.codes if code not in found.codes]:
        yield Difference("codes", _listed(missing), _listed(found.codes))
    if there := [code for code in expect.not_codes if code in found.codes]:
        yield Difference("notCodes", f"no {_listed(there)}", _listed(found.codes))
    if expect.message is not None and not any(re.search(expect.message, text) for text in found.texts):
        yield Difference("message", expect.message, "\n".join(found.texts) or _NONE)


def _are(models: Sequence[Model], expected: Sequence[str]) -> bool:
    """Whether each name is one of these models, and each of these is named."""
    names = [{one.product, one.name} for one in models]
    return all(any(one in own for own in names) for one in expected) and all(own & set(expected) for own in names)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values) or _NONE
