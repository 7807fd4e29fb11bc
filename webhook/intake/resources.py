"""What one pod asks for, by Kubernetes' own rule, and the devices among it."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from webhook.catalog.accelerators import accelerators
from webhook.intake.claims import Claims, ClaimTemplates
from webhook.intake.fields import EMPTY, Unreadable, mapping, objects, text
from webhook.model.finding import Finding, Phrase
from webhook.model.placement import Pointer
from webhook.model.quantity import QuantityError, milli, units
from webhook.model.request import Object

_POD_LEVEL = re.compile(r"(?:cpu|memory|hugepages-.*)\Z", re.DOTALL)


class Resources(NamedTuple):
    """`requests` of one pod: CPU in thousandths under "cpu", everything else in whole units, nothing that is zero.
    `device` is the first accelerator resource among them, or device class of its claims, or empty. `containers` holds
    those with devices, by index. `products` are those that its claims name, none where any will do; `unread` tells what
    claims ask for that is not in view."""

    requests: Mapping[str, int]
    device: str
    containers: Sequence[int]
    products: tuple[str, ...] = ()
    unread: tuple[Finding, ...] = ()


def read_resources(spec: Object, at: Pointer, templates: ClaimTemplates | None = None) -> Resources:
    """The effective request of a pod, as k8s.io/component-helpers has it (resource.PodRequests): the larger of what its
    containers and sidecars ask for together and what any init container asks for beside the sidecars started before it;
    pod-level resources where set (KEP-2837); overhead. A limit without a request counts as one. What claims ask for is
    counted by their `templates`, and not at all without. Raises Unreadable."""
    total: dict[str, int] = {}
    device = ""
    containers: list[int] = []
    for index, container in enumerate(objects(spec, "containers", at)):
        asked = _asked(container, (*at, "containers", index))
        own_device = _device(asked)
        if own_device:
            device = device or own_device
            containers.append(index)
        _add(total, asked)
    if inits := objects(spec, "initContainers", at):
        total = _with_init_containers(total, inits, at)
    if spec.get("resources") is not None:
        _override(total, mapping(spec, "resources", at), (*at, "resources"))
    if overhead := mapping(spec, "overhead", at):
        _add(total, {name: _amount(name, value, at, "overhead") for name, value in overhead.items()})
    if templates is not None and spec.get("resourceClaims") is not None:
        return _with_claims(spec, at, templates.read(spec, at), Resources(total, device or _device(total), containers))
    requests = {name: amount for name, amount in total.items() if amount}
    return Resources(requests, device or _device(requests), containers)


def _with_claims(spec: Object, at: Pointer, claims: Claims, asked: Resources) -> Resources:
    """What is asked for by resource name and, once for the whole pod, through claims."""
    total = dict(asked.requests)
    _add(total, claims.devices)
    containers = [
        index
        for index, container in enumerate(objects(spec, "containers", at))
        if index in asked.containers or not claims.claims.isdisjoint(_claimed(container, (*at, "containers", index)))
    ]
    requests = {name: amount for name, amount in total.items() if amount}
    device = asked.device or next(iter(claims.devices), "")
    return Resources(requests, device, containers, claims.products, claims.unread)


def _claimed(container: Object, at: Pointer) -> set[str]:
    resources, at = mapping(container, "resources", at), (*at, "resources")
    return {text(one, "name", (*at, "claims", index)) for index, one in enumerate(objects(resources, "claims", at))}


def is_device(resource: object) -> bool:
    """Whether a resource name is an accelerator's; names without a slash are Kubernetes' own."""
    return isinstance(resource, str) and "/" in resource and accelerators().is_device(resource)


def _with_init_containers(total: Mapping[str, int], inits: Sequence[Object], at: Pointer) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for index, container in enumerate(inits):
        asked = _asked(container, (*at, "initContainers", index))
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            # Sidecars only ever add up: the last sum is their largest, and it is part of the total below.
            continue
        for name, amount in asked.items():
            most[name] = max(most.get(name, 0), amount + sidecars.get(name, 0))
    together = dict(total)
    _add(together, sidecars)
    for name, amount in most.items():
        together[name] = max(together.get(name, 0), amount)
    return together


def _override(total: dict[str, int], resources: Object, at: Pointer) -> None:
    requests, limits = mapping(resources, "requests", at), mapping(resources, "limits", at)
    for name, value in limits.items():
        if _POD_LEVEL.match(name) and value is not None and requests.get(name) is None and name not in total:
            total[name] = _amount(name, value, at, "limits")
    for name, value in requests.items():
        if _POD_LEVEL.match(name) and value is not None:
            total[name] = _amount(name, value, at, "requests")


def _asked(container: Object, at: Pointer) -> dict[str, int]:
    if container.get("resources") is None:
        return {}
    resources, at = mapping(container, "resources", at), (*at, "resources")
    limits, requests = mapping(resources, "limits", at), mapping(resources, "requests", at)
    asked: dict[str, int] = {}
    for name, value in limits.items():
        if value is not None and (requests is EMPTY or requests.get(name) is None):
            asked[name] = _amount(name, value, at, "limits")
    for name, value in requests.items():
        if value is not None:
            asked[name] = _amount(name, value, at, "requests")
    return asked


def _amount(name: object, value: object, at: Pointer, part: str) -> int:
    if not isinstance(name, str):
        raise Unreadable((*at, part), Phrase("resource_names"), name)
    try:
        amount = _remembered(value, name == "cpu") if isinstance(value, str | int) else _counted(value, name == "cpu")
    except QuantityError:
        raise Unreadable((*at, part, name), Phrase("quantity"), value) from None
    if amount < 0:
        raise Unreadable((*at, part, name), Phrase("quantity_or_zero"), value)
    return amount


def _counted(value: object, cpu: bool) -> int:  # noqa: FBT001
    return milli(value) if cpu else units(value)


# "64Gi" is written in every other manifest; no quantity is longer than a few characters.
_remembered = lru_cache(maxsize=4096, typed=True)(_counted)


def _device(requests: Mapping[str, int]) -> str:
    for name, amount in requests.items():
        if amount and is_device(name):
            return name
    return ""


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
