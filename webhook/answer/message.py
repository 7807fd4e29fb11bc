"""The error that a submitter reads at `kubectl apply`.

kubectl prints it whole. The first line stands alone; then one line per model, what to do, and where to read on. It
stays below 1,000 bytes where it can: controllers put it into an Event, and the API server refuses one whose text has
over 1,024 (events.go in Kubernetes counts bytes, three for a Korean syllable, though its error says characters).
"""

from collections.abc import Iterable, Iterator

from webhook.answer.evidence import profiles_used
from webhook.answer.texts import texts
from webhook.answer.width import columns, padded
from webhook.answer.wording import assumptions, gib, one_line, phrase, sentence, slowed, told_pool
from webhook.catalog.codes import action_of
from webhook.decision.findings import run_of
from webhook.model.finding import Action, Finding
from webhook.model.policy import FleetShown
from webhook.model.verdict import Candidate, Out, Review, Suggestion, named

_TABLE = frozenset({"SST201", "SST205", "SST401"})
_MIXED = frozenset({"SST302", "SST306"})
_FIRST_LINE = 250
_BYTES = 1000
_MODELS = (6, 4, 2)
"""How many models the table names: fewer where the whole would be too long."""


def message(review: Review) -> str:
    """The whole message of a denial, lines joined by newlines."""
    leading = leading_finding(review)
    aside = _aside(leading, review)
    whole = ""
    # What a long message does without, the least useful first.
    for models, told in [*((models, aside) for models in _MODELS), (_MODELS[-1], "")]:
        whole = "\n".join(_lines(leading, review, models, told))
        if len(whole.encode("utf-8", "replace")) < _BYTES:
            break
    return whole


def _lines(leading: Finding, review: Review, models: int, aside: str) -> Iterator[str]:
    words = texts(review.language)
    yield first_line(leading, review)
    if leading.code in _TABLE and review.policy.fleet_shown is not FleetShown.NONE:
        yield ""
        yield from (f"  {row}" for row in _table(review, models))
    if aside:
        yield ""
        yield aside
    slowing = review.decision.straggler
    if slowing is not None and leading.code in _MIXED and review.policy.fleet_shown is not FleetShown.NONE:
        yield ""
        yield slowed(slowing, review.language)
    if ways := [line for one in review.suggestions if (line := suggested(one, review))]:
        yield ""
        yield words["suggestions"]["header"]
        yield from (f"  - {line}" for line in ways)
    pool = told_pool(review)
    yield one_line(words["end_pool" if pool else "end"].format(policy=review.policy.name, pool=pool, code=leading.code))


def _aside(leading: Finding, review: Review) -> str:
    """What the figures rest on, or why one model is asked for where others are there; empty for nothing of it."""
    words = texts(review.language)
    if leading.code == "SST201" and review.demand.assumptions:
        return one_line(words["basis"][review.demand.source].format(assumptions=assumptions(review)))
    if leading.code == "SST205":
        return one_line(words["runs"].format(profiles=", ".join(profiles_used(review))))
    shown = review.policy.fleet_shown is not FleetShown.NONE
    if leading.code == "SST401" and not leading.variant and shown and len(review.decision.pool.candidates) > 1:
        return str(words["why"]["one_model"])
    return ""


def first_line(leading: Finding, review: Review) -> str:
    """What a denial for this finding begins with: it stands alone."""
    line = f"{leading.code} {sentence(leading, review)}."
    return line if len(line) <= _FIRST_LINE else f"{line[: _FIRST_LINE - 1]}…"


def leading_finding(review: Review) -> Finding:
    """The finding that a denial is told by: the first that denies (the decision puts its own first)."""
    return next(one for one in review.decision.findings if action_of(one) is Action.DENY)


def suggested(suggestion: Suggestion, review: Review) -> str:
    """One way out, as a line; empty where it would name a model that the policy does not show."""
    words, models = texts(review.language)["suggestions"], (suggestion.model, *suggestion.also)
    hidden = review.policy.fleet_shown is FleetShown.NONE
    where = "" if hidden else words["where"].format(model=named(models))
    line = one_line(words[suggestion.kind].format(where=where, **suggestion.facts))
    tells = any(name in line for model in models for name in (model.product, model.name))
    return "" if hidden and tells else line


def _table(review: Review, models: int) -> Iterator[str]:
    words = texts(review.language)["table"]
    pool = review.decision.pool
    ranked = sorted(pool.candidates, key=lambda one: (one.usable_mib, one.name))
    shown = ranked[:models]
    rows = [[str(title) for title in words["header"]]]
    rows += [[one.name, gib(one.memory_mib), str(one.devices), str(one.nodes), why_not(one, review)] for one in shown]
    yield from _aligned(rows)
    if len(ranked) > len(shown):
        yield one_line(words["more"].format(count=len(ranked) - len(shown)))
    beside = {"unknown": pool.unknown_nodes, "two_models": pool.two_model_nodes, "shares": pool.share_nodes}
    if review.policy.fleet_shown is FleetShown.FULL and any(beside.values()):
        yield one_line(words["beside"].format(**beside))


def _aligned(rows: list[list[str]]) -> Iterable[str]:
    widths = [max(columns(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield one_line("  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)))


def why_not(one: Candidate, review: Review) -> str:
    """Why a candidate cannot be chosen, for its row of a table; a dash where it can."""
    words = texts(review.language)["table"]
    job, demand = review.job, review.demand
    if job is None or not one.out:
        return str(words["none"])
    if one.ran_out is not None:
        return one_line(words["ran_out"].format(ran=phrase(run_of(one.ran_out), review.language)))
    if one.memory_out and demand.low_mib is not None:
        key = "memory" if demand.low_mib == demand.high_mib else "memory_interval"
        if one == review.decision.pool.smallest:
            key += "_smallest"
        return str(words[key].format(need=gib(demand.low_mib), usable=gib(one.usable_mib, unit=False)))
    fits = words["fits"] if demand.known else ""
    if Out.UNREACHABLE in one.out:
        return fits + str(words["unreachable"].format(role=one.short_role))
    if Out.UNWISHED in one.out:
        return fits + str(words["unwished"])
    if Out.QUOTA in one.out:
        role = next(role for role in job.device_roles if role.name == one.short_role)
        return fits + str(words["quota"].format(wanted=job.wanted, held=one.pods * role.devices))
    if one.devices < job.wanted:
        return fits + str(words["room_devices"].format(wanted=job.wanted, there=one.devices))
    role = next(role for role in job.device_roles if role.name == one.short_role)
    pods = sum(other.gang for other in job.device_roles if other.requests == role.requests)
    return fits + str(words["room_pods"].format(wanted=pods, each=role.devices, held=one.pods))
