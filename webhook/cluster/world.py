"""The current world, and how far it can be trusted."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from webhook.decision.case import PROMISED_FOR_S
from webhook.fleet.on_node import device_on
from webhook.fleet.pods import Change, Usage, requeued
from webhook.fleet.queues import read_queues
from webhook.model.fleet import Fleet, Nodes
from webhook.model.pods import Pinned, Pod, Promise, Queued
from webhook.model.policy import Policy
from webhook.model.profile import NO_PROFILES, Profiles
from webhook.model.queues import NO_QUEUES
from webhook.model.request import Object, Stage
from webhook.model.rules import Namespaces, Rules
from webhook.model.run import Device
from webhook.model.surroundings import Surroundings
from webhook.model.verdict import Review, Verdict
from webhook.model.workload import Workloads
from webhook.model.world import World
from webhook.policy.common import common
from webhook.policy.kinds import kinds_of

_CLOCKS_DIFFER_S = 5


class Worlds:
    """Holds the one `World` that reviews are given. A world is never changed, only swapped whole.

    `problems` say, by kind of object, what keeps it from being followed at present and since when; `faults`, by kind of
    ours, which objects cannot be taken as they are now, and what they count as instead.
    """

    def __init__(self, policy: Policy, fleet: Fleet | None = None) -> None:
        self.problems: dict[str, str] = {}
        self.faults: dict[str, tuple[str, ...]] = {}
        self.policy = policy
        self.kinds = kinds_of(policy)
        self._reviewed = _reviewed(self.kinds)
        self._fleet = fleet
        self._pods_at: float | None = None
        self._pinned: Pinned = {}
        self._queued: Queued = {}
        self._surroundings: Surroundings = {}
        self._by_plural: dict[str, Surroundings] = {}
        self._grows: dict[str, str] = {}
        self._queue_objects: dict[str, list[Object]] = {}
        self._queues = NO_QUEUES
        self._profiles = NO_PROFILES
        self._promises: tuple[Promise, ...] = ()
        self._landed: dict[str, tuple[Promise, ...]] = {}
        """By uid, what pods take that have been bound since the fleet was made."""
        self._default = policy
        self._rules: Rules | None = None
        self._namespaces: Namespaces = {}
        self._current: World | None = None
        self._counts_pods = True
        self._awaited: set[str] = set()
        self.rule_changes = 0

    @property
    def current(self) -> World | None:
        """None until a whole fleet has been seen, and all that is awaited."""
        if self._awaited:
            return None
        counts_pods = self._pods_at is None or time.time() - self._pods_at <= self.policy.stale_after_s
        if counts_pods != self._counts_pods:
            self._counts_pods, self._current = counts_pods, None
        if self._current is None and self._fleet is not None:
            self._current = self._made(self._fleet)
        return self._current

    @property
    def fleet(self) -> Fleet | None:
        """The last one; None until a whole one has been seen."""
        return self._fleet

    @property
    def policies(self) -> int:
        """How many are in force; 0: the built-in default is."""
        return len(self._rules.policies) if self._rules else 0

    @property
    def awaited(self) -> tuple[str, ...]:
        """What no review is given before it has been seen."""
        return tuple(sorted(self._awaited))

    def wait_for_rules(self) -> None:
        """Rules and namespaces are about to be told, and nothing is to be decided without them."""
        self._awaited = {"policies", "namespaces"}

    @property
    def synced(self) -> bool:
        """Whether a whole fleet has been seen, and all that is awaited, however long ago."""
        return self._fleet is not None and not self._awaited

    def device_on(self, node: str, resource: str) -> Device | None:
        """What the devices of this resource on a node of this name are; None where that is not known."""
        return device_on(self._fleet, node, resource) if self._fleet is not None else None

    def age_s(self, now: float) -> float | None:
        """Seconds since the fleet was last confirmed; None before the first and for a fleet that never ages."""
        taken_at = self._fleet.taken_at if self._fleet else None
        return None if taken_at is None else max(0.0, now - taken_at)

    def stale(self, now: float) -> bool:
        """Whether denials that rest on nodes are withheld by now."""
        age = self.age_s(now)
        return age is not None and age > self.policy.stale_after_s

    def swap(
        self, fleet: Fleet, *, usage: Usage | None = None, pods_at: float | None = None, since: Iterable[Change] = ()
    ) -> None:
        """From now on reviews see this fleet, whose pods were last confirmed at `pods_at` (None: they never age), what
        these pods say besides, and what has been told of pods `since`."""
        self._fleet, self._pods_at, self._current = fleet, pods_at, None
        if usage is not None:
            self._pinned, self._queued = usage.pinned, usage.queued
        self._landed = {}
        for before, now in since:
            self._count(before, now)

    def confirm(self, *, nodes_at: float | None = None, pods_at: float | None = None) -> None:
        """The nodes, or the pods, are known to be as they were."""
        if self._fleet is None:
            return
        if nodes_at is not None:
            self._fleet, self._current = replace(self._fleet, taken_at=nodes_at), None
        if pods_at is not None:
            self._pods_at = pods_at

    def surround(self, plural: str, objects: Surroundings) -> None:
        """From now on reviews see these objects of one kind that jobs refer to."""
        self._by_plural[plural], self._current = objects, None
        self._surroundings = {reference: obj for part in self._by_plural.values() for reference, obj in part.items()}

    def grow(self, plural: str, reason: str) -> None:
        """What objects of one kind say of nodes that may be added; empty where they say nothing."""
        self._grows[plural], self._current = reason, None

    def queue(self, plural: str, objects: list[Object]) -> None:
        """From now on reviews see the queues that these objects of one kind, and those of the others, make."""
        self._queue_objects[plural] = objects
        named = ((_place(one), one) for part in self._queue_objects.values() for one in part)
        read = read_queues(named)
        self.broken("queues", tuple(f"{place}: {fault}" for place, fault in read.faults))
        self._queues, self._current = read.queues, None

    def learn(self, profiles: Profiles) -> None:
        """From now on reviews see these profiles of earlier runs."""
        self._profiles, self._current = profiles, None

    def rule(self, rules: Rules) -> None:
        """From now on reviews go by these rules. `policy` and `kinds` are then what all policies say together."""
        self.rule_changes += rules != self._rules
        self._rules, self._current = rules, None
        self._awaited.discard("policies")
        self.policy = common(rules, self._default)
        self.kinds = kinds_of(self.policy)
        self._reviewed = _reviewed(self.kinds)

    def reviews(self, group: str, plural: str) -> bool:
        """Whether objects of this resource are reviewed under the rules of now."""
        return (group, plural) in self._reviewed

    def labels_under(self, rules: Rules) -> tuple[str, ...]:
        """The node labels that would name GPU models under these rules."""
        return common(rules, self._default).model_labels

    def name(self, namespaces: Namespaces) -> None:
        """From now on reviews see these labels of namespaces."""
        self._namespaces, self._current = namespaces, None
        self._awaited.discard("namespaces")

    def trouble(self, plural: str, problem: str) -> None:
        """What keeps the objects of one kind from being followed; empty: nothing any more."""
        self.problems.pop(plural, None)
        if problem:
            self.problems[plural] = problem

    def broken(self, kind: str, faults: tuple[str, ...]) -> None:
        """Which objects of one kind of ours cannot be taken; none: all count."""
        self.faults[kind] = faults

    def promise(self, review: Review) -> None:
        """An answer has been given. What it pinned counts as in use until its pods are bound, or for a minute."""
        if review.verdict is Verdict.PIN and review.request.stage is Stage.MUTATE and not review.request.dry_run:
            since, new = review.request.now - PROMISED_FOR_S, tuple(_promised(review))
            # A job that is created again was refused after us, or has been deleted.
            own = next((one for one in new if one.job), None)
            old = [
                one
                for one in self._promises
                if one.given_at > since and (own is None or one.job != own.job or one.namespace != own.namespace)
            ]
            self._promises = (*old, *new)
            self._current = None

    def change(self, before: Pod | None, now: Pod | None) -> None:
        """A pod has come, changed or gone. Until a fleet with it is swapped in, what it waits for and the node that it
        has got since count beside the last one; with either it is no longer promised."""
        if now is not None and now.settled and not (before and before.settled):
            self._keep(now)
        self._count(before, now)
        self._current = None

    def _count(self, before: Pod | None, now: Pod | None) -> None:
        self._queued = requeued(self._queued, before, now)
        if now is None:
            self._landed.pop(before.uid if before else "", None)
        elif self._fleet is not None and now.node and not (before and before.node):
            self._landed[now.uid] = tuple(_landed(self._fleet, now))

    def _keep(self, pod: Pod) -> None:
        for index, one in enumerate(self._promises):
            if self._is_kept_by(one, pod):
                left = (replace(one, pods=one.pods - 1),) if one.pods > 1 else ()
                self._promises = (*self._promises[:index], *left, *self._promises[index + 1 :])
                return

    def _is_kept_by(self, promise: Promise, pod: Pod) -> bool:
        """By all that is known of a job before its pods are there. A mistake delays or hastens what a minute ends."""
        column = self._fleet.devices.get(promise.resource) if self._fleet else None
        if column is None or self._fleet is None or pod.namespace != promise.namespace:
            return False
        if pod.created < promise.given_at - _CLOCKS_DIFFER_S or pod.requests.get(promise.resource) != promise.devices:
            return False
        node = self._fleet.names.equal(pod.node) if pod.node else _awaited(self._fleet, pod)
        return any(node & nodes for model, nodes in column.models.items() if model.product in promise.products)

    def _made(self, fleet: Fleet) -> World:
        told = (reason for _, reason in sorted(self._grows.items(), reverse=True))
        grows = "; ".join(filter(None, (*told, fleet.grows)))
        return World(
            replace(fleet, grows=grows, free=fleet.free if self._counts_pods else None),
            self.policy,
            surroundings=self._surroundings,
            promises=(*self._promises, *(one for landed in self._landed.values() for one in landed)),
            pinned=self._pinned,
            queued=self._queued,
            kinds=self.kinds,
            rules=self._rules,
            namespaces=self._namespaces,
            queues=self._queues,
            profiles=self._profiles,
        )


def _place(obj: Object) -> str:
    names = (obj["metadata"].get(part) for part in ("namespace", "name"))
    return f"{obj['kind']} {'/'.join(filter(None, names))}"


def _reviewed(kinds: Workloads) -> frozenset[tuple[str, str]]:
    return frozenset((kind.group, kind.plural) for kind in kinds.reviewed)


def _awaited(fleet: Fleet, pod: Pod) -> Nodes:
    """The nodes of the model that a pod without a node waits for."""
    key, value = pod.waits_for or ("", "")
    return fleet.labels[key].equal(value) if key in fleet.labels else 0


def _landed(fleet: Fleet, pod: Pod) -> Iterator[Promise]:
    """The devices that a pod takes of its node."""
    node = fleet.names.equal(pod.node)
    for resource, devices in pod.requests.items():
        column = fleet.devices.get(resource)
        for model, nodes in column.models.items() if column is not None else ():
            if node & nodes:
                yield Promise(time.time(), pod.namespace, "", (model.product,), resource, devices, 1)


def _promised(review: Review) -> Iterator[Promise]:
    """What a job that was pinned to one candidate is to take of it. What is only kept off models may land on any."""
    job, decision = review.job, review.decision
    if job is None or decision.pin is None or decision.candidate is None:
        return
    products = tuple(model.product for model in decision.models)
    for role in job.device_roles:
        if role.pods:
            name = "" if job.name.endswith("*") else job.name
            yield Promise(review.request.now, job.namespace, name, products, role.device, role.devices, role.pods)
