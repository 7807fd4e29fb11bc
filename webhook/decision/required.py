"""Hosts and fabrics that policy requires to be one: coupled ranks are kept to nodes with one value of each label."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from webhook.decision.case import Case
from webhook.decision.pin import requires, writable
from webhook.decision.pool import TargetPool
from webhook.decision.queues import queued
from webhook.decision.sameness import values_of
from webhook.model.policy import Differing, PinWhen, Policy
from webhook.model.verdict import Decision, Pin, Verdict

_MOST_VALUES = 16
"""So many are tried: each costs a decision."""


class Narrowed(NamedTuple):
    """The decision in the nodes that are left, and what keeps the job to them, one selector for each label."""

    decision: Decision
    pins: tuple[Pin, ...]


def narrowed_to_one(
    pool: TargetPool, case: Case, decision: Decision, decided: Callable[[TargetPool], Decision]
) -> Narrowed:
    """The same models, on nodes with one value of each label that policy requires to be one.

    Of the values whose nodes have room for the gang that is the one with most devices free. Where none has, where a
    queue chooses the nodes, or where the selectors cannot be written, all stays as `decision` has it.
    """
    pins: list[Pin] = []
    if case.policy.pin_when is not PinWhen.NEVER and case.job.pin_patches is None and not queued(pool):
        for key in _labels(case.policy):
            found = _best(pool, decision, key, decided)
            if found is not None:
                pool, decision, pin = found
                pins += [pin] if pin.roles else []
    return Narrowed(decision, tuple(pins))


def _labels(policy: Policy) -> Iterator[str]:
    for compared in (policy.fabric, policy.host):
        if compared.differing is Differing.REQUIRE:
            yield from compared.labels


def _best(
    pool: TargetPool, decision: Decision, key: str, decided: Callable[[TargetPool], Decision]
) -> tuple[TargetPool, Decision, Pin] | None:
    values = values_of(pool.fleet, pool.of(decision.models), key, _MOST_VALUES) if _fits(decision) else ()
    tried: list[tuple[tuple[bool, int, str], TargetPool, Decision, Pin]] = []
    for value in values if len(values) > 1 else ():
        lacking = [one for one in pool.roles if not requires(one.role, key, (value,))]
        within = pool.only(pool.fleet.labels[key].equal(value))
        found = decided(within)
        one = found.candidate
        if one is not None and found.models == decision.models and _fits(found):
            free = one.devices if one.devices_now is None else one.devices_now
            if all(writable(role.role, key, (value,)) for role in lacking):
                pin = Pin(key, (value,), tuple(role.index for role in lacking))
                tried.append(((one.waits, -free, value), within, found, pin))
    return min(tried, key=lambda each: each[0])[1:] if tried else None


def _fits(decision: Decision) -> bool:
    short = any(one.code == "SST401" and one.variant != "packing" for one in decision.findings)
    return decision.verdict is not Verdict.DENY and decision.candidate is not None and not short


def chained(first: Pin | None, more: tuple[Pin, ...]) -> Pin | None:
    """One pin, with all others beside it."""
    every = [*([first] if first is not None else []), *more]
    chain: Pin | None = None
    for one in reversed(every):
        chain = replace(one, beside=chain)
    return chain
