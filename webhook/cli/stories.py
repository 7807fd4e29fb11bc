"""The story of a decision, as text for a person and as the document that programs read."""

from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich.table import Table

from webhook.answer.document import document
from webhook.answer.evidence import evidence
from webhook.answer.message import why_not
from webhook.answer.wording import gib, need, phrase
from webhook.cli.check import consequences, verdict
from webhook.cli.printing import cut, put, table, wrapped
from webhook.decision.landing import Landing, Step
from webhook.decision.nearest import Near, Nearest
from webhook.decision.notes import Criterion, Key, Pools, Refused, Rule, Tried, Unpinned
from webhook.decision.scope import Treatment
from webhook.decision.story import Gate, Story
from webhook.fleet.limits import (
    ByFlavors,
    ByName,
    ByProduct,
    ByQueue,
    ByRequirement,
    ByResource,
    BySelector,
    ByTaint,
    ByTerms,
    Limit,
)
from webhook.model.demand import Demand
from webhook.model.paths import dotted
from webhook.model.placement import Pointer, Requirement
from webhook.model.quantity import told_amount
from webhook.model.verdict import Candidate, Out, Review

_RULES = {
    Rule.NOT_OURS: "An update of an object that is out of scope: admitted.",
    Rule.CHILD: "Made by what was decided already: judged for itself alone, never pinned, never denied.",
    Rule.NOT_STARTED: "An update of a job that has not started: decided anew. Its pin stays while it passes.",
    Rule.WITHOUT_OUR_PIN: "Decided as if our own pin were not in it: it is no wish of the submitter's.",
    Rule.OUR_PIN_STAYS: "Our own pin cannot be taken out here: decided again with it, as if it were the submitter's.",
    Rule.STARTED: "An update of a job that runs: denied only for what this update makes worse, and never pinned.",
    Rule.PUT_BACK: "The update dropped the pin: it is put back.",
    Rule.UNCHANGED: "An update that changes nothing of devices, batch, selectors or affinity: admitted.",
    Rule.NOT_WRITABLE: "The kind's own webhook would refuse this pin in an update: admitted without it.",
}
_TREATMENTS = {
    Treatment.NONE: "Out of scope: there is nothing to decide.",
    Treatment.MEMORY_ONLY: "Its pods do not wait for one another: memory alone is looked at.",
    Treatment.NOT_OUT: "It runs on one node: it is kept off the models without the memory, and not narrowed further.",
    Treatment.ONE_MODEL: "Its ranks wait for one another: all of them on one model.",
}
_GATES = {
    Out.MEMORY: "has the memory",
    Out.RAN_OUT: "no earlier run ran out of memory there",
    Out.UNREACHABLE: "every role can land on it",
    Out.UNWISHED: "is what was asked for",
    Out.QUOTA: "its queue may hold the whole gang there",
    Out.ROOM: "holds the whole gang",
}
_CRITERIA = {
    Criterion.QUEUE: "its queue can be kept to it",
    Criterion.ROOM: "has room for the gang",
    Criterion.LIKELY: "fits by the likely figure",
    Criterion.LARGEST_UNLIKELY: "the largest, where none fits by the likely figure",
    Criterion.HIGH: "fits at the high end, with headroom",
    Criterion.NOW: "the whole gang is free now",
    Criterion.RAN_WELL: "earlier runs ended well there",
    Criterion.MOST_FREE: "most devices free now (there, where that is not known)",
    Criterion.BEST_FIT: "least memory that fits (BestFit)",
    Criterion.LARGEST: "most memory (Largest)",
    Criterion.ORDERED: "first in the policy's order (Ordered)",
    Criterion.SAFEST: "demand unknown: most memory, where the gang is free now; else most devices",
    Criterion.MOST_DEVICES: "most devices there (pods of a group: nothing that a moment changes)",
    Criterion.RECORDED: "pinned to before",
    Criterion.NAME: "first by name",
}
_UNPINNED = {
    Unpinned.NEVER: "No pin: the policy says so (pin.when: Never).",
    Unpinned.ALONE: "No pin: its pods can land on no other model.",
    Unpinned.QUEUE: "No pin: its queue gives all its pods one flavor, and each that is left is of one model.",
    Unpinned.MIXED: "No pin: it may run on several models on purpose (samestep.dev/allow-mixed).",
}
_REFUSED = {
    Refused.SELECTORS: "the job's own selectors keep it out",
    Refused.FIELDS: "what it gives cannot be written into this object",
    Refused.NODES: "no node there can hold its pods",
    Refused.CANDIDATES: "no model there can be chosen",
}
_TRIED = {
    Tried.SEPARATES: "every chosen node carries it, and no other",
    Tried.PARTLY: "on {nodes} of {chosen} chosen nodes alone, which hold the gang",
    Tried.NO_ROOM: "on {nodes} of {chosen} chosen nodes alone, which do not hold the gang",
    Tried.SHARED: "other nodes carry the same values",
    Tried.ABSENT: "no chosen node carries it",
    Tried.NOT_WRITABLE: "cannot be written into this object",
    Tried.NOT_ASKED: "not looked at",
    Tried.MISLEADS: "no value of it keeps the queue to flavors of the chosen that hold the gang",
    Tried.BESIDE: "keeps the queue to flavors with the chosen: taken beside",
}


