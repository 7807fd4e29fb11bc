"""The current world, and how far it can be trusted."""

from dataclasses import replace

from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.model.world import World


class Worlds:
    """Holds the one `World` that reviews are given. A world is never changed, only swapped whole.

    `problem` says what keeps the fleet from being followed at present and since when; empty while all is well.
    """

    def __init__(self, policy: Policy, fleet: Fleet | None = None) -> None:
        self._policy = policy
        self.current: World | None = None if fleet is None else World(fleet, policy)
        self.problem = ""

    @property
    def synced(self) -> bool:
        """Whether a whole fleet has been seen, however long ago."""
        return self.current is not None

    def age_s(self, now: float) -> float | None:
        """Seconds since the fleet was last confirmed; None before the first and for a fleet that never ages."""
        taken_at = self.current.fleet.taken_at if self.current else None
        return None if taken_at is None else max(0.0, now - taken_at)

    def stale(self, now: float) -> bool:
        """Whether denials that rest on nodes are withheld by now."""
        age = self.age_s(now)
        return age is not None and age > self._policy.stale_after_s

    def swap(self, fleet: Fleet) -> None:
        """From now on reviews see this fleet."""
        self.current = World(fleet, self._policy)

    def confirm(self, now: float) -> None:
        """The fleet is known to be as it was."""
        if self.current is not None:
            self.swap(replace(self.current.fleet, taken_at=now))
