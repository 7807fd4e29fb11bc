"""Of the candidates left, which one."""

from collections.abc import Callable
from functools import reduce
from operator import or_

from webhook.decision.pool import TargetPool
from webhook.model.demand import Demand
from webhook.model.job import PinRecord
from webhook.model.policy import Policy, RoomRule, Strategy
from webhook.model.verdict import Candidate, Out

_PLACE = frozenset({Out.ROOM, Out.QUOTA, Out.UNREACHABLE})


def choose(
    among: tuple[Candidate, ...],
    demand: Demand,
    policy: Policy,
    recorded: Callable[[Candidate], bool],
    *,
    grouped: bool = False,
) -> Candidate:
    """The best of `among`, which must not be empty, in this order: has room, fits by the likely figure (where none
    does, the largest), fits at the high end, the whole gang fits *now*, the policy's strategy, what was `recorded`
    before, name.

    Where *now* is not known, *there* stands for it. A `grouped` pod is decided with others that are objects of their
    own, perhaps by another replica that sees other pods: its choice rests on nothing that a moment changes.
    """
    strategy = _unknown_demand if policy.strategy is None and not demand.known else _STRATEGIES[policy.strategy]

    def rank(one: Candidate) -> tuple[object, ...]:
        short = policy.room is not RoomRule.IGNORE and not _PLACE.isdisjoint(one.out)
        doubt = (one.unlikely, -one.usable_mib if one.unlikely else 0, one.risk)
        if grouped:
            return (short, *doubt, -one.devices, one.model.name)
        waits = policy.room is not RoomRule.IGNORE and one.waits
        return (short, *doubt, waits, *strategy(one, policy), not recorded(one), one.model.name)

    return min(among, key=rank)


def names_model(record: PinRecord | None, pool: TargetPool) -> Callable[[Candidate], bool]:
    """Whether a candidate is the one that an earlier answer recorded: by its product, or by the label of a flavor that
    all its nodes carry."""
    if record is None:
        return lambda _: False
    index = pool.fleet.labels.get(record.key)
    nodes = reduce(or_, map(index.equal, record.values), 0) if index is not None else 0
    return lambda one: one.model.product in record.values or not pool.models[one.model] & ~nodes


def _most_free(one: Candidate, _: Policy) -> tuple[float, ...]:
    return (-(one.devices if one.devices_now is None else one.devices_now),)


def _best_fit(one: Candidate, _: Policy) -> tuple[float, ...]:
    return (one.usable_mib,)


def _largest(one: Candidate, _: Policy) -> tuple[float, ...]:
    return (-one.usable_mib,)


def _ordered(one: Candidate, policy: Policy) -> tuple[float, ...]:
    names = [name for name in policy.order if name in (one.model.product, one.model.name)]
    return (policy.order.index(names[0]) if names else len(policy.order),)


def _unknown_demand(one: Candidate, _: Policy) -> tuple[float, ...]:
    """The larger memory is the safer guess among those with room now; where none has, most devices *there*."""
    return (-one.usable_mib,) if not one.out and not one.waits else (-one.devices,)


_STRATEGIES = {
    None: _most_free,
    Strategy.MOST_FREE: _most_free,
    Strategy.BEST_FIT: _best_fit,
    Strategy.LARGEST: _largest,
    Strategy.ORDERED: _ordered,
}
