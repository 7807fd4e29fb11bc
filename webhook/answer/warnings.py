"""`Warning:` headers: what the submitter of an admitted job can act on."""

from webhook.answer.wording import sentence
from webhook.catalog.codes import action_of
from webhook.model.finding import Action
from webhook.model.verdict import Review, Verdict

_MOST = 3
_COLUMNS = 120
_ORDER = ("SST301", "SST202", "SST203", "SST401", "SST402", "SST5", "SST4", "SST1", "SST3", "SST6")


def warnings(review: Review) -> list[str]:
    """At most three lines of at most 120 columns, most useful first. The API server cuts at 256 characters."""
    if review.verdict is Verdict.DENY:
        return []
    telling = [one for one in review.decision.findings if action_of(one) is not Action.INFORM]
    telling.sort(key=lambda one: next((i for i, start in enumerate(_ORDER) if one.code.startswith(start)), -1))
    return [_cut(f"{one.code} {sentence(one, review)}") for one in telling[:_MOST]]


def _cut(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"
