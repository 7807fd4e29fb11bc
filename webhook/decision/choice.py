"""Of the candidates left, which one."""

from collections.abc import Callable, Collection, Iterator
from functools import reduce
from operator import or_

from webhook.decision.notes import Chosen, Criterion, Rank, Tell, untold
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
    missed: Collection[Candidate] = (),
    tell: Tell = untold,
) -> Candidate:
    """The best of `among`, which must not be empty, in this order: is none that the job's queue may have `missed`, has
    room, fits by the likely figure (where none does, the largest), fits at the high end, the whole gang fits *now*, the
    job ran well there before (where the policy has no strategy), the policy's strategy, what was `recorded` before,
    name.

    Where *now* is not known, *there* stands for it. A `grouped` pod is decided with others that are objects of their
    own, perhaps by another replica that sees other pods: its choice rests on nothing that a moment changes.
    """
    criteria = tuple(_criteria(among, demand, policy, recorded, grouped=grouped, missed=missed))
    tell(Chosen(among, criteria))
    return min(among, key=lambda one: [rank(one) for _, rank in criteria])


def names_model(record: PinRecord | None, pool: TargetPool) -> Callable[[Candidate], bool]:
    """Whether a candidate is the one that an earlier answer recorded, by product or by another label that all nodes of
    a model carry, or has some of its models: the policy may have come to count others as one."""
    if record is None:
        return lambda _: False
    index = pool.fleet.labels.get(record.key)
    nodes = reduce(or_, map(index.equal, record.values), 0) if index is not None else 0
    return lambda one: any(model.product in record.values or not pool.models[model] & ~nodes for model in one.models)


def _criteria(
    among: tuple[Candidate, ...],
    demand: Demand,
    policy: Policy,
    recorded: Callable[[Candidate], bool],
    *,
    grouped: bool,
    missed: Collection[Candidate],
) -> Iterator[tuple[Criterion, Rank]]:
    """In their order."""
    if missed:
        yield Criterion.QUEUE, lambda one: one in missed
    ranks = policy.room is not RoomRule.IGNORE
    if ranks:
        yield Criterion.ROOM, lambda one: not _PLACE.isdisjoint(one.out)
    yield Criterion.LIKELY, lambda one: one.unlikely or one.doubted
    yield Criterion.LARGEST_UNLIKELY, lambda one: -one.usable_mib if one.unlikely or one.doubted else 0
    yield Criterion.HIGH, lambda one: one.risk
    if grouped:
        yield Criterion.MOST_DEVICES, lambda one: -one.devices
    else:
        if ranks:
            yield Criterion.NOW, lambda one: one.waits
        if policy.strategy is None and any(one.fits for one in among):
            yield _ran_well(among, demand)
        yield _strategy(demand, policy)
        yield Criterion.RECORDED, lambda one: not recorded(one)
    yield Criterion.NAME, lambda one: one.name


def _ran_well(among: tuple[Candidate, ...], demand: Demand) -> tuple[Criterion, Rank]:
    """Where runs of the same training ended well. A job that is known to fit a small card has no need of a larger one;
    smaller still is as good where its figures are known (those that they speak against come last already)."""
    least = min(one.usable_mib for one in among if one.fits)
    return Criterion.RAN_WELL, lambda one: not (one.fits or (demand.known and one.usable_mib < least))


def _strategy(demand: Demand, policy: Policy) -> tuple[Criterion, Rank]:
    match policy.strategy:
        case None if not demand.known:
            return Criterion.SAFEST, _safest
        case None | Strategy.MOST_FREE:
            return Criterion.MOST_FREE, _most_left
        case Strategy.BEST_FIT:
            return Criterion.BEST_FIT, lambda one: one.usable_mib
        case Strategy.LARGEST:
            return Criterion.LARGEST, lambda one: -one.usable_mib
        case Strategy.ORDERED:
            return Criterion.ORDERED, lambda one: _place(one, policy.order)


def _most_left(one: Candidate) -> tuple[float, ...]:
    """Devices left after what is in use, promised and waited for: less than none where there is a queue, so that of two
    models that are full the one with the shorter queue is taken. Then most devices *there*."""
    return (-one.devices,) if one.left_now is None else (-one.left_now, -one.devices)


def _safest(one: Candidate) -> tuple[float, ...]:
    """Of an unknown demand: the larger memory among those with room now; where none has, the shortest queue."""
    return (-one.usable_mib,) if not one.out and not one.waits else _most_left(one)


def _place(one: Candidate, order: tuple[str, ...]) -> int:
    own = {name for model in one.models for name in (model.product, model.name)}
    return next((place for place, name in enumerate(order) if name in own), len(order))
