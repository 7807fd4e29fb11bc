"""Jobs that are there: each with its pods and what the webhook would say of it now, were every policy to deny."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from webhook.cli.documents import Document
from webhook.cli.requests import creation_of
from webhook.cli.seen import Seen
from webhook.decision.landed import Landed, is_at_risk, is_mixed, is_unpinned, landed, with_landing
from webhook.decision.notes import Unpinned
from webhook.decision.story import Listener, Story
from webhook.fleet.allocated import read_claim
from webhook.fleet.build import changed_fleet
from webhook.intake.fields import Unreadable
from webhook.intake.finished import finished
from webhook.intake.groups import read_group
from webhook.intake.pods import PodError, read_pod
from webhook.model.job import TrainingJob
from webhook.model.owner import controller_of
from webhook.model.pods import Pod
from webhook.model.policy import FleetShown, Language, Policy, ValidationAction
from webhook.model.request import Kind, Object, Request, Stage, User
from webhook.model.verdict import Review, Verdict
from webhook.model.workload import Children, Workload, Workloads
from webhook.model.world import World
from webhook.review import review

_CONTROLLER = User("system:kube-controller-manager")
"""Who asks for what another object owns; who asked for the others is not written down anywhere."""


class Found(StrEnum):
    """What an audit finds, worst first."""

    MIXED = "mixed"
    AT_RISK = "atRisk"
    UNPINNED = "unpinned"
    WOULD_BE_DENIED = "wouldBeDenied"
    WOULD_BE_PINNED = "wouldBePinned"


class State(StrEnum):
    """RUNNING: some pod has its node. SUSPENDED: its own field, or a queue's gate, holds it back."""

    RUNNING = "Running"
    PENDING = "Pending"
    SUSPENDED = "Suspended"


@dataclass(frozen=True, slots=True)
class Owned:
    """A job and the pods that are its own, however many controllers stand `between` them; bare pods of one group are
    one job, told by the oldest."""

    document: Document
    kind: Kind
    pods: tuple[Object, ...]
    between: tuple[Object, ...] = ()

    @property
    def namespace(self) -> str:
        return _text(_metadata(self.document.object).get("namespace"))

    @property
    def name(self) -> str:
        return _text(_metadata(self.document.object).get("name"))

    def owns(self, obj: Object) -> bool:
        """Whether its controller, or one between it and its pods, made this object."""
        owner = controller_of(obj.get("metadata"))
        if owner is None or _text(_metadata(obj).get("namespace")) != self.namespace:
            return False
        kind = owner.kind
        ours = ((_kind_of(one), _text(_metadata(one).get("name"))) for one in (self.document.object, *self.between))
        return any((kind.group, kind.kind, owner.name) == (one.group, one.kind, named) for one, named in ours)


@dataclass(frozen=True, slots=True)
class Audited:
    """`review` is what a creation of the job as it stands would come to, with its own pods' room given back, and what
    is so of it where its pods are (`landed`)."""

    owned: Owned
    review: Review
    state: State
    landed: Landed
    found: tuple[Found, ...]
    story: Story | None = None


def jobs_in(seen: Seen, *, ended: bool = False) -> tuple[Owned, ...]:
    """The jobs, by namespace and name; those that have finished or are being deleted only where `ended` is asked for.
    What a decided job's controller made is its own; what serves is left out, and so is what only holds jobs that are
    still to be created."""
    kinds = seen.world.kinds
    assert kinds is not None
    objects = _Objects(seen.documents, kinds)
    parts: dict[tuple[str, ...], list[Object]] = defaultdict(list)
    tops: dict[tuple[str, ...], Document] = {}
    for one in objects.known:
        workload, top = objects.workload_of(one.object), objects.top_of(one)
        if top is None or workload is None or workload.wraps or workload.serves:
            continue
        if not ended and (_is_over(one.object) or _is_over(top.object)):
            continue
        key = _key_of(top, objects)
        tops[key] = min(tops.get(key, top), top, key=_age)
        if _is_pod(one.object) or one is not top:
            parts[key].append(one.object)
    found = (_owned(top, parts[key]) for key, top in tops.items())
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name, str(one.kind))))


