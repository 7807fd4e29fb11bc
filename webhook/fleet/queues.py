"""From queue objects (Kueue's ResourceFlavor, ClusterQueue, LocalQueue and Cohort, Volcano's Queue) to `Queues`.

Kueue is read in its versions v1beta1 and v1beta2 (sigs.k8s.io/kueue v0.17.0, apis/kueue), which name a cohort
differently. An object that cannot be read costs itself, and the bounds that would have counted it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from webhook.catalog.queues import CLUSTER_QUEUE, KUEUE, KUEUE_GROUP, RESOURCE_FLAVOR, VOLCANO, queue_system
from webhook.model.fleet import Taint
from webhook.model.frozen import frozen
from webhook.model.job import TrainingJob
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.quantity import milli, units
from webhook.model.queues import Flavor, Queue, Queues
from webhook.model.surroundings import Reference

_VOLCANO_GROUP = "scheduling.volcano.sh"
_DEPTH = 64


@frozen
class QueuesRead:
    """`faults` are objects that could not be read, with where they stand."""

    queues: Queues
    faults: tuple[tuple[str, str], ...]


def read_queues(objects: Iterable[tuple[str, Mapping[str, Any]]]) -> QueuesRead:
    """The queues of these objects, each with the place that a fault is told by; other kinds are left alone.

    A LocalQueue counts as the ClusterQueue that it names, under its own namespace and name. Never raises.
    """
    read = _read(objects)
    flavors = {one.metadata.name: _flavor(one) for one in read.flavors}
    quotas = _Quotas(read.cluster_queues, read.cohorts, whole=read.whole)
    whole = {one.metadata.name: _queue(one, flavors, quotas) for one in read.cluster_queues}
    known = {_place(one): whole[one.spec.cluster_queue] for one in read.local_queues if one.spec.cluster_queue in whole}
    known |= {(VOLCANO, "", one.metadata.name): Queue(nodes=one.spec.nodes) for one in read.volcano}
    return QueuesRead(Queues(known, _ordered(flavors), whole), tuple(read.faults))


def with_queues(queues: Queues, objects: Iterable[Mapping[str, Any]]) -> Queues:
    """These, with LocalQueues, ClusterQueues and ResourceFlavors that were not among them, or not whole; one that
    cannot be read is left out.

    A LocalQueue whose ClusterQueue is still not there may have any flavor that is. What a ClusterQueue of a cohort can
    borrow is not bounded: who lends to it is not known. Never raises.
    """
    read = _read(("", one) for one in objects)
    flavors = {one.name: one for one in queues.flavors} | {one.metadata.name: _flavor(one) for one in read.flavors}
    quotas = _Quotas(read.cluster_queues, (), whole=False)
    whole = {
        **queues.cluster_queues,
        **{one.metadata.name: _queue(one, flavors, quotas) for one in read.cluster_queues},
    }
    every = _ordered(flavors)
    known = {
        _place(one): whole.get(one.spec.cluster_queue)
        or Queue(every, missing=(f"ClusterQueue {one.spec.cluster_queue}",))
        for one in read.local_queues
    }
    return Queues({**queues.known, **known}, every, whole)


def behind(queues: Queues, objects: Iterable[Mapping[str, Any]]) -> Iterator[Reference]:
    """What LocalQueues and ClusterQueues among these objects stand for that `queues` lack, or do not have whole."""
    read = _read(("", one) for one in objects)
    for local in read.local_queues:
        found = queues.cluster_queues.get(local.spec.cluster_queue)
        if found is None or found.missing:
            yield Reference(CLUSTER_QUEUE, "", local.spec.cluster_queue)
    known = {one.name for one in queues.flavors}
    for queue in read.cluster_queues:
        for entry in (entry for group in queue.spec.groups for entry in group.flavors):
            if entry.name not in known:
                yield Reference(RESOURCE_FLAVOR, "", entry.name)


def reach(job: TrainingJob, queues: Queues) -> Queue | None:
    """Where the job's queue lets its pods land; None where it names none, or nothing in view says.

    A Kueue queue that is not in view may have any flavor that is.
    """
    queue = job.queue
    if queue is None:
        return None
    namespace = job.namespace if queue.system == KUEUE else ""
    known = queues.known.get((queue.system, namespace, queue.name))
    if known is None and queue.system == KUEUE and queues.flavors:
        known = Queue(queues.flavors, missing=(f"LocalQueue {queue.name}",))
    if queue.nodes:
        known = replace(known or Queue(), nodes=queue.nodes)
    return known if known is not None and (known.flavors or known.nodes) else None


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True)


def _nothing_for_null(value: object) -> object:
    return {} if value is None else value


def _none_for_null(value: object) -> object:
    return [] if value is None else value


class _Metadata(_Strict):
    name: str
    namespace: str = "default"


class _Object(_Strict):
    metadata: _Metadata


class _Taint(_Strict):
    key: str
    value: str = ""
    effect: str


class _Toleration(_Strict):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _FlavorSpec(_Strict):
    node_labels: Annotated[dict[str, str], BeforeValidator(_nothing_for_null)] = Field({}, alias="nodeLabels")
    node_taints: Annotated[list[_Taint], BeforeValidator(_none_for_null)] = Field([], alias="nodeTaints")
    tolerations: Annotated[list[_Toleration], BeforeValidator(_none_for_null)] = []


class _ResourceFlavor(_Object):
    spec: Annotated[_FlavorSpec, BeforeValidator(_nothing_for_null)] = _FlavorSpec()


def _quantity(value: object) -> object:
    units(value)  # raises QuantityError, which is a ValueError
    return value


_Quantity: TypeAlias = Annotated[Any, BeforeValidator(_quantity)]


class _Quota(_Strict):
    name: str
    nominal: _Quantity = Field("0", alias="nominalQuota")
    borrowing: _Quantity | None = Field(None, alias="borrowingLimit")
    lending: _Quantity | None = Field(None, alias="lendingLimit")

    def amount(self, value: object) -> int:
        return milli(value) if self.name == "cpu" else units(value)


class _FlavorQuotas(_Strict):
    name: str
    resources: list[_Quota] = []


class _Group(_Strict):
    covered: list[str] = Field([], alias="coveredResources")
    flavors: list[_FlavorQuotas] = []


_Groups: TypeAlias = Annotated[list[_Group], BeforeValidator(_none_for_null)]


class _ClusterQueueSpec(_Strict):
    groups: _Groups = Field([], alias="resourceGroups")
    cohort: str = Field("", validation_alias=AliasChoices("cohortName", "cohort"))


class _ClusterQueue(_Object):
    spec: Annotated[_ClusterQueueSpec, BeforeValidator(_nothing_for_null)] = _ClusterQueueSpec()


class _CohortSpec(_Strict):
    groups: _Groups = Field([], alias="resourceGroups")
    parent: str = Field("", validation_alias=AliasChoices("parentName", "parent"))


class _Cohort(_Object):
    spec: Annotated[_CohortSpec, BeforeValidator(_nothing_for_null)] = _CohortSpec()


class _LocalQueueSpec(_Strict):
    cluster_queue: str = Field("", alias="clusterQueue")


class _LocalQueue(_Object):
    spec: Annotated[_LocalQueueSpec, BeforeValidator(_nothing_for_null)] = _LocalQueueSpec()


class _Required(_Strict):
    required: list[str] = Field([], alias="requiredDuringSchedulingIgnoredDuringExecution")


class _Affinity(_Strict):
    to: _Required | None = Field(None, alias="nodeGroupAffinity")
    against: _Required | None = Field(None, alias="nodeGroupAntiAffinity")


class _VolcanoSpec(_Strict):
    affinity: _Affinity | None = None

    @property
    def nodes(self) -> tuple[Requirement, ...]:
        """Required groups of nodes, as node labels (volcano pkg/scheduler/plugins/nodegroup)."""
        if self.affinity is None:
            return ()
        sides = ((self.affinity.to, Operator.IN), (self.affinity.against, Operator.NOT_IN))
        key = queue_system(VOLCANO).nodes
        return tuple(
            Requirement(key, operator, tuple(side.required)) for side, operator in sides if side and side.required
        )


class _VolcanoQueue(_Object):
    spec: Annotated[_VolcanoSpec, BeforeValidator(_nothing_for_null)] = _VolcanoSpec()


_SHAPES: Mapping[str, type[_Object]] = {
    "ResourceFlavor": _ResourceFlavor,
    "ClusterQueue": _ClusterQueue,
    "Cohort": _Cohort,
    "LocalQueue": _LocalQueue,
    "Queue": _VolcanoQueue,
}
_KINDS = {
    **{(KUEUE_GROUP, kind): kind for kind in ("ResourceFlavor", "ClusterQueue", "Cohort", "LocalQueue")},
    (_VOLCANO_GROUP, "Queue"): "Queue",
}


@frozen
class _Read:
    """Objects that are well formed. `whole` is False where some ClusterQueue or Cohort is not."""

    flavors: list[_ResourceFlavor]
    cluster_queues: list[_ClusterQueue]
    cohorts: list[_Cohort]
    local_queues: list[_LocalQueue]
    volcano: list[_VolcanoQueue]
    faults: list[tuple[str, str]]
    whole: bool


def _read(objects: Iterable[tuple[str, Mapping[str, Any]]]) -> _Read:
    """Of objects with one name the last counts."""
    read: dict[str, dict[tuple[str, str], Any]] = {kind: {} for kind in _KINDS.values()}
    faults: list[tuple[str, str]] = []
    broken = False
    for place, obj in objects:
        kind = _kind(obj)
        if kind is None:
            continue
        try:
            one = _SHAPES[kind].model_validate(obj)
        except ValidationError as error:
            faults.append((place, _first(error)))
            broken = broken or kind in ("ClusterQueue", "Cohort")
            continue
        read[kind][one.metadata.namespace if kind == "LocalQueue" else "", one.metadata.name] = one
    flavors, cluster_queues, cohorts, local_queues, volcano = ([*read[kind].values()] for kind in _SHAPES)
    return _Read(flavors, cluster_queues, cohorts, local_queues, volcano, faults, not broken)


def _place(one: _LocalQueue) -> tuple[str, str, str]:
    return KUEUE, one.metadata.namespace, one.metadata.name


def _ordered(flavors: Mapping[str, Flavor]) -> tuple[Flavor, ...]:
    return tuple(flavors[name] for name in sorted(flavors))


def _kind(obj: Mapping[str, Any]) -> str | None:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    return _KINDS.get((api_version.rpartition("/")[0], kind))


def _first(error: ValidationError) -> str:
    one = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(str(step) for step in one['loc'])}: {one['msg']}"


def _flavor(one: _ResourceFlavor) -> Flavor:
    spec = one.spec
    return Flavor(
        name=one.metadata.name,
        labels=spec.node_labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.node_taints),
        tolerations=tuple(Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations),
    )


def _queue(one: _ClusterQueue, flavors: Mapping[str, Flavor], quotas: "_Quotas") -> Queue:
    named = [(entry, group) for group in one.spec.groups for entry in group.flavors]
    return Queue(
        flavors=tuple(
            replace(
                flavors[entry.name],
                quota={quota.name: quotas.most(one, entry.name, quota.name) for quota in entry.resources},
            )
            for entry, _ in named
            if entry.name in flavors
        ),
        # Kueue admits nothing to such a queue until they are there.
        missing=tuple(f"ResourceFlavor {entry.name}" for entry, _ in named if entry.name not in flavors),
    )


class _Quotas:
    """What a ClusterQueue can hold of a resource in a flavor where nothing is in use: `potentialAvailable` of Kueue's
    pkg/cache/scheduler/resource_node.go. Kueue never admits more (flavorassigner.go, fitsResourceQuota: no fit).

    `whole` is False where some ClusterQueue or Cohort could not be read: it might lend, so nothing bounds a cohort.
    """

    def __init__(self, queues: Iterable[_ClusterQueue], cohorts: Iterable[_Cohort], *, whole: bool) -> None:
        self._cohorts = {one.metadata.name: one for one in cohorts}
        self._whole = whole
        self._members: dict[str, list[_ClusterQueue]] = {}
        self._children: dict[str, list[str]] = {}
        for queue in queues:
            self._members.setdefault(queue.spec.cohort, []).append(queue)
        for name, cohort in self._cohorts.items():
            self._children.setdefault(cohort.spec.parent, []).append(name)

    def most(self, queue: _ClusterQueue, flavor: str, resource: str) -> int | None:
        """None: nothing bounds it, or cohorts are each other's parents."""
        own = _quota(queue.spec.groups, flavor, resource)
        nominal = own.amount(own.nominal) if own else 0
        cohort = queue.spec.cohort
        if not cohort:
            return nominal
        if not self._whole:
            return None
        try:
            return self._with_parent(own, nominal, cohort, flavor, resource, ())
        except RecursionError:
            return None

    def _with_parent(
        self, own: _Quota | None, subtree: int, parent: str, flavor: str, resource: str, path: tuple[str, ...]
    ) -> int:
        """Of a node with this quota and, in its subtree, so much: what it keeps to itself and what its parent has."""
        available = _kept(own, subtree) + self._potential(parent, flavor, resource, path)
        if own is not None and own.borrowing is not None:
            return min(subtree + own.amount(own.borrowing), available)
        return available

    def _potential(self, name: str, flavor: str, resource: str, path: tuple[str, ...]) -> int:
        path = _longer(path, name)
        subtree = self._subtree(name, flavor, resource, ())
        cohort = self._cohorts.get(name)
        parent = cohort.spec.parent if cohort else ""
        if not parent:
            return subtree
        own = _quota(cohort.spec.groups, flavor, resource) if cohort else None
        return self._with_parent(own, subtree, parent, flavor, resource, path)

    def _subtree(self, name: str, flavor: str, resource: str, path: tuple[str, ...]) -> int:
        """A cohort's own quota, and what its members lend to it."""
        path = _longer(path, name)
        cohort = self._cohorts.get(name)
        own = _quota(cohort.spec.groups, flavor, resource) if cohort else None
        total = own.amount(own.nominal) if own else 0
        for child in self._children.get(name, ()):
            quota = _quota(self._cohorts[child].spec.groups, flavor, resource)
            subtree = self._subtree(child, flavor, resource, path)
            total += subtree - _kept(quota, subtree)
        for member in self._members.get(name, ()):
            quota = _quota(member.spec.groups, flavor, resource)
            nominal = quota.amount(quota.nominal) if quota else 0
            total += nominal - _kept(quota, nominal)
        return total


def _kept(own: _Quota | None, subtree: int) -> int:
    """What a lending limit keeps from the parent."""
    return max(0, subtree - own.amount(own.lending)) if own is not None and own.lending is not None else 0


def _quota(groups: Iterable[_Group], flavor: str, resource: str) -> _Quota | None:
    entries = (entry for group in groups for entry in group.flavors if entry.name == flavor)
    return next((quota for entry in entries for quota in entry.resources if quota.name == resource), None)


def _longer(path: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Raises RecursionError on a cycle, or a tree deeper than anyone has."""
    if name in path or len(path) >= _DEPTH:
        raise RecursionError(name)
    return (*path, name)
