"""The world: snapshots of everything a decision looks up. Plain values, swapped whole, so that any decision can be
replayed from a dump."""

from dataclasses import dataclass

from webhook.model.fleet import Fleet
from webhook.model.policy import Policy


@dataclass(frozen=True, slots=True)
class World:
    fleet: Fleet
    policy: Policy
