"""From a review to the `response` of an AdmissionReview."""

import base64
from typing import Any

import orjson

from webhook.answer.message import message
from webhook.answer.operations import operations
from webhook.answer.warnings import told, warnings
from webhook.answer.wording import place, sentence
from webhook.catalog.codes import action_of
from webhook.model.finding import Action
from webhook.model.patch import Operation
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict


def admission_response(review: Review) -> dict[str, Any]:
    """The response object. A denial is always 403 Forbidden: with 422 kubectl prints the causes instead of the
    message."""
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": review.verdict is not Verdict.DENY}
    if review.verdict is Verdict.DENY:
        response["status"] = {
            "code": 403,
            "reason": "Forbidden",
            "message": message(review),
            "details": {"causes": _causes(review)},
        }
    written = patch(review)
    if written and review.request.stage is Stage.MUTATE:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(written)).decode("ascii")
    if lines := warnings(review):
        response["warnings"] = lines
    if review.job is not None:
        response["auditAnnotations"] = _audit(review)
    return response


def patch(review: Review) -> list[Operation]:
    """The operations of a pinned job; nothing for any other verdict."""
    if review.verdict is not Verdict.PIN or review.job is None or review.decision.pin is None:
        return []
    return operations(review.job, review.decision.pin, review.policy)


def _causes(review: Review) -> list[dict[str, str]]:
    """One for each finding that is the submitter's business, those that deny first: tools read them."""
    findings = [one for one in review.decision.findings if told(one) or action_of(one) is Action.DENY]
    findings.sort(key=lambda one: action_of(one) is not Action.DENY)
    return [{"reason": one.code, "field": place(one, review), "message": sentence(one, review)} for one in findings]


def _audit(review: Review) -> dict[str, str]:
    """The API server puts the webhook's name before each key."""
    annotations = {"verdict": str(review.verdict), "policy": review.policy.name}
    if review.would_be is not review.verdict:
        annotations["would-be"] = str(review.would_be)
    if review.decision.findings:
        annotations["codes"] = ",".join(dict.fromkeys(one.code for one in review.decision.findings))
    if review.decision.pin is not None:
        annotations["pin"] = f"{review.decision.pin.key}={','.join(review.decision.pin.values)}"
    return annotations
