"""Which policies a request is for, in the order in which they steer.

What depends on the kind and on the namespace's labels alone is found once and kept; object selectors are looked at for
each request, conditions last.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import TypeAlias

from webhook.model.finding import Action, Finding
from webhook.model.frozen import frozen
from webhook.model.job import TrainingJob
from webhook.model.placement import Operator, Requirement
from webhook.model.policy import LabelSelector, Policy
from webhook.model.request import Object, Request, User
from webhook.model.rules import AcceleratorPool, Namespaces, Rules
from webhook.policy.cel import CelError, Conditions

JOB_FIELDS = frozenset({"kind", "name", "coupling", "roles", "devices", "batch", "model"})
"""What conditions may ask of `job`; batch and model are there where they are known."""
REQUEST_FIELDS = frozenset(
    {"uid", "kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource"}
) | frozenset({"name", "namespace", "operation", "userInfo", "dryRun", "options"})
"""Those of an AdmissionRequest without its objects."""
_USER = "userInfo"
_NAME = "kubernetes.io/metadata.name"
_MOST_KEPT = 4096
_Labels: TypeAlias = Mapping[str, str]


class Index:
    """The policies of one `Rules`, to be looked up by kind and by the labels of a namespace."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        # In the order given where priorities are equal: oldest first, then by name.
        self._policies = tuple(sorted(rules.policies, key=lambda one: -one.priority))
        self._pools = tuple(sorted(rules.pools, key=lambda one: (one.order, one.name)))
        self._of_kind = lru_cache(maxsize=_MOST_KEPT)(self._for_kind)
        self._in_namespace = lru_cache(maxsize=_MOST_KEPT)(self._for_namespace)

    def candidates(self, request: Request, namespaces: Namespaces) -> tuple[Policy, ...]:
        """Those whose kinds and selectors match; their conditions are still to be asked."""
        kind = str(request.kind)
        if not request.namespace:  # of the cluster: no namespace selector keeps it out, as in Kubernetes
            return self._of_kind(kind).selecting(request)
        labels = frozenset(labels_of(request.namespace, namespaces).items())
        return self._in_namespace(kind, labels).selecting(request)

    def pools(self, user: User, labels: _Labels) -> tuple[AcceleratorPool, ...]:
        """The pools that jobs of this user in a namespace with these labels may be given, in their order."""
        groups = set(user.groups)
        return tuple([one for one in self._pools if _allows(one, groups, labels)])

    def _for_kind(self, kind: str) -> "_Found":
        return _Found(one for one in self._policies if one.match.kinds is None or kind in one.match.kinds)

    def _for_namespace(self, kind: str, labels: frozenset[tuple[str, str]]) -> "_Found":
        known = dict(labels)
        return _Found(one for one in self._of_kind(kind).policies if selects(one.match.namespaces, known))


