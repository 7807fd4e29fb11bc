"""Which models count as one candidate: those that a policy names as a class and, where it says so, equivalent ones.

A coupled job may spread over the models of one candidate, so what is joined here will run in lockstep.
"""

from functools import lru_cache
from typing import NamedTuple

from webhook.catalog.accelerators import accelerators
from webhook.model.fleet import Model
from webhook.model.policy import Likeness, Policy

MEMORY_PERCENT = 2
"""One product's memory differs by this much with ECC and drivers; so may that of two products that count as one."""


class Member(NamedTuple):
    """A model of the pool, with the least MiB that a node of it reports there."""

    model: Model
    memory_mib: int


class Tolerance(NamedTuple):
    """By how many percent of the larger figure the smaller one may fall short."""

    compute: float
    bandwidth: float


def may_join(policy: Policy) -> bool:
    """Whether two models can ever count as one."""
    return policy.likeness is Likeness.EQUIVALENT or bool(policy.classes)


def joined(members: tuple[Member, ...], policy: Policy) -> tuple[tuple[Model, ...], ...]:
    """The members in groups, each of which is one candidate; every member is in exactly one.

    A class that the policy names is a group as it stands, whatever is known of its models; of two classes that name the
    same model the first has it. Where policy says Equivalent, any other model joins the first group with every member
    of which it is equivalent. Both the groups and their models are in the order of `members`.
    """
    tolerance = Tolerance(policy.compute_tolerance_percent, policy.bandwidth_tolerance_percent)
    return _joined(members, tolerance if policy.likeness is Likeness.EQUIVALENT else None, policy.classes)


@lru_cache(maxsize=256)  # a fleet's models change seldom, and names are dear to compare
def _joined(
    members: tuple[Member, ...], tolerance: Tolerance | None, classes: tuple[tuple[str, ...], ...]
) -> tuple[tuple[Model, ...], ...]:
    groups: list[list[Member]] = []
    left = list(members)
    for names in classes:
        named = [one for one in left if _is_named(one.model, names)]
        if named:
            groups.append(named)
            left = [one for one in left if one not in named]
    for one in left:
        home = next((group for group in groups if tolerance and _fits_all(one, group, tolerance)), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    ordered = sorted(sorted(map(members.index, group)) for group in groups)
    return tuple(tuple(members[place].model for place in group) for group in ordered)


def _is_named(model: Model, names: tuple[str, ...]) -> bool:
    catalog = accelerators()
    folded = {name.casefold() for name in names}
    if not folded.isdisjoint((model.product.casefold(), model.name.casefold())):
        return True
    return catalog.canonical(model.product) in {catalog.canonical(name) for name in names}


def _fits_all(one: Member, group: list[Member], tolerance: Tolerance) -> bool:
    return all(_are_equivalent(one, other, tolerance) for other in group)


def _are_equivalent(one: Member, other: Member, tolerance: Tolerance) -> bool:
    less, more = sorted((one.memory_mib, other.memory_mib))
    return (
        one.model.vendor == other.model.vendor
        and more <= less * (1 + MEMORY_PERCENT / 100)
        and _within(one.model.bf16_tflops, other.model.bf16_tflops, tolerance.compute)
        and _within(one.model.bandwidth_gbps, other.model.bandwidth_gbps, tolerance.bandwidth)
    )


def _within(one: float | None, other: float | None, percent: float) -> bool:
    """Short by so much of the larger figure: what the faster rank would wait of each step. Unknown is never within."""
    if one is None or other is None:
        return False
    return min(one, other) >= max(one, other) * (1 - percent / 100)
