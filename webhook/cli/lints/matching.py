"""What a policy is for, by kinds and selectors."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from webhook.cli.lints.found import Found, error, warning
from webhook.model.policy import Policy
from webhook.model.workload import Workloads
from webhook.policy.load import Read
from webhook.policy.overlap import selects_nothing

UNREACHABLE = "unreachable"

_SELECTORS = ("namespaceSelector", "objectSelector")


def check_matching(one: Read, policy: Policy, kinds: Workloads) -> Iterator[Found]:
    """Kinds that are not known, and selectors that nothing meets."""
    if policy.match.kinds is not None:
        unknown = list(unknown_kinds(one, policy.match.kinds, kinds, "match"))
        yield from unknown
        if len(unknown) == len(policy.match.kinds):
            told = "no job is of a kind that it matches: it is for nothing"
            yield error(one, UNREACHABLE, told, "spec", "match", "kinds")
    for name, selector in zip(_SELECTORS, (policy.match.namespaces, policy.match.objects), strict=True):
        if selects_nothing(selector):
            told = "contradicts itself and selects nothing: the policy is for nothing"
            yield error(one, UNREACHABLE, told, "spec", "match", name)


def unknown_kinds(one: Read, named: Sequence[str], kinds: Workloads, *steps: str) -> Iterator[Found]:
    """A warning for each of these kinds that is not reviewed. `steps` lead from the spec to what has `kinds`."""
    entries = {_name(entry.kind, entry.group): entry for entry in kinds.entries}
    for index, kind in enumerate(named):
        entry = entries.get(kind)
        if entry is None:
            meant = next(iter(get_close_matches(kind, entries, n=1)), "")
            told = f"{kind} is no kind that is known"
            told += f"; {meant} is" if meant else ""
            yield warning(one, "unknown-kind", told, "spec", *steps, "kinds", index)
        elif entry.serves:
            told = f"{kind} serves and does not train: it is never looked at"
            yield warning(one, "unknown-kind", told, "spec", *steps, "kinds", index)


def check_taught(policies: Iterable[tuple[Read, Policy]]) -> Iterator[Found]:
    """Kinds that several policies teach: the first one counts for all."""
    first: dict[str, str] = {}
    for one, policy in policies:
        for index, kind in enumerate(policy.kinds):
            name = _name(kind.kind, kind.group)
            if first.setdefault(name, policy.name) != policy.name:
                told = f"{name} is taught by {first[name]} as well, which counts"
                yield warning(one, "taught-twice", told, "spec", "kinds", index)


def _name(kind: str, group: str) -> str:
    return f"{kind}.{group}" if group else kind
