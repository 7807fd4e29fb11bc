"""Where a limit leaves no node: what would have been near."""

import difflib
from collections.abc import Iterable, Sequence
from enum import StrEnum

from webhook.fleet.limits import ByName, ByProduct, ByQueue, ByRequirement, ByResource, BySelector, ByTaint, Limit
from webhook.fleet.room import offered_of
from webhook.model.fleet import Fleet, Nodes
from webhook.model.frozen import frozen
from webhook.model.placement import Operator

_MOST = 3
_LEAST = 0.5
"""How alike two spellings must be to be told, as difflib measures it (0 to 1)."""
_MEANT = 0.9
"""How alike, to ask whether it was meant: models of one family differ by a character or two."""


class Nearest(StrEnum):
    """LABELS: no node carries the label, and these are spelled like it. VALUES: no node has the value, and those that
    were left have these, the most alike first. ELSEWHERE: so many nodes meet it, none of them left. TAINTS: those that
    were left carry these. AMOUNT: the most that one of them offers."""

    LABELS = "labels"
    VALUES = "values"
    ELSEWHERE = "elsewhere"
    TAINTS = "taints"
    AMOUNT = "amount"


@frozen
class Near:
    nearest: Nearest
    values: tuple[str, ...]


def near(limit: Limit, nodes: Nodes, fleet: Fleet) -> Near | None:
    """What would have left some of these nodes, of which the limit leaves none; None where nothing helps."""
    if limit.nodes:
        return Near(Nearest.ELSEWHERE, (str(limit.nodes.bit_count()),))
    match limit:
        case BySelector(key=key, value=value):
            return _label(key, (value,), nodes, fleet)
        case ByRequirement(requirement=one, of_field=False) | ByQueue(requirement=one) if (
            one.operator is not Operator.DOES_NOT_EXIST
        ):
            return _label(one.key, one.values, nodes, fleet)
        case ByName(name=name):
            return Near(Nearest.VALUES, _like((name,), (node.name for node in fleet.nodes)))
        case ByTaint(key=key, effect=effect):
            values = sorted(value for value, bits in fleet.taints[key, effect].items() if bits & nodes)
            return Near(Nearest.TAINTS, tuple(f"{key}={value}".rstrip("=") + f":{effect}" for value in values[:_MOST]))
        case ByResource(resource=resource):
            offered = offered_of(fleet, resource, now=False)
            span = offered.span(nodes) if offered is not None else None
            return Near(Nearest.AMOUNT, (str(span[1] if span else 0),))
        case ByProduct(products=products):
            known = {model.product for column in fleet.devices.values() for model in column.models}
            return Near(Nearest.VALUES, _like(products, known))
        case _:
            return None


def value_meant(limit: BySelector, fleet: Fleet) -> str:
    """The value of this label on some node that is spelled most like the one selected; empty where none is."""
    index = fleet.labels.get(limit.key)
    there = (value for value, bits in index.items() if bits) if index is not None else ()
    return next(iter(_like((limit.value,), there, least=_MEANT)), "")


def _label(key: str, wanted: tuple[str, ...], nodes: Nodes, fleet: Fleet) -> Near:
    index = fleet.labels.get(key)
    if index is None or not index.present:
        return Near(Nearest.LABELS, _like((key,), fleet.labels, least=_LEAST))
    return Near(Nearest.VALUES, _like(wanted, (value for value, bits in index.items() if bits & nodes)))


def _like(wanted: Sequence[str], there: Iterable[str], least: float = 0) -> tuple[str, ...]:
    """A few of those that are there, the most alike first: one that holds what is wanted ("H100") before all others."""
    alike = {one: max((_alike(each, one) for each in wanted), default=0) for one in there}
    return tuple(sorted((one for one in alike if alike[one] >= least), key=lambda one: (-alike[one], one))[:_MOST])


def _alike(one: str, other: str) -> float:
    one, other = one.casefold(), other.casefold()
    return 1 if one and one in other else difflib.SequenceMatcher(None, one, other).ratio()
