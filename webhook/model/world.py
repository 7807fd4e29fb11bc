"""The world: snapshots of everything a decision looks up. Plain values, swapped whole, so that any decision can be
replayed from a dump."""

from dataclasses import dataclass

from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.model.surroundings import NOTHING_IN_VIEW, Surroundings


@dataclass(frozen=True, slots=True)
class World:
    fleet: Fleet
    policy: Policy
    surroundings: Surroundings = NOTHING_IN_VIEW