def _owned(top: Document, parts: Iterable[Object]) -> Owned:
    pods = tuple(one for one in parts if _is_pod(one))
    between = tuple(one for one in parts if not _is_pod(one))
    return Owned(top, _kind_of(top.object), pods, between)


def audit_request(owned: Owned, now: float) -> Request:
    """What is asked of a job that is there."""
    return replace(
        creation_of(owned.document.object),
        stage=Stage.AUDIT,
        now=now,
        user=_CONTROLLER if controller_of(owned.document.object.get("metadata")) else User(),
    )


class Auditor:
    """Judges jobs one by one, each in the world without its own pods."""

    def __init__(self, seen: Seen, now: float | None = None) -> None:
        self._seen = seen
        self._world = _denying(seen.world)
        self._now = time.time() if now is None else now
        self._claims = _claims_by_pod(seen.documents)

    def judge(self, owned: Owned) -> Audited | None:
        """None where it is none of our business: it has no devices, or serves, or is under no policy."""
        heard = Listener()
        outcome = review(audit_request(owned, self._now), self.without(owned, self._world), heard)
        job, story = outcome.job, heard.story(outcome)
        if job is None or not job.device_roles or outcome.because:
            return None
        outcome = replace(outcome, language=Language.EN)
        where = landed(_with_devices(owned.pods, job), (role.device for role in job.device_roles), self._world.fleet)
        outcome = with_landing(outcome, where)
        to_queue = story is not None and story.unpinned is Unpinned.QUEUE
        found = tuple(_found(outcome, left_to_queue=to_queue))
        return Audited(owned, outcome, _state(job, where), where, found, story)

    def without(self, owned: Owned, world: World) -> World:
        """This world of the same cluster as if the job's own pods were not there: they take nothing from it."""
        fleet, usage = world.fleet, self._seen.known.usage
        if fleet.free is None or not owned.pods:
            return world
        own = list({pod.uid: pod for one in owned.pods for pod in self._taking(one)}.values())
        busy: set[str] = set()
        try:
            for pod in own:
                busy |= usage.change(pod, None)
            without = changed_fleet(fleet, {}, used=usage.used, busy=busy)
            return replace(world, fleet=without, queued=usage.queued)
        finally:
            for pod in own:
                usage.change(None, pod)

    def _taking(self, obj: Object) -> Iterator[Pod]:
        """The pod and the claims that are reserved for it."""
        with suppress(PodError):
            if (pod := read_pod(obj)) is not None:
                yield pod
        metadata = _metadata(obj)
        yield from self._claims.get((_text(metadata.get("namespace")), _text(metadata.get("name"))), ())


def _found(outcome: Review, *, left_to_queue: bool) -> Iterator[Found]:
    if is_mixed(outcome):
        yield Found.MIXED
    if is_at_risk(outcome):
        yield Found.AT_RISK
    if is_unpinned(outcome, left_to_queue=left_to_queue):
        yield Found.UNPINNED
    if outcome.verdict is Verdict.DENY:
        yield Found.WOULD_BE_DENIED
    if outcome.verdict is Verdict.PIN:
        yield Found.WOULD_BE_PINNED


def _state(job: TrainingJob, where: Landed) -> State:
    if where.bound:
        return State.RUNNING
    return State.SUSPENDED if job.suspended else State.PENDING


def _denying(world: World) -> World:
    """With every policy a Deny policy that shows the fleet: what they would do is what is asked, by those who write
    them."""
    rules = world.rules
    if rules is not None:
        rules = replace(rules, policies=tuple(_as_deny(one) for one in rules.policies))
    return replace(world, policy=_as_deny(world.policy), rules=rules)


def _as_deny(policy: Policy) -> Policy:
    return replace(policy, validation_action=ValidationAction.DENY, fleet_shown=FleetShown.FULL)


