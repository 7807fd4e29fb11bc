"""The pin: a label key whose values leave the chosen models in the target pool and nothing else."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from webhook.decision.gang import short_of_room
from webhook.decision.notes import Key, Keys, Tell, Tried, untold
from webhook.decision.pool import TargetPool
from webhook.model.fleet import Model, Nodes
from webhook.model.job import PinRecord, Role
from webhook.model.patch import AFFINITY_TERMS
from webhook.model.placement import Operator, Requirement, Term
from webhook.model.policy import Policy
from webhook.model.verdict import Pin


def pin_to(
    pool: TargetPool, models: tuple[Model, ...], policy: Policy, *, gang: bool, tell: Tell = untold
) -> Pin | None:
    """The pin that leaves `models`; None where no label separates them from the rest of the pool.

    The first key, of the policy's and then the vendor's and clouds' product labels, that every node of the models
    carries and no other node of the pool shares with these values; else the first that keeps the gang's room on the
    nodes it does separate (some nodes of a model may lack a cloud's label: karpenter-provider-gcp#319).
    """
    chosen = pool.of(models)
    keys = tuple(tried_keys(pool, chosen, policy, gang=gang))
    pin = separating(keys) or keeping_room(keys)
    tell(Keys(keys, chosen.bit_count(), pin))
    return pin


def separating(keys: Iterable[Key]) -> Pin | None:
    """The pin by the first of these keys that separates all of what is chosen."""
    complete = [one.pin for one in keys if one.pin and one.tried is Tried.SEPARATES]
    # Once pinned, an earlier key may separate too, the others being gone: the pin that is there stands.
    return next((pin for pin in complete if not pin.roles), None) or next(iter(complete), None)


def keeping_room(keys: Iterable[Key]) -> Pin | None:
    """The pin by the first of these keys that separates a part on which the gang has its room."""
    return next((one.pin for one in keys if one.tried is Tried.PARTLY), None)


def tried_keys(
    pool: TargetPool, chosen: Nodes, policy: Policy, *, gang: bool, but: Collection[str] = ()
) -> Iterator[Key]:
    """Each key, `but` those, and what comes of it, as far as that may make a difference."""
    vendors = (key for one in pool.roles if one.column for key in one.column.product_keys)
    selected = selected_by_all(pool)
    complete = partial = False
    for key in dict.fromkeys((*policy.pin_keys, *vendors)):
        if key in but:
            continue
        # Behind one that separates, only a key counts that every role requires already (see `separating`).
        if complete and key not in selected:
            yield Key(key, Tried.NOT_ASKED)
            continue
        values, nodes = _separating(pool, key, chosen)
        if not values:
            index = pool.fleet.labels.get(key)
            yield Key(key, Tried.SHARED if index and index.present & chosen else Tried.ABSENT)
            continue
        lacking = [one for one in pool.roles if not requires(one.role, key, values)]
        pin = Pin(key, values, tuple(one.index for one in lacking))
        if not all(writable(one.role, key, values) for one in lacking):
            tried = Tried.NOT_WRITABLE
        elif nodes == chosen:
            tried, complete = Tried.SEPARATES, True
        elif complete or partial:
            tried = Tried.NOT_ASKED
        elif _keeps_room(pool, nodes, gang=gang):
            tried, partial = Tried.PARTLY, True
        else:
            tried = Tried.NO_ROOM
        yield Key(key, tried, values, nodes.bit_count(), pin)


def requires(role: Role, key: str, values: tuple[str, ...]) -> bool:
    """Whether the role's own selectors already demand one of these values of this key, whichever term matches."""
    if dict(role.placement.node_selector).get(key) in values:
        return True
    terms = [term for term in role.placement.terms or () if not term.empty]
    return bool(terms) and all(any(_demands(one, key, values) for one in term.expressions) for term in terms)


def writable(role: Role, key: str, values: tuple[str, ...]) -> bool:
    """Whether the pin can be written for the role where its pod template stands in another object."""
    if role.overlay is None:
        return True
    return role.overlay.takes_selector if by_selector(role, key, values) else role.overlay.takes_affinity


def by_selector(role: Role, key: str, values: tuple[str, ...], *, moves: bool = False) -> bool:
    """Whether a pin is written into nodeSelector: one value, beside no other of its key unless that is ours and moves.

    Else it is written into required affinity: a role without pods may select another value, which stands, and beside
    it the pin keeps the role off all nodes.
    """
    return len(values) == 1 and (moves or key not in dict(role.placement.node_selector))


def narrowed(role: Role, pin: Pin) -> Role:
    """The role as it reads with the pin written into it: in nodeSelector for one value, in every term for several."""
    return also_requiring(role, Requirement(pin.key, Operator.IN, pin.values), in_selector=len(pin.values) == 1)


def also_requiring(role: Role, one: Requirement, *, in_selector: bool) -> Role:
    """The role as it reads with this requirement beside its own: in nodeSelector, or in every term that matches."""
    place = role.placement
    if in_selector:
        added = (one.key, one.values[0])
        return _placed(role, node_selector=(*place.node_selector, added), node_selector_is_a_map=True)
    if not place.terms:
        terms: tuple[Term, ...] = (Term((one,), expressions_are_a_list=True),)
    else:
        terms = tuple(term if term.empty else _also(term, one) for term in place.terms)
    return _placed(role, terms=terms, affinity_depth=len(AFFINITY_TERMS))


def _also(term: Term, one: Requirement) -> Term:
    return replace(term, expressions=(*term.expressions, one), expressions_are_a_list=True)


def released(role: Role, record: PinRecord) -> Role:
    """The role as it reads without the pin that was recorded; itself where that is not in it as we wrote it."""
    place = role.placement
    if not _where_we_write(role, record):
        return role
    if len(record.values) == 1:
        others = tuple(one for one in place.node_selector if one != (record.key, record.values[0]))
        return _placed(role, node_selector=others)
    ours = Requirement(record.key, Operator.IN, record.values)
    terms = place.terms or ()
    if not any(ours in term.expressions for term in terms):
        return role
    left = tuple(replace(term, expressions=tuple(one for one in term.expressions if one != ours)) for term in terms)
    return _placed(role, terms=None if all(term.empty for term in left) else left)


def _where_we_write(role: Role, record: PinRecord) -> bool:
    """Of a role whose pod template stands in another object: whether the recorded key is in what is laid over it."""
    over = role.overlay
    if over is None:
        return True
    return record.key in (over.node_selector or ()) if len(record.values) == 1 else over.terms_at is not None


def _placed(role: Role, **changes: object) -> Role:
    return replace(role, placement=replace(role.placement, **changes))  # type: ignore[arg-type] # fields of Placement


def _demands(requirement: Requirement, key: str, values: tuple[str, ...]) -> bool:
    return (
        requirement.key == key
        and requirement.operator is Operator.IN
        and bool(requirement.values)
        and set(requirement.values) <= set(values)
    )


def selected_by_all(pool: TargetPool) -> set[str]:
    """The label keys of which the selectors of every role say something."""
    places = [one.role.placement for one in pool.roles]
    named = (
        {key for key, _ in place.node_selector}.union(one.key for term in place.terms or () for one in term.expressions)
        for place in places
    )
    return set.intersection(*named)


def _separating(pool: TargetPool, key: str, chosen: Nodes) -> tuple[tuple[str, ...], Nodes]:
    """The values of this key that only chosen nodes of the pool carry, and those nodes."""
    index = pool.fleet.labels.get(key)
    if index is None:
        return (), 0
    others = pool.nodes & ~chosen
    values: list[str] = []
    nodes = 0
    for value, bits in index.items():
        if (here := bits & chosen) and not bits & others:
            values.append(value)
            nodes |= here
    return tuple(sorted(values)), nodes


def _keeps_room(pool: TargetPool, nodes: Nodes, *, gang: bool) -> bool:
    if not gang:
        return False
    return not short_of_room_on(pool, {one.index: one.nodes & nodes for one in pool.roles})


def short_of_room_on(pool: TargetPool, left: Mapping[int, Nodes]) -> bool:
    """Whether the gang has no room on these nodes (by role index), or a role of it no node at all."""
    return not all(left[one.index] for one in pool.roles if one.role.gang) or short_of_room(pool, left) is not None
