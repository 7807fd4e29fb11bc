"""From a review to the `response` of an AdmissionReview."""

import base64
from typing import Any

import orjson

from webhook.answer.evidence import evidence
from webhook.answer.message import message
from webhook.answer.operations import ending_with_log, operations
from webhook.answer.warnings import told, warnings
from webhook.answer.wording import one_line, place, sentence
from webhook.catalog.codes import action_of
from webhook.model.finding import Action
from webhook.model.patch import Operation
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict

_LONGEST = 4096
"""Characters of one audit annotation."""


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
    if review.job is not None or review.decision.findings or review.exceptions:
        response["auditAnnotations"] = _audit(review)
    return response


def patch(review: Review) -> list[Operation]:
    """The operations of a pinned job, and those by which its containers end with their log, where policy wants that of
    what is admitted."""
    pinned = would_be_patch(review) if review.verdict is Verdict.PIN else []
    return [*pinned, *ending_with_log(review.to_log)] if review.verdict is not Verdict.DENY else []


def would_be_patch(review: Review) -> list[Operation]:
    """The operations that the object gets, or would get if every matching policy denied."""
    decision = review.decision
    if review.job is None or (decision.pin is None and decision.given is None):
        return []
    return operations(review.job, decision.pin, review.policy, given=decision.given, pool=decision.pool_name)


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
    if review.because:
        annotations["outside"] = one_line(review.because)
    if review.decision.findings:
        annotations["codes"] = ",".join(dict.fromkeys(one.code for one in review.decision.findings))
    if review.decision.pin is not None:
        annotations["pin"] = f"{review.decision.pin.key}={','.join(review.decision.pin.values)}"
    if told := evidence(review):
        annotations["runs"] = _bounded(one_line(told))
    if review.decision.pool_name:
        annotations["pool"] = review.decision.pool_name
    if review.would_be is Verdict.PIN and review.verdict is not Verdict.PIN:
        annotations["would-be-patch"] = _bounded(orjson.dumps(would_be_patch(review)).decode())
    if review.exceptions:
        used = (f"{one.policy}: {one.exception}" + (f" ({one.code})" if one.code else "") for one in review.exceptions)
        annotations["exceptions"] = _bounded("; ".join(used))
    rules = [one_line(sentence(one, review)) for one in review.decision.findings if one.code.startswith("SST7")]
    if rules:
        annotations["rules"] = _bounded("; ".join(rules))
    return annotations


def _bounded(text: str) -> str:
    """Audit logs hold these for every request; whoever reads a patch that was cut sees that it was."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