def show_story(review: Review, story: Story | None, indent: int) -> None:
    """Print all of it, ending with the verdict."""
    if story is not None:
        for told in _told(story):
            if isinstance(told, str):
                click.echo("\n".join(wrapped(told, indent)))
            else:
                put(told, indent)
        click.echo()
    put(f"Verdict: {verdict(review)}", indent)
    for line in consequences(review):
        click.echo(f"{' ' * indent}{line}".rstrip())


def _told(story: Story) -> Iterator[str | Table]:
    """Lines and tables; an empty line is one between two parts."""
    review = story.review
    yield ""
    yield _TREATMENTS[story.treatment]
    yield from (_RULES[rule] for rule in story.rules)
    yield from _pools(story.pools)
    for landing in story.landings:
        yield ""
        yield f"Where pods of {', '.join(role.name for role in landing.roles)} may land:"
        yield _steps(landing)
        yield from _missed(landing.steps)
        yield f"of these: {_held(landing)}"
    if story.treatment is not Treatment.NONE and story.landings:
        yield ""
        yield f"Demand: {need(review.demand) or 'not known'}"
        if story.parts:
            yield _parts(story)
        yield from (f"- {phrase(one)}" for one in review.demand.assumptions)
    if runs := evidence(review):
        yield ""
        yield f"Earlier runs, {runs}"
    if review.decision.pool.candidates:
        yield ""
        yield f"Candidates (usable is memory less the policy's reserve of {review.policy.reserve_mib:g} MiB):"
        yield _candidates(review)
        yield ""
        yield _gates(story.gates)
    yield from _choice(story)
    if story.unpinned is not None:
        yield _UNPINNED[story.unpinned]
    if story.keys is not None:
        yield ""
        chosen = ", ".join(model.name for model in review.decision.models)
        yield f"Label keys that might leave {chosen or 'the chosen'} and nothing else:"
        yield _keys(story.keys.keys, story.keys.nodes, story.keys.pin.key if story.keys.pin else "")


def _pools(pools: Pools | None) -> Iterator[str | Table]:
    if pools is None:
        return
    yield ""
    if pools.tried:
        yield "AcceleratorPools that it may be given, until one has a candidate:"
        rows = table(("POOL", "WHAT OF IT"))
        for one in pools.tried:
            told = _REFUSED[one.refused] if one.refused else "has a candidate"
            rows.add_row(cut(one.pool), f"{told}: taken" if one.pool == pools.taken else told)
        yield rows
    if pools.taken:
        yield f"Decided in pool {pools.taken}: what the job gets with it counts as if it stood in the job."
    else:
        yield "In no AcceleratorPool."


def _steps(landing: Landing) -> Table:
    rows = table(("STEP", "NODES", "LEFT OUT", "AT"))
    rows.add_row("all nodes with accelerators", str(landing.every), "", "")
    device, *others = landing.steps
    _row(rows, f"offers {landing.roles[0].device}", device)
    enough: list[str] = []
    for step in others:
        if not step.before:
            return rows
        if step.left == step.before and isinstance(step.limit, ByResource):
            enough.append(_limit(step.limit).removeprefix("requests "))
        elif step.left < step.before or not isinstance(step.limit, ByTaint):
            _row(rows, _limit(step.limit), step, _at(step))
            for number, term in enumerate(step.terms, 1):
                which = f"term {number}: " if len(step.terms) > 1 else ""
                for one in term:
                    _row(rows, f"  {which}{_limit(one.limit)}", one)
    if enough and landing.nodes:
        rows.add_row(cut(f"requests {', '.join(enough)}"), str(landing.nodes), "", "")
    return rows


def _at(step: Step) -> str:
    """What of the pod spec says it; an affinity's whole path would only push the figures aside."""
    return "affinity.nodeAffinity" if isinstance(step.limit, ByTerms) else dotted(step.at)


