"""What policies and pools say of things that no single job decides: how the fleet is read, and which kinds are."""

from collections.abc import Iterable
from dataclasses import replace

from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.model.workload import Workload


def common(rules: Rules, default: Policy) -> Policy:
    """A policy with what all of them say together; the default one where none exists.

    The fleet is built once for everyone, so a node label that any policy names counts for all: first those of the
    policy that steers before the others. So do the kinds that they teach. ConfigMaps are looked up where any policy
    reads them, and what is in use counts until the most cautious one holds it for too old.

    The label that names the models of a pool counts for all nodes as well, before those of policies: a node outside it
    has it or not, and of several that a node carries, the first counts.
    """
    of_pools = tuple(dict.fromkeys(one.model_label for one in rules.pools if one.model_label))
    if not rules.policies:
        labels = tuple(dict.fromkeys((*of_pools, *default.model_labels)))
        return replace(default, model_labels=labels) if of_pools else default
    ordered = sorted(rules.policies, key=lambda one: -one.priority)
    return replace(
        default,
        model_labels=tuple(dict.fromkeys((*of_pools, *(label for one in ordered for label in one.model_labels)))),
        kinds=tuple(_once_each(kind for one in ordered for kind in one.kinds)),
        config_maps=any(one.config_maps for one in ordered),
        stale_after_s=min(one.stale_after_s for one in ordered),
    )


def _once_each(kinds: Iterable[Workload]) -> Iterable[Workload]:
    """The first entry for each group and kind: versions that two policies share would be read in two ways."""
    seen: set[tuple[str, str]] = set()
    for kind in kinds:
        if (kind.group, kind.kind) not in seen:
            seen.add((kind.group, kind.kind))
            yield kind
