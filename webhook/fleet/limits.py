"""What keeps pods off nodes, one thing at a time: each limit with the nodes of the fleet that it leaves.

A target pool is what all limits of a role leave together, so that whoever tells them one by one tells of the same pool.
"""

from typing import NamedTuple, TypeAlias

from webhook.model.fleet import Nodes
from webhook.model.placement import Requirement, Term


class BySelector(NamedTuple):
    """One entry of nodeSelector."""

    key: str
    value: str
    nodes: Nodes


class ByTerms(NamedTuple):
    """Required node affinity: its ORed terms."""

    terms: tuple[Term, ...]
    nodes: Nodes


class ByRequirement(NamedTuple):
    """One expression of a term, or one of its fields."""

    requirement: Requirement
    nodes: Nodes
    of_field: bool = False


class ByName(NamedTuple):
    """spec.nodeName."""

    name: str
    nodes: Nodes


class ByTaint(NamedTuple):
    """The taints of one key and effect that the pod does not tolerate."""

    key: str
    effect: str
    nodes: Nodes


class ByResource(NamedTuple):
    """One resource that a pod requests, or "pods": the number of them that a node takes. CPU in thousandths."""

    resource: str
    amount: int
    nodes: Nodes


class ByProduct(NamedTuple):
    """The products that the claims of a pod name."""

    products: tuple[str, ...]
    nodes: Nodes


class ByQueue(NamedTuple):
    """What the pods' queue says of the labels of its nodes."""

    requirement: Requirement
    nodes: Nodes


class ByFlavors(NamedTuple):
    """The flavors that the pods' queue may give them, of one group of resources."""

    names: tuple[str, ...]
    nodes: Nodes


Limit: TypeAlias = (
    BySelector | ByTerms | ByRequirement | ByName | ByTaint | ByResource | ByProduct | ByQueue | ByFlavors
)
