"""All checks of one set of policies."""

from collections.abc import Iterable, Iterator

from webhook.catalog.accelerators import accelerators
from webhook.catalog.additions import extended
from webhook.cli.lints.codes import check_codes
from webhook.cli.lints.conditions import check_conditions, uncompiled
from webhook.cli.lints.exceptions import check_exception
from webhook.cli.lints.found import Found, invalid
from webhook.cli.lints.matching import UNREACHABLE, check_matching, check_taught
from webhook.cli.lints.meeting import check_meeting
from webhook.cli.lints.nodes import check_names, check_pool
from webhook.cli.surroundings import Offline
from webhook.model.policy import Policy
from webhook.model.rules import AcceleratorPool, PolicyException
from webhook.policy.common import common
from webhook.policy.kinds import kinds_of
from webhook.policy.load import Loaded, Read


def check(loaded: Loaded, offline: Offline | None, now: float) -> Iterator[Found]:
    """What is wrong with what was loaded. `offline` is the cluster that it is for, None where that is not known; `now`
    is in seconds since the epoch."""
    for fault in loaded.faults:
        rule, placed = uncompiled(fault)
        yield invalid(placed, rule)
    everything = [one for _, one in sorted(loaded.read.items())]
    policies = _steering_first(everything, loaded)
    kinds = kinds_of(common(loaded.rules, Policy()))
    catalog = extended(accelerators(), loaded.accelerators)
    reachable: list[tuple[Read, Policy]] = []
    for one, policy in policies:
        matching = list(check_matching(one, policy, kinds))
        yield from matching
        if not any(found.rule == UNREACHABLE for found in matching):
            reachable.append((one, policy))
        yield from check_conditions(one, policy)
        yield from check_codes(one, policy)
        yield from check_names(one, policy, catalog, offline)
    yield from check_taught(policies)
    yield from check_meeting(reachable)
    known = {policy.name: policy for _, policy in policies}
    for one in everything:
        if isinstance(one.good.setting, PolicyException):
            yield from check_exception(one, one.good.setting, known, loaded.rules.never_good, kinds, now)
        elif isinstance(one.good.setting, AcceleratorPool):
            yield from check_pool(one, one.good.setting, offline)


def _steering_first(everything: Iterable[Read], loaded: Loaded) -> list[tuple[Read, Policy]]:
    place = {policy.name: place for place, policy in enumerate(loaded.rules.policies)}
    found = [(one, one.good.setting) for one in everything if isinstance(one.good.setting, Policy)]
    return sorted(found, key=lambda pair: place[pair[1].name])
