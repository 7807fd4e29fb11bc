"""Where the pods of a job may land, step by step: the very limits that its target pool is made of, one by one."""

from collections.abc import Iterable, Iterator, Mapping

from webhook.decision.nearest import Near, near
from webhook.decision.pool import RolePool, TargetPool, limits
from webhook.fleet.limits import ByName, ByProduct, ByResource, BySelector, ByTaint, ByTerms, Limit
from webhook.fleet.room import offered_of
from webhook.fleet.select import required
from webhook.model.fleet import Fleet, Model, Nodes
from webhook.model.frozen import frozen
from webhook.model.job import Role
from webhook.model.placement import Pointer

_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


@frozen
class Step:
    """One limit with the number of nodes `before` it and `left` after it.

    `at` is what of the pod spec says it, empty where it is something that is not there. `terms` are the steps of each
    term of an affinity, each from `before`. `near` is what would have been, where it leaves none.
    """

    limit: Limit
    before: int
    left: int
    at: Pointer = ()
    terms: tuple[tuple["Step", ...], ...] = ()
    near: Near | None = None


@frozen
class Landing:
    """Where the pods of some roles may land that ask for the same in the same way: from `every` node of the fleet, step
    by step, to `nodes`, which are those of `models` and of the three that follow."""

    roles: tuple[Role, ...]
    every: int
    steps: tuple[Step, ...]
    nodes: int
    models: Mapping[Model, int]
    unknown: int
    two_models: int
    shares: int


def landings(pool: TargetPool) -> tuple[Landing, ...]:
    """Every device role of the pool, those together that ask alike."""
    alike: list[list[RolePool]] = []
    for one in pool.roles:
        known = next((others for others in alike if _asks(others[0].role) == _asks(one.role)), None)
        if known is None:
            alike.append([one])
        else:
            known.append(one)
    return tuple(_landing(ones, pool.fleet) for ones in alike)


def _asks(role: Role) -> tuple[object, ...]:
    return role.device, role.requests, role.placement, role.products


def _landing(alike: list[RolePool], fleet: Fleet) -> Landing:
    one = alike[0]
    column = one.column
    return Landing(
        roles=tuple(other.role for other in alike),
        every=fleet.every.bit_count(),
        steps=tuple(_steps(one, fleet)),
        nodes=one.nodes.bit_count(),
        models={model: bits.bit_count() for model, bits in one.models.items()},
        unknown=(one.nodes & column.unknown).bit_count() if column else 0,
        two_models=(one.nodes & column.two_models).bit_count() if column else 0,
        shares=(one.nodes & column.shares).bit_count() if column else 0,
    )


def _steps(one: RolePool, fleet: Fleet) -> Iterator[Step]:
    """First the nodes that have the device at all: what comes after is told of these."""
    role = one.role
    offered = offered_of(fleet, role.device, now=False)
    having = ByResource(role.device, 1, 0 if offered is None else offered.at_least(1))
    told = (having, *limits(role, fleet, one.required, one.offers))
    yield from _walk(((limit, _said(limit, role)) for limit in told), fleet, fleet.every)


def _walk(said: Iterable[tuple[Limit, Pointer]], fleet: Fleet, nodes: Nodes) -> Iterator[Step]:
    for limit, at in said:
        left = nodes & limit.nodes
        terms = tuple(_terms(limit, at, fleet, nodes)) if isinstance(limit, ByTerms) else ()
        missed = near(limit, nodes, fleet) if nodes and not left else None
        yield Step(limit, nodes.bit_count(), left.bit_count(), at, terms, missed)
        nodes = left


def _terms(limit: ByTerms, at: Pointer, fleet: Fleet, nodes: Nodes) -> Iterator[tuple[Step, ...]]:
    for index, term in enumerate(limit.terms):
        places = [(*at, index, "matchExpressions", place) for place in range(len(term.expressions))]
        places += [(*at, index, "matchFields", place) for place in range(len(term.fields))]
        yield tuple(_walk(zip(required(fleet, term), places, strict=True), fleet, nodes))


def _said(limit: Limit, role: Role) -> Pointer:
    match limit:
        case BySelector(key=key):
            return "nodeSelector", key
        case ByTerms():
            return _TERMS
        case ByName():
            return ("nodeName",)
        case ByTaint() if role.placement.tolerations:
            return ("tolerations",)
        case ByProduct():
            return ("resourceClaims",)
        case _:
            return ()
