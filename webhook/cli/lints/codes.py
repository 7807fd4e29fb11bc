"""What policies say of findings."""

from collections.abc import Iterator

from webhook.catalog.codes import codes
from webhook.cli.lints.found import Found, warning
from webhook.model.finding import Action
from webhook.model.policy import Policy
from webhook.policy.load import Read

_UNKNOWN_MEMORY = "SST203"
_AS_WRITTEN = {Action.DENY: "Deny", Action.WARN: "Warn", Action.INFORM: "Audit"}


def check_codes(one: Read, policy: Policy) -> Iterator[Found]:
    """Entries that change nothing."""
    spec = one.object.get("spec") or {}
    written = [entry["code"] for entry in spec.get("codes", ())]
    for index, code in enumerate(written):
        if policy.codes[code] is codes()[code].action:
            told = f"{code} does {_AS_WRITTEN[policy.codes[code]]} by itself: this changes nothing"
            yield warning(one, "no-effect", told, "spec", "codes", index)
    if _UNKNOWN_MEMORY in written and "onUnknown" in spec.get("memory", {}):
        told = f"the entry of {_UNKNOWN_MEMORY} in codes goes before this, which changes nothing"
        yield warning(one, "no-effect", told, "spec", "memory", "onUnknown")