def _with_devices(pods: Iterable[Object], job: TrainingJob) -> Iterator[Pod]:
    """Those of the roles that are decided. A pod of a role that stands apart carries that role's name as a label."""
    devices = {role.device for role in job.device_roles}
    apart = {role.name.lower() for role in job.roles if role.apart}
    for obj in pods:
        labels = _metadata(obj).get("labels")
        if apart and isinstance(labels, Mapping) and not apart.isdisjoint(str(one).lower() for one in labels.values()):
            continue
        with suppress(PodError):
            pod = read_pod(obj)
            if pod is not None and (not devices.isdisjoint(pod.requests) or _has_claims(obj)):
                yield pod


def _has_claims(obj: Object) -> bool:
    spec = obj.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("resourceClaims"))


class _Objects:
    """All objects of kinds that are known, by what owner references name them with."""

    def __init__(self, documents: Iterable[Document], kinds: Workloads) -> None:
        self.kinds = kinds
        self._by_name = {
            self._name_of(one.object, _kind_of(one.object)): one
            for one in documents
            if self.workload_of(one.object) is not None
        }

    @property
    def known(self) -> Iterable[Document]:
        """Each once: of two of one name, the last."""
        return self._by_name.values()

    def workload_of(self, obj: Object) -> Workload | None:
        return self.kinds.of(_kind_of(obj))

    def top_of(self, one: Document) -> Document | None:
        """The outermost object whose controller made this one, and decided it; None where that serves."""
        seen: set[int] = set()
        while (owner := controller_of(one.object.get("metadata"))) is not None and id(one) not in seen:
            seen.add(id(one))
            kind = owner.kind
            workload = self.kinds.of_any_version(kind.group, kind.kind)
            if workload is None or workload.children is Children.UNDECIDED:
                return one
            if workload.children is Children.SERVING:
                return None
            above = self._by_name.get(
                (kind.group, kind.kind, _text(_metadata(one.object).get("namespace")), owner.name)
            )
            if above is None:
                return one
            one = above
        return one

    def _name_of(self, obj: Object, kind: Kind) -> tuple[str, str, str, str]:
        metadata = _metadata(obj)
        return kind.group, kind.kind, _text(metadata.get("namespace")), _text(metadata.get("name"))


def _key_of(top: Document, objects: _Objects) -> tuple[str, ...]:
    """What one job is told from others by: its kind and name, and for bare pods their group."""
    metadata, kind, workload = _metadata(top.object), _kind_of(top.object), objects.workload_of(top.object)
    group = ""
    with suppress(Unreadable):
        group = read_group(metadata, workload).name if workload is not None else ""
    own = ("group", group) if group else ("", _text(metadata.get("name")))
    return kind.group, kind.kind, _text(metadata.get("namespace")), *own


def _claims_by_pod(documents: Iterable[Document]) -> dict[tuple[str, str], list[Pod]]:
    """What claims hold, by namespace and name of the one pod that each is reserved for."""
    found: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for one in documents:
        match one.object:
            case {
                "kind": "ResourceClaim",
                "metadata": {"namespace": str(namespace)},
                "status": {"reservedFor": [{"resource": "pods", "name": str(name)}]},
            }:
                if (held := read_claim(one.object)) is not None:
                    found[namespace, name].append(held)
    return found


def _kind_of(obj: Object) -> Kind:
    group, _, version = obj["apiVersion"].rpartition("/")
    return Kind(group, version, obj["kind"])


def _is_over(obj: Object) -> bool:
    return finished(obj) or bool(_metadata(obj).get("deletionTimestamp"))


def _is_pod(obj: Object) -> bool:
    return (obj["apiVersion"], obj["kind"]) == ("v1", "Pod")


def _age(one: Document) -> tuple[str, str]:
    metadata = _metadata(one.object)
    return _text(metadata.get("creationTimestamp")), _text(metadata.get("name"))


def _metadata(obj: Object) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
