"""Devices that a pod asks for through claims (DRA), as far as the templates of these claims are in view."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from webhook.catalog.accelerators import accelerators
from webhook.intake.fields import Unreadable, listed, mapping, objects, text
from webhook.model.finding import Finding
from webhook.model.paths import dotted, printable
from webhook.model.placement import Pointer
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference, Surroundings

_TEMPLATE = Kind("resource.k8s.io", "", "ResourceClaimTemplate")
_MOST = 1 << 20
# What is read of a selector: clauses joined by &&, each one of these. Anything else may leave out models in a way that
# only the driver can tell, and then the claim is not counted: a pin to a model that it excludes would never run.
_ATTRIBUTE = r"""device\.attributes\[(?:"[^"]*"|'[^']*')\]\."""
_PRODUCT = re.compile(_ATTRIBUTE + r"""productName\s*(?:==\s*("[^"]*"|'[^']*')|in\s*\[([^\]]*)\])\Z""")
_ANY_PRODUCT = re.compile(rf"""(?:{_ATTRIBUTE}type|device\.driver)\s*==\s*(?:"[^"]*"|'[^']*')\Z""")
_STRING = re.compile(r"""["']([^"']*)["']""")


class Claims(NamedTuple):
    """`devices` by device class and the `claims` that ask for them; `products` that selectors name, none where any will
    do; `unread`: SST104 for what is not in view."""

    devices: dict[str, int]
    claims: frozenset[str]
    products: tuple[str, ...]
    unread: tuple[Finding, ...]


class ClaimTemplates:
    """The claim templates that pods of one namespace may refer to."""

    __slots__ = ("_namespace", "_surroundings")

    def __init__(self, namespace: str, surroundings: Surroundings) -> None:
        self._namespace = namespace
        self._surroundings = surroundings

    def read(self, pod: Object, at: Pointer) -> Claims:
        """What the claims of a pod spec ask for. Raises Unreadable for what is wrong in the pod itself."""
        devices: dict[str, int] = {}
        names: list[str] = []
        products: tuple[str, ...] = ()
        unread: list[Finding] = []
        for index, entry in enumerate(objects(pod, "resourceClaims", at)):
            here = (*at, "resourceClaims", index)
            reference = claim_template(entry, here, self._namespace)
            template = self._surroundings.get(reference) if reference is not None else None
            if reference is None or template is None:
                named = text(entry, "resourceClaimTemplateName", here) or text(entry, "resourceClaimName", here)
                facts = {"reference": printable(named)}
                unread.append(Finding("SST104", dotted(here), facts, "claim"))
                continue
            for request in _requests(template):
                both = _common(products, request.products)
                if both is None:
                    facts = {"reference": printable(reference.name)}
                    unread.append(Finding("SST104", dotted(here), facts, "selector"))
                    continue
                devices[request.device_class] = devices.get(request.device_class, 0) + request.number
                names.append(text(entry, "name", here))
                products = both
        return Claims(devices, frozenset(names), products, tuple(unread))


def claim_template(entry: Object, at: Pointer, namespace: str) -> Reference | None:
    """The template that an entry of resourceClaims names; None for a claim that is there already. Raises Unreadable."""
    name = text(entry, "resourceClaimTemplateName", at)
    return Reference(_TEMPLATE, namespace, name) if name else None


class _Request(NamedTuple):
    """`products` is empty where any will do, and None where the selectors cannot be read."""

    device_class: str
    number: int
    products: tuple[str, ...] | None


def _requests(template: Object) -> Iterator[_Request]:
    """The requests for accelerators. What a template has wrong, the API server has refused before; here it asks for
    nothing."""
    try:
        devices = mapping(mapping(mapping(template, "spec", ()), "spec", ()), "devices", ())
        for request in objects(devices, "requests", ()):
            alternatives = objects(request, "firstAvailable", ())
            # As up to v1beta1 the request itself; from v1beta2 on under a name.
            exact = next(iter(alternatives), None) or mapping(request, "exactly", ()) or request
            device_class = text(exact, "deviceClassName", ())
            if device_class in accelerators().drivers:
                # Which of several alternatives it will be, only the scheduler knows.
                yield _Request(device_class, _count(exact), None if len(alternatives) > 1 else _products(exact))
    except Unreadable:
        return


def _count(request: Object) -> int:
    """One where all devices of a node are asked for: more than that is not known."""
    value = request.get("count")
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST else 1


def _products(request: Object) -> tuple[str, ...] | None:
    """A device has to meet all selectors of a request."""
    found: tuple[str, ...] | None = ()
    for selector in listed(request.get("selectors"), ()):
        for clause in text(mapping(selector, "cel", ()), "expression", ()).split("&&"):
            named = _PRODUCT.match(clause.strip())
            if named is not None:
                found = _common(found, tuple(_STRING.findall(named[1] or named[2])))
            elif not _ANY_PRODUCT.match(clause.strip()):
                return None
    return found


def _common(some: tuple[str, ...] | None, others: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The products that both name, empty where any will do for both; None where no product will do, or that is not
    known. Devices of two models for one pod are nothing that a pin could give."""
    if some is None or others is None or not (some and others):
        return None if some is None or others is None else some or others
    return tuple(one for one in some if one in others) or None
