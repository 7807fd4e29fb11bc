"""`Warning:` headers: what the submitter of an admitted job can act on."""

from webhook.answer.width import cut
from webhook.answer.wording import sentence
from webhook.catalog.codes import action_of
from webhook.model.finding import Action, Finding
from webhook.model.verdict import Review, Verdict

_MOST = 3
_COLUMNS = 120
_ORDER = ("SST301", "SST2", "SST401", "SST402", "SST4", "SST5", "SST1", "SST3", "SST6")
"""What comes first, by the beginning of the code. The others (the policy, our own troubles) are nothing that a
submitter can act on: they go to audit annotations and metrics, as do hosts and fabrics of which no policy warns."""


def warnings(review: Review) -> list[str]:
    """At most three lines of at most 120 columns, most useful first. The API server cuts at 256 characters."""
    if review.verdict is Verdict.DENY:
        return []
    telling = [one for one in review.decision.findings if action_of(one) is not Action.INFORM and told(one)]
    telling.sort(key=_place)
    return [cut(f"{one.code} {sentence(one, review)}", _COLUMNS) for one in telling[:_MOST]]


def told(finding: Finding) -> bool:
    """Whether it is a submitter's business."""
    return finding.code.startswith(_ORDER)


def _place(finding: Finding) -> int:
    return next(place for place, start in enumerate(_ORDER) if finding.code.startswith(start))