def _row(rows: Table, told: str, step: Step, at: str = "") -> None:
    indent = " " * (len(told) - len(told.lstrip()))
    rows.add_row(indent + cut(told), str(step.left), str(step.before - step.left or ""), cut(at))


def _limit(limit: Limit) -> str:
    match limit:
        case BySelector():
            return f"nodeSelector {limit.key}={limit.value}"
        case ByTerms():
            return "required node affinity" if len(limit.terms) == 1 else f"one of {len(limit.terms)} affinity terms"
        case ByRequirement():
            return requirement(limit.requirement)
        case ByQueue():
            return f"its queue: {requirement(limit.requirement)}"
        case ByFlavors():
            return f"flavors that its queue may give it: {', '.join(limit.names) or 'none'}"
        case ByName():
            return f"nodeName {limit.name}"
        case ByTaint():
            return f"taint {limit.key}:{limit.effect} is not tolerated"
        case ByResource(resource="pods"):
            return "requests a pod"
        case ByResource():
            return f"requests {told_amount(limit.resource, limit.amount)}"
        case ByProduct():
            return f"claims name {', '.join(limit.products)}"


def requirement(one: Requirement) -> str:
    """As people write it: `zone In a, b`."""
    return f"{one.key} {one.operator} {', '.join(one.values)}".strip()


def _missed(steps: Iterable[Step]) -> Iterator[str]:
    """Where a step leaves none, what would have been near. Of an affinity, what leaves each term none."""
    for step in steps:
        if step.near is not None and not step.terms:
            yield f"{_limit(step.limit)}: {_near(step.near, step.limit)}"
        if step.before and not step.left:
            for term in step.terms:
                yield from _missed(term)


def _near(one: Near, limit: Limit) -> str:
    named = ", ".join(one.values)
    match one.nearest:
        case Nearest.LABELS:
            return f"no node carries this label; alike: {named}" if named else "no node carries this label"
        case Nearest.VALUES:
            return f"no node has it; there are: {named}" if named else "no node that was left carries the label"
        case Nearest.ELSEWHERE:
            return f"nodes that meet it: {named}, none of them among those that were left"
        case Nearest.TAINTS:
            return f"all that were left carry {named}"
        case Nearest.AMOUNT:
            resource = limit.resource if isinstance(limit, ByResource) else ""
            return f"the most that one node offers is {told_amount(resource, int(one.values[0]))}"


def _held(landing: Landing) -> str:
    parts = [f"{model.name} {nodes}" for model, nodes in landing.models.items()]
    others = (("unknown", landing.unknown), ("of two models", landing.two_models), ("only shares", landing.shares))
    parts += [f"{name} {nodes}" for name, nodes in others if nodes]
    return ", ".join(parts) or "none"


def _parts(story: Story) -> Table:
    demand = story.review.demand
    rows = table(("PART", "LOW", "LIKELY", "HIGH"))
    for part in story.parts:
        rows.add_row(part.name, *map(gib, (part.low_mib, part.likely_mib, part.high_mib)))
    rows.add_row("in all", *(gib(one) if one is not None else "" for one in _ends(demand)))
    return rows


def _ends(demand: Demand) -> tuple[float | None, float | None, float | None]:
    return demand.low_mib, demand.likely_mib, demand.high_mib


def _candidates(review: Review) -> Table:
    rows = table(("MODEL", "MEMORY", "USABLE", "NODES", "THERE", "NOW", "WHY NOT"))
    for one in review.decision.pool.candidates:
        now = "?" if one.devices_now is None else str(one.devices_now)
        figures = (str(one.nodes), str(one.devices), now)
        rows.add_row(one.model.name, gib(one.memory_mib), gib(one.usable_mib), *figures, cut(why_not(one, review)))
    return rows


def _gates(gates: Iterable[Gate]) -> Table:
    rows = table(("GATE", "OUT", "LEFT"))
    for gate in gates:
        rows.add_row(_GATES[gate.reason], _names(gate.out) or "none", _names(gate.left) or "none")
    return rows


def _names(among: Iterable[Candidate]) -> str:
    return ", ".join(one.model.name for one in among)


def _choice(story: Story) -> Iterator[str | Table]:
    if story.kept is not None:
        yield ""
        yield f"Choice: {story.kept.candidate.model.name}, which an earlier pin names."
    if story.chosen is None:
        return
    yield ""
    narrowed = story.chosen.narrowed
    if not narrowed:
        yield f"Choice: {_names(story.chosen.among)}, there is no other."
        return
    yield f"Choice among {_names(story.chosen.among)}:"
    rows = table(("CRITERION", "BEST BY IT"))
    before = story.chosen.among
    for criterion, left in narrowed:
        alike = len(left) == len(before)
        if not alike or criterion is not Criterion.LARGEST_UNLIKELY:
            rows.add_row(_CRITERIA[criterion], "all alike" if alike else _names(left))
        before = left
    yield rows


