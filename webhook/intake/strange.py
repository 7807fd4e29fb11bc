"""Kinds that the catalog does not know: whether they ask for accelerators all the same."""

from collections.abc import Mapping

from webhook.intake.resources import is_device
from webhook.model.finding import Finding
from webhook.model.paths import dotted
from webhook.model.quantity import QuantityError, units
from webhook.model.request import Kind, Object

# Deeper than any pod template known (AppWrapper > JobSet > Job > pod: 13), and more than any object of a person holds.
_DEEPEST = 24
_MOST = 20_000


def strange_accelerators(source: Object, kind: Kind) -> tuple[Finding, ...]:
    """SST102 for the first container that asks for an accelerator, anywhere in the object; looks at so many values and
    no more, and down to so many levels."""
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(source, ())]
    for _ in range(_MOST):
        if not waiting:
            break
        value, at = waiting.pop()
        if isinstance(value, Mapping):
            containers = value.get("containers")
            if isinstance(containers, list):
                for index, container in enumerate(containers[:_MOST]):
                    if resource := _device(container):
                        where = dotted((*at, "containers", index))
                        return (Finding("SST102", where, {"kind": str(kind), "resource": resource}),)
            children = [(child, (*at, str(key))) for key, child in value.items()]
        elif isinstance(value, list):
            children = [(child, (*at, index)) for index, child in enumerate(value[:_MOST])]
        else:
            continue
        if len(at) < _DEEPEST:
            waiting.extend(child for child in children if isinstance(child[0], Mapping | list))
    return ()


def _device(container: object) -> str:
    resources = container.get("resources") if isinstance(container, Mapping) else None
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, Mapping) else None
        for name, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            if is_device(name) and _asked(amount):
                return str(name)
    return ""


def _asked(amount: object) -> bool:
    try:
        return units(amount) > 0
    except QuantityError:
        return False