class _Found:
    """Policies by the labels that their object selectors want, so that hundreds of teams' cost what one's does."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self.policies = tuple(policies)
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._by_none: list[int] = []
        for index, one in enumerate(self.policies):
            wanted = next((need for need in one.match.objects if need.operator is Operator.IN), None)
            if wanted is None:
                self._by_none.append(index)
            else:
                for value in dict.fromkeys(wanted.values):
                    self._by_label.setdefault((wanted.key, value), []).append(index)
        self._selecting = any(one.match.objects for one in self.policies)

    def selecting(self, request: Request) -> tuple[Policy, ...]:
        """Those whose object selector matches the object, or what it was before."""
        if not self._selecting:
            return self.policies
        found = set()
        for obj in (request.object, request.old_object):
            if obj is not None:
                labels = _own_labels(obj)
                hits = (self._by_label.get(label, ()) for label in labels.items())
                for index in (*self._by_none, *chain.from_iterable(hits)):
                    if selects(self.policies[index].match.objects, labels):
                        found.add(index)
        return tuple(self.policies[index] for index in sorted(found))


@frozen
class Matched:
    """The policies that a job is under, the steering one first; `findings` tell of conditions without an answer."""

    policies: tuple[Policy, ...]
    findings: tuple[Finding, ...] = ()


def matched(
    candidates: tuple[Policy, ...], request: Request, job: TrainingJob | None, namespaces: Namespaces
) -> Matched:
    """The candidates whose conditions hold. One whose condition has no answer does not match, and that is told."""
    if not any(one.match.conditions for one in candidates):
        return Matched(candidates)
    conditions = Conditions(_variables(request, job, labels_of(request.namespace, namespaces)))
    found: list[Policy] = []
    faults: list[Finding] = []
    for policy in candidates:
        fault = _fault(policy, conditions)
        if fault is True:
            found.append(policy)
        elif isinstance(fault, Finding):
            faults.append(fault)
    return Matched(tuple(found), tuple(faults))


def index_of(rules: Rules) -> Index:
    """The index of exactly this object: `Rules` never change, and are swapped whole."""
    return _index(_Same(rules))


def pools_for(request: Request, rules: Rules, namespaces: Namespaces) -> tuple[AcceleratorPool, ...]:
    """The pools that the job may be given, in their order."""
    return index_of(rules).pools(request.user, labels_of(request.namespace, namespaces))


def asks_who(request: Request, rules: Rules, namespaces: Namespaces, *, for_pools: bool) -> bool:
    """Whether it may make a difference to these policies, and (`for_pools`) to these pools, who it is that asks."""
    index, labels = index_of(rules), labels_of(request.namespace, namespaces)
    conditions = (one for policy in index.candidates(request, namespaces) for one in policy.match.conditions)
    if any(_USER in one.expression for one in conditions):
        return True
    return for_pools and any(one.groups and not _allows(one, set(), labels) for one in rules.pools)


def _allows(pool: AcceleratorPool, groups: set[str], labels: _Labels) -> bool:
    """Its namespace, or a group of its user; where the pool names neither, everyone."""
    if not pool.namespaces:
        return not pool.groups or not groups.isdisjoint(pool.groups)
    return selects(pool.namespaces, labels) or not groups.isdisjoint(pool.groups)


def labels_of(namespace: str, namespaces: Namespaces) -> _Labels:
    """The labels of a namespace. Of one that is not in view only the name is known, which the API server sets."""
    known = namespaces.get(namespace, {})
    return known if _NAME in known else {**known, _NAME: namespace}


def selects(selector: LabelSelector, labels: _Labels) -> bool:
    """metav1.LabelSelector: all requirements hold. A malformed one (no values for In, Gt) matches nothing."""
    return all(_holds(one, labels) for one in selector)


def _holds(requirement: Requirement, labels: _Labels) -> bool:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case Operator.IN:
            return labels.get(key) in values
        case Operator.NOT_IN:
            return bool(values) and labels.get(key) not in values
        case Operator.EXISTS:
            return key in labels
        case Operator.DOES_NOT_EXIST:
            return key not in labels
        case _:
            return False


def _own_labels(obj: Object) -> _Labels:
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if not isinstance(labels, Mapping):
        return {}
    return {key: value for key, value in labels.items() if isinstance(key, str) and isinstance(value, str)}


def _fault(policy: Policy, conditions: Conditions) -> Finding | bool:
    """Whether all conditions hold. One that is false decides, whatever the others say, as in Kubernetes."""
    fault: Finding | None = None
    for one in policy.match.conditions:
        try:
            if not conditions.hold(one.expression):
                return False
        except CelError as error:
            facts = {"policy": policy.name, "condition": one.name, "problem": str(error)}
            fault = fault or Finding("SST704", facts=facts, action=Action.INFORM)
    return fault or True


def _variables(request: Request, job: TrainingJob | None, labels: _Labels) -> dict[str, object]:
    namespace = {"metadata": {"name": request.namespace, "labels": dict(labels)}} if request.namespace else None
    return {
        "object": request.object,
        "oldObject": request.old_object,
        "request": _asked(request),
        "namespaceObject": namespace,
        "job": _read(job) if job is not None else {},
    }


def _asked(request: Request) -> dict[str, object]:
    """`request` as Kubernetes' own matchConditions see it; what an offline request lacks is filled in."""
    kind = {"group": request.kind.group, "version": request.kind.version, "kind": request.kind.kind}
    user = {"username": request.user.name, "groups": list(request.user.groups)}
    own = {"kind": kind, "operation": request.operation, "namespace": request.namespace, "userInfo": user}
    return {**own, "dryRun": request.dry_run, **request.raw}


def _read(job: TrainingJob) -> dict[str, object]:
    """`job`: what was read of it. What is not known is left out, so that `has(job.batch)` asks."""
    batch = job.batch.declared or job.batch.micro
    model = job.told.settings.get("model") if job.told else None
    roles = [{"name": one.name, "pods": one.pods, "device": one.device, "devices": one.devices} for one in job.roles]
    known: dict[str, object] = {
        "kind": str(job.kind),
        "name": job.name,
        "coupling": str(job.coupling),
        "roles": roles,
        "devices": sum(one.pods * one.devices for one in job.roles),
    }
    if batch is not None:
        known["batch"] = batch.value
    if model is not None:
        known["model"] = model.value
    return known


class _Same:
    """A key that is equal only to itself: no comparing of all that the rules hold."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def __hash__(self) -> int:
        return id(self.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.rules is self.rules


@lru_cache(maxsize=8)
def _index(key: _Same) -> Index:
    return Index(key.rules)
