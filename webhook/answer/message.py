"""The error that a submitter reads at `kubectl apply`.

kubectl prints it whole. The first line stands alone; then one line per model, what to do, and where to read on. It
stays below 1,000 characters where it can: controllers put it into an Event, and one through the newer Events API is
refused above 1,024.
"""

from collections.abc import Iterable, Iterator

from webhook.answer.texts import texts
from webhook.answer.wording import gib, one_line, sentence, slowed, wanted
from webhook.catalog.codes import action_of
from webhook.model.finding import Action, Finding
from webhook.model.verdict import Candidate, Out, Review, Suggestion, named

_TABLE = frozenset({"SST201", "SST401"})
_MIXED = frozenset({"SST302", "SST306"})
_MOST_MODELS = 6
_FIRST_LINE = 250


def message(review: Review) -> str:
    """The whole message of a denial, lines joined by newlines."""
    leading = leading_finding(review)
    pool = review.decision.pool_name
    end = texts()["end_pool" if pool else "end"].format(policy=review.policy.name, pool=pool, code=leading.code)
    lines = [_first(leading, review)]
    if leading.code in _TABLE:
        lines += ["", *(f"  {row}" for row in _table(review))]
    if leading.code == "SST201" and review.demand.assumptions:
        basis = texts()["basis"][review.demand.source]
        lines += ["", one_line(basis.format(assumptions="; ".join(review.demand.assumptions)))]
    if leading.code in _MIXED and review.decision.straggler is not None:
        lines += ["", slowed(review.decision.straggler)]
    if review.suggestions:
        lines += ["", texts()["suggestions"]["header"], *(f"  - {suggested(one)}" for one in review.suggestions)]
    return "\n".join([*lines, one_line(end)])


def _first(leading: Finding, review: Review) -> str:
    line = f"{leading.code} {sentence(leading, review)}."
    return line if len(line) <= _FIRST_LINE else f"{line[: _FIRST_LINE - 1]}…"


def leading_finding(review: Review) -> Finding:
    """The finding that a denial is told by: the first that denies (the decision puts its own first)."""
    return next(one for one in review.decision.findings if action_of(one) is Action.DENY)


def suggested(suggestion: Suggestion) -> str:
    """One way out, as a line."""
    words, models = texts()["suggestions"], named((suggestion.model, *suggestion.also))
    return one_line(words[suggestion.kind].format(model=models, **suggestion.facts))


def _table(review: Review) -> Iterator[str]:
    words = texts()["table"]
    ranked = sorted(review.decision.pool.candidates, key=lambda one: (one.usable_mib, one.name))
    shown = ranked[:_MOST_MODELS]
    rows = [[str(title) for title in words["header"]]]
    rows += [[one.name, gib(one.memory_mib), str(one.devices), str(one.nodes), why_not(one, review)] for one in shown]
    yield from _aligned(rows)
    if len(ranked) > len(shown):
        yield one_line(words["more"].format(count=len(ranked) - len(shown)))


def _aligned(rows: list[list[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield one_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def why_not(one: Candidate, review: Review) -> str:
    """Why a candidate cannot be chosen, for its row of a table; a dash where it can."""
    words = texts()["table"]
    job, demand = review.job, review.demand
    if job is None or not one.out:
        return str(words["none"])
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
    if one.devices < wanted(job):
        return fits + str(words["room_devices"].format(wanted=wanted(job), there=one.devices))
    role = next(role for role in job.device_roles if role.name == one.short_role)
    pods = sum(other.gang for other in job.device_roles if other.requests == role.requests)
    return fits + str(words["room_pods"].format(wanted=pods, each=role.devices, held=one.pods))
