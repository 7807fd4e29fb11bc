"""The world: snapshots of everything a decision looks up. Plain values, swapped whole, so that any decision can be
replayed from a dump."""

from dataclasses import field

from webhook.model.fleet import Fleet
from webhook.model.frozen import frozen
from webhook.model.pods import Pinned, Promise, Queued
from webhook.model.policy import Policy
from webhook.model.profile import NO_PROFILES, Profiles
from webhook.model.queues import NO_QUEUES, Queues
from webhook.model.rules import Namespaces, Rules
from webhook.model.surroundings import NOTHING_IN_VIEW, Surroundings
from webhook.model.workload import Workloads


@frozen
class World:
    fleet: Fleet
    policy: Policy
    """Steers and gates every job where `rules` is None or holds no policy, not even one that cannot be read."""
    surroundings: Surroundings = field(default_factory=lambda: NOTHING_IN_VIEW)
    kinds: Workloads | None = None
    """The kinds of job that can be read; None: those of the catalog."""
    promises: tuple[Promise, ...] = ()
    """The pins that this replica has given lately and whose pods are not bound yet, and pods that have been bound since
    the fleet was made."""
    pinned: Pinned = field(default_factory=dict)
    """The pins of pods that belong together."""
    queued: Queued = field(default_factory=dict)
    """What pods wait for that are to come to one model."""
    rules: Rules | None = None
    """What the platform team has written down; None: `policy` for every job, and no pools. Never changed, only swapped
    whole: what policies match is remembered by it."""
    namespaces: Namespaces = field(default_factory=dict)
    """The labels of the namespaces in view."""
    queues: Queues = NO_QUEUES
    profiles: Profiles = NO_PROFILES
    """What earlier runs taught."""