def _keys(keys: Iterable[Key], chosen: int, taken: str) -> Table:
    rows = table(("KEY", "VALUES", "WHAT OF IT"))
    asked = (one for one in keys if one.tried is not Tried.NOT_ASKED or one.key == taken)
    for one in asked:
        told = _TRIED[one.tried].format(nodes=one.nodes, chosen=chosen)
        if one.key == taken:
            told += ": required already" if one.pin and not one.pin.roles else ": taken"
        rows.add_row(cut(one.key), cut(", ".join(one.values)), told)
    return rows


def story_document(review: Review, story: Story | None, source: str) -> dict[str, Any]:
    """The decision of one object. Every key is always there; keys are only ever added."""
    chosen = story.chosen if story else None
    keys = story.keys if story else None
    return {
        "treatment": story.treatment if story else None,
        "rules": list(story.rules) if story else [],
        "landings": [_landing(one) for one in story.landings] if story else [],
        "demandParts": [
            {
                "part": one.name,
                "lowMib": round(one.low_mib),
                "likelyMib": round(one.likely_mib),
                "highMib": round(one.high_mib),
            }
            for one in (story.parts if story else ())
        ],
        "reserveMib": round(review.policy.reserve_mib),
        "gates": [
            {"gate": one.reason, "out": _products(one.out), "left": _products(one.left)}
            for one in (story.gates if story else ())
        ],
        "kept": story.kept.candidate.model.product if story and story.kept else None,
        "choice": {
            "among": _products(chosen.among),
            "criteria": [{"criterion": one.criterion, "left": _products(one.left)} for one in chosen.narrowed],
            "chosen": _products(chosen.narrowed[-1].left if chosen.narrowed else chosen.among)[0],
        }
        if chosen
        else None,
        "keys": [
            {
                "key": one.key,
                "values": list(one.values),
                "nodes": one.nodes,
                "of": keys.nodes,
                "tried": one.tried,
                "taken": keys.pin is not None and keys.pin.key == one.key,
            }
            for one in keys.keys
        ]
        if keys
        else [],
        "unpinned": story.unpinned if story else None,
        "acceleratorPools": [
            {"pool": one.pool, "refused": one.refused, "taken": one.pool == story.pools.taken}
            for one in story.pools.tried
        ]
        if story and story.pools
        else [],
        "review": document(review, source),
    }


def _landing(landing: Landing) -> dict[str, Any]:
    return {
        "roles": [role.name for role in landing.roles],
        "every": landing.every,
        "steps": [_step(one, landing.roles[0].spec) for one in landing.steps],
        "nodes": landing.nodes,
        "models": {model.product: nodes for model, nodes in landing.models.items()},
        "unknownNodes": landing.unknown,
        "twoModelNodes": landing.two_models,
        "shareNodes": landing.shares,
    }


def _step(step: Step, spec: Pointer) -> dict[str, Any]:
    by, what = _what(step.limit)
    return {
        "by": by,
        "what": what,
        "field": dotted((*spec, *step.at)) if step.at else None,
        "before": step.before,
        "left": step.left,
        "terms": [[_step(one, spec) for one in term] for term in step.terms],
        "near": {"nearest": step.near.nearest, "values": list(step.near.values)} if step.near else None,
    }


def _what(limit: Limit) -> tuple[str, dict[str, Any]]:
    match limit:
        case BySelector():
            return "nodeSelector", {"key": limit.key, "value": limit.value}
        case ByTerms():
            return "affinity", {"terms": len(limit.terms)}
        case ByRequirement():
            return "matchFields" if limit.of_field else "matchExpressions", _required(limit.requirement)
        case ByQueue():
            return "queue", _required(limit.requirement)
        case ByFlavors():
            return "flavors", {"flavors": list(limit.names)}
        case ByName():
            return "nodeName", {"name": limit.name}
        case ByTaint():
            return "taint", {"key": limit.key, "effect": limit.effect}
        case ByResource():
            return "resource", {"resource": limit.resource, "amount": limit.amount}
        case ByProduct():
            return "claims", {"products": list(limit.products)}


def _required(one: Requirement) -> dict[str, Any]:
    return {"key": one.key, "operator": one.operator, "values": list(one.values)}


def _products(among: Iterable[Candidate]) -> list[str]:
    return [one.model.product for one in among]
