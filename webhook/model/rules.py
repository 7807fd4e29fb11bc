"""What the platform team has written down, resolved: policies, pools and exceptions, as files or custom resources."""

from collections.abc import Mapping
from typing import TypeAlias

from webhook.model.frozen import frozen
from webhook.model.placement import Toleration
from webhook.model.policy import LabelSelector, Policy

Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by name."""


@frozen
class AcceleratorPool:
    """A resource group: the nodes that `nodes` selects, for jobs in namespaces that `namespaces` selects or of users in
    one of `groups` (none of both: everyone). Pools of lower `order` come first.

    `most` devices may be there one day (None: no more than exist). What a job in this pool lacks is set:
    `tolerations`, `queue` and `scheduler` (empty: nothing).
    """

    name: str
    nodes: LabelSelector = ()
    order: int = 0
    model_label: str = ""
    namespaces: LabelSelector = ()
    groups: tuple[str, ...] = ()
    most: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    queue: str = ""
    scheduler: str = ""


@frozen
class PolicyException:
    """Jobs in `namespace` that `policies` are not to hold to `codes` (none: to nothing at all), until `until` (seconds
    since the epoch). `kinds` are "Kind.group" and `names` shell patterns; none: every one."""

    namespace: str
    name: str
    policies: tuple[str, ...]
    until: float
    reason: str
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


@frozen
class Rules:
    """All of them. `policies` stand in the order in which they steer: highest priority, then oldest, then name.

    `never_good` are policies that exist and never could be read.
    """

    policies: tuple[Policy, ...] = ()
    never_good: tuple[str, ...] = ()
    pools: tuple[AcceleratorPool, ...] = ()
    exceptions: tuple[PolicyException, ...] = ()
