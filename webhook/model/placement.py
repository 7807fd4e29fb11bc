"""Where a pod may land: Kubernetes' own scheduling fields, read and typed."""

from enum import StrEnum
from typing import TypeAlias

from webhook.model.frozen import frozen

Pointer: TypeAlias = tuple[str | int, ...]
"""A path into an object, one reference token an entry (RFC 6901 before escaping)."""


class Operator(StrEnum):
    """Operators of a node selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@frozen
class Requirement:
    """One entry of matchExpressions or matchFields."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@frozen
class Term:
    """A node selector term: all of its requirements must hold; one without any matches nothing.

    `expressions_are_a_list` says whether matchExpressions is there to append to.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    expressions_are_a_list: bool = False

    @property
    def empty(self) -> bool:
        return not self.expressions and not self.fields


@frozen
class Toleration:
    """`operator` is Equal, Exists, Lt or Gt; an empty key with Exists tolerates every key, an empty effect every
    effect. `seconds` is for how long it tolerates NoExecute, None for ever."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@frozen
class Placement:
    """The scheduling fields of one pod spec.

    `terms` are the ORed terms of required node affinity; None: there is no required node affinity.
    `affinity_depth` counts how many of affinity, nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution and
    nodeSelectorTerms are there as maps or a list, so that a patch can make the missing parents and no more
    (kubernetes#90623). `node_name` is the node that the pod is put on without a scheduler, empty where none is named,
    `scheduler` the scheduler that is named, empty for the default one.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    node_selector_is_a_map: bool = False
    terms: tuple[Term, ...] | None = None
    affinity_depth: int = 0
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    scheduler: str = ""
