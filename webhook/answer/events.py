"""What Events say: of a job that has been created, and of denials."""

from dataclasses import dataclass
from enum import StrEnum

import orjson

from webhook.answer.message import first_line
from webhook.answer.response import would_be_patch
from webhook.answer.texts import texts
from webhook.answer.width import cut_bytes
from webhook.answer.wording import one_line, sentence
from webhook.catalog.codes import action_of
from webhook.decision.pin import requires
from webhook.model.finding import Action
from webhook.model.job import PinRecord, TrainingJob
from webhook.model.policy import FleetShown, Language
from webhook.model.verdict import Review, Verdict

LONGEST = 1024
"""Bytes that the API server takes as the message of an Event (NoteLengthLimit in Kubernetes' events.go)."""


class Reason(StrEnum):
    """The reason of an Event on a job. One on a Namespace has the code of the finding that denies."""

    PINNED = "Pinned"
    WOULD_PIN = "WouldPin"
    WOULD_DENY = "WouldDeny"
    ADMITTED_WITH_RISK = "AdmittedWithRisk"


WARNINGS = frozenset({Reason.WOULD_DENY, Reason.ADMITTED_WITH_RISK})
"""The reasons whose Events are of type Warning; the others are Normal."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one Event says. It is of type Warning, or Normal."""

    reason: str
    warning: bool
    message: str


def created(review: Review) -> tuple[Told, ...]:
    """What there is to tell of a job that stands in the cluster, by a review at the stage Audit."""
    job = review.job
    if job is None or job.child_of is not None:
        return ()
    return tuple(told for told in (_pinned(job, review), _would_be(review)) if told is not None)


def denied(code: str, count: int, job: str, line: str, language: Language) -> Told:
    """What there is to tell of denials for one code in one namespace. One of these was of `job`, and began with
    `line`."""
    words = texts(language)["events"]
    return Told(code, warning=True, message=_message(words["denied"].format(count=count, job=job, told=line)))


def _pinned(job: TrainingJob, review: Review) -> Told | None:
    """What the record says that the object carries; None where there is none, or where it is not true: anyone can write
    it, and a copied manifest brings it along without what it tells of."""
    words = texts(review.language)
    hidden = review.policy.fleet_shown is FleetShown.NONE
    in_pool = job.given == review.decision.pool_name and review.decision.given is None
    pool = job.given if in_pool else ""
    record = job.record
    if record is not None and _holds(record, job):
        models = () if hidden else (model.name for model in review.decision.models)
        line = words["events"]["pinned"].format(
            models=", ".join(models) or ", ".join(record.values),
            key=record.key,
            in_pool=words["in_pool"].format(pool=pool) if pool and not hidden else "",
            policy=record.policy,
        )
    elif pool and not hidden:
        line = words["events"]["pool"].format(pool=pool, policy=review.policy.name)
    else:
        return None
    return _told(Reason.PINNED, line)


def _would_be(review: Review) -> Told | None:
    """What policies that audit, or warn, have let pass."""
    if review.verdict is not Verdict.ADMIT or review.would_be is Verdict.ADMIT:
        return None
    words = texts(review.language)["events"]
    by = {"policy": review.policy.name, "as_nobody": words["as_nobody"] if review.as_nobody else ""}
    leading = review.decision.findings[0]
    if review.would_be is Verdict.PIN:
        told = next((one for one in review.decision.findings if one.code == "SST301"), leading)
        patch = orjson.dumps(would_be_patch(review)).decode()
        line = words["would_pin"].format(**by, told=f"{told.code} {sentence(told, review)}", patch=patch)
        return _told(Reason.WOULD_PIN, line)
    warned = action_of(leading) is Action.WARN
    key, reason = ("admitted_with_risk", Reason.ADMITTED_WITH_RISK) if warned else ("would_deny", Reason.WOULD_DENY)
    line = words[key].format(**by, told=first_line(leading, review))
    return _told(reason, line)


def _holds(record: PinRecord, job: TrainingJob) -> bool:
    return bool(job.device_roles) and all(requires(role, record.key, record.values) for role in job.device_roles)


def _told(reason: Reason, line: str) -> Told:
    return Told(reason, warning=reason in WARNINGS, message=_message(line))


def _message(line: str) -> str:
    return cut_bytes(one_line(line), LONGEST)
