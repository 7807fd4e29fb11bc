"""What becomes of a job in the end: both webhooks are asked, as the API server would."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jsonpatch

from webhook.answer.message import message
from webhook.answer.response import patch
from webhook.answer.warnings import warnings
from webhook.model.fleet import Model
from webhook.model.request import Request, Stage
from webhook.model.verdict import Review, Verdict
from webhook.model.world import World
from webhook.review import review


@dataclass(frozen=True, slots=True)
class Outcome:
    """The mutating webhook decides (`decided`), the validating one looks at what came of it (`checked`; None where
    there was nothing left to look at: the job was denied)."""

    decided: Review
    checked: Review | None = None

    @property
    def denying(self) -> Review | None:
        return next((one for one in self._both if one.verdict is Verdict.DENY), None)

    @property
    def verdict(self) -> Verdict:
        return Verdict.DENY if self.denying else self.decided.verdict

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that are left for it."""
        return () if self.denying else self.decided.decision.models

    @property
    def codes(self) -> tuple[str, ...]:
        """Those of all findings, once each."""
        return _once(finding.code for one in self._both for finding in one.decision.findings)

    @property
    def texts(self) -> tuple[str, ...]:
        """What people read: the message of the denial or, where the job is admitted, its warnings."""
        if denying := self.denying:
            return (message(denying),)
        return _once(line for one in self._both for line in warnings(one))

    @property
    def _both(self) -> tuple[Review, ...]:
        return (self.decided, self.checked) if self.checked else (self.decided,)


def outcome(request: Request, world: World) -> Outcome:
    """What becomes of the object of a request. Raises nothing that `review()` does not."""
    decided = review(replace(request, stage=Stage.MUTATE), world)
    if decided.verdict is Verdict.DENY:
        return Outcome(decided)
    operations = patch(decided)
    admitted = jsonpatch.apply_patch(plain(request.object), operations) if operations else request.object
    return Outcome(decided, review(replace(request, object=admitted, stage=Stage.VALIDATE), world))


def plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same as JSON has it."""
    return json.loads(json.dumps(value))


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
