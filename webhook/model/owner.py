"""The object whose controller made another one, as that one says."""

from collections.abc import Mapping

from webhook.model.frozen import frozen
from webhook.model.request import Kind


@frozen
class Owner:
    """What an ownerReference says, which any user can write; what it does not say is empty."""

    kind: Kind
    name: str
    uid: str


def controller_of(metadata: object) -> Owner | None:
    """The owner that controls the object with this metadata, of which the API server lets there be one; None where it
    says of none. Never raises."""
    owners = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for one in owners if isinstance(owners, list) else ():
        if isinstance(one, Mapping) and one.get("controller") is True:
            group, _, version = _text(one, "apiVersion").rpartition("/")
            return Owner(Kind(group, version, _text(one, "kind")), _text(one, "name"), _text(one, "uid"))
    return None


def _text(reference: Mapping[str, object], field: str) -> str:
    value = reference.get(field)
    return value if isinstance(value, str) else ""
