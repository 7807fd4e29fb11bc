"""A job that is there: its pin, why it waits, where its pods are, and what can be done about it. What stands in the
cluster is told as it stands; what is decided is decided again now."""

import copy
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from webhook.answer.wording import one_line, sentence, slowed
from webhook.cli.audit import landing_document, told_landing
from webhook.cli.audited import Audited, Auditor, Found, Owned, audit_request, jobs_in
from webhook.cli.documents import Document
from webhook.cli.printing import cut, put, table, wrapped
from webhook.cli.reading import Explained, Reader
from webhook.cli.seen import Seen
from webhook.decision.pin import requires
from webhook.intake.annotations import PREFIX
from webhook.intake.finished import finished
from webhook.intake.read import name_of, read_job
from webhook.model.job import PinRecord, TrainingJob
from webhook.model.placement import Pointer
from webhook.model.request import Object
from webhook.model.verdict import Candidate, Verdict, named
from webhook.model.workload import Workload

_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_MOST_PODS = 32
_HELD_BY = frozenset({"Workload", "PodGroup"})
"""Kinds by which queues hold a job back, and say why: Kueue's Workload; Volcano's and the scheduler plugins' PodGroup,
which are the job's own as its pods are."""


class NotThereError(click.ClickException):
    """No such job; the message says what there is."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why so many pods, or the whole job, wait, by whose word."""

    by: str
    message: str
    pods: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where one pod is. `model` is empty where its node is none of one known model."""

    name: str
    node: str
    model: str


@dataclass(frozen=True, slots=True)
class Pinned:
    """The recorded pin; `holds`: the selectors that it stands for are there."""

    record: PinRecord
    holds: bool


@dataclass(frozen=True, slots=True)
class Living:
    """`audited` is None where the job is none of our business, or has finished. `explained` has the decision of now,
    without the pin that Samestep gave where it could be taken out (`without_pin`), and none where who asks may not see
    the nodes: nothing is `found` then either."""

    owned: Owned
    asked_for: str
    ended: bool
    pinned: Pinned | None
    audited: Audited | None
    pods: tuple[Place, ...]
    waiting: tuple[Waiting, ...]
    moves: tuple[str, ...]
    explained: Explained
    without_pin: bool


def living(seen: Seen, asked_for: str, namespace: str, now: float | None = None) -> Living:
    """What there is to say of `TYPE/NAME`, as kubectl takes it; `now` is in seconds since the epoch, None the clock's.
    Raises NotThereError."""
    now = time.time() if now is None else now
    owned = _find(seen, asked_for, namespace)
    auditor = Auditor(seen, now)
    audited = auditor.judge(owned)
    if audited is not None and seen.blind:
        audited = replace(audited, found=())
    job, entry = _read(owned, seen)
    request = audit_request(owned, now)
    bare = _unpinned(owned.document.object, job) if job is not None else None
    if bare is not None:
        request = replace(request, object=bare)
    explained = Reader(auditor.without(owned, seen.world), decided=not seen.blind).explained(request)
    ended = finished(owned.document.object)
    return Living(
        owned=owned,
        asked_for=asked_for,
        ended=ended,
        pinned=_pinned(job),
        audited=audited,
        pods=tuple(_place(pod, seen) for pod in owned.pods),
        waiting=() if ended else tuple(_waiting(owned, job, seen)),
        moves=tuple(_moves(job, entry, explained)) if job is not None and entry is not None and not ended else (),
        explained=explained,
        without_pin=bare is not None,
    )


def show_living(one: Living) -> None:
    """Print what is so; the decision of now is printed after it."""
    owned = one.owned
    name = f"{owned.kind.kind.lower()}/{one_line(owned.name)}"
    click.echo(f"{name}  namespace {one_line(owned.namespace)}")
    if not one.asked_for.endswith(f"/{owned.name}"):
        put(f"{one.asked_for} is part of it.", 2)
    put(f"State: {_state(one)}", 2)
    put(f"Pin: {_pin(one)}", 2)
    if one.audited is not None and one.explained.review is not None:
        put(f"Pods are on: {told_landing(one.audited.landed) or 'no node, there are none'}", 2)
        if Found.MIXED in one.audited.found:
            finding = one.audited.review.decision.findings[0]
            put(f"{finding.code} {sentence(finding, one.audited.review)}", 2)
            if one.audited.review.decision.straggler is not None:
                put(slowed(one.audited.review.decision.straggler), 2)
    if one.pods:
        click.echo()
        rows = table(("POD", "NODE", "MODEL"))
        for pod in one.pods[:_MOST_PODS]:
            rows.add_row(one_line(pod.name), one_line(pod.node) or "none yet", pod.model)
        put(rows, 2)
        if more := len(one.pods[_MOST_PODS:]):
            put(f"and {more} more; -o json has them all", 2)
    if one.waiting:
        click.echo()
        rows = table(("PODS", "WAIT BY", "BECAUSE"))
        for reason in one.waiting:
            rows.add_row(str(reason.pods or ""), cut(reason.by), cut(reason.message))
        put(rows, 2)
    if one.moves:
        click.echo()
        put("To move it:", 2)
        for line in one.moves:
            click.echo("\n".join(wrapped(f"- {line}", 2)))
    click.echo()
    click.echo("\n".join(wrapped(_how_decided(one), 0)))
    click.echo()


def _how_decided(one: Living) -> str:
    if one.explained.review is None:
        return "Not decided again, and the models of its pods are not known: you may not list nodes. What is read:"
    without = " without the pin that it has," if one.without_pin else ""
    told = (
        f"Decided again now,{without} as if it were created in the cluster as it is; the room of its own pods is free. "
        "When it was created, nodes, pods and policies may have been others"
    )
    if one.explained.review.as_nobody:
        told += "; and whoever created it may be in a group that pools or policies ask for, which is not known here"
    return f"{told}:"


def living_document(one: Living) -> dict[str, Any]:
    """The same for programs. Every key is always there; keys are only ever added."""
    record = one.pinned.record if one.pinned else None
    return {
        "state": _state(one),
        "pinned": {
            "key": record.key,
            "values": list(record.values),
            "policy": record.policy,
            "holds": one.pinned.holds,
        }
        if record and one.pinned
        else None,
        "found": list(one.audited.found) if one.audited else [],
        "landed": landing_document(one.audited.landed) if one.audited else None,
        "pods": [{"name": pod.name, "node": pod.node or None, "model": pod.model or None} for pod in one.pods],
        "waiting": [{"by": each.by, "pods": each.pods, "message": one_line(each.message)} for each in one.waiting],
        "moves": list(one.moves),
        "decidedWithoutPin": one.without_pin,
        "decidedAsNobody": one.explained.review is not None and one.explained.review.as_nobody,
    }


def _find(seen: Seen, asked_for: str, namespace: str) -> Owned:
    kind, _, name = asked_for.partition("/")
    wanted = {(one.group, one.kind) for one in _kinds(seen) if kind.lower() in one.names}
    if not wanted:
        raise NotThereError(f'no kind of job is called "{kind}" here')
    elsewhere: list[str] = []
    for owned in jobs_in(seen, ended=True):
        ours = [owned.document.object, *owned.pods, *owned.between]
        if any((_group(one), one["kind"]) in wanted and name_of(one) == name for one in ours):
            if owned.namespace == namespace:
                return owned
            elsewhere.append(owned.namespace)
    if seen.lacks_namespace(namespace):
        told = f"there is no namespace {namespace}"
    else:
        where = "among what may be listed of" if seen.problems else "in"
        told = f"there is no {asked_for} that can be a training job {where} namespace {namespace}"
    raise NotThereError(f"{told}; there is one in {', '.join(elsewhere[:3])} (-n)" if elsewhere else told)


@dataclass(frozen=True, slots=True)
class _Kind:
    group: str
    kind: str
    names: tuple[str, ...]


def _kinds(seen: Seen) -> Iterator[_Kind]:
    for served in seen.served:
        yield _Kind(served.group, served.kind, served.names)
    known = seen.world.kinds
    for one in known.entries if known is not None else ():
        bare = (one.plural, one.kind.lower())
        grouped = (f"{name}.{one.group}" for name in bare) if one.group else ()
        yield _Kind(one.group, one.kind, (*bare, *grouped))


def _group(obj: Object) -> str:
    return str(obj["apiVersion"]).rpartition("/")[0]


def _read(owned: Owned, seen: Seen) -> tuple[TrainingJob | None, Workload | None]:
    request, known = audit_request(owned, 0.0), seen.world.kinds
    found = read_job(
        request.object,
        kind=request.kind,
        namespace=request.namespace,
        user=request.user,
        known=known,
        surroundings=seen.world.surroundings,
    )
    entry = known.of(request.kind) if known is not None else None
    return (found if isinstance(found, TrainingJob) else None), entry


def _pinned(job: TrainingJob | None) -> Pinned | None:
    if job is None or job.record is None:
        return None
    record = job.record
    holds = all(requires(role, record.key, record.values) for role in job.device_roles)
    return Pinned(record, holds and bool(job.device_roles))


def _place(pod: Object, seen: Seen) -> Place:
    node = _node_of(pod)
    fleet = seen.world.fleet
    on = fleet.names.equal(node) if node else 0
    models = (model.name for one in fleet.devices.values() for model, nodes in one.models.items() if on & nodes)
    return Place(name_of(pod), node, next(models, ""))


def _node_of(pod: Object) -> str:
    spec = pod.get("spec")
    node = spec.get("nodeName") if isinstance(spec, Mapping) else None
    return node if isinstance(node, str) else ""


def _unpinned(obj: Object, job: TrainingJob) -> dict[str, Any] | None:
    """The object without the pin that is recorded on it; None where there is none that stands in its pod specs."""
    if job.record is None:
        return None
    bare: dict[str, Any] = copy.deepcopy(dict(obj))
    taken = [_taken_out(_at(bare, role.spec), job.record) for role in job.device_roles if role.overlay is None]
    if not any(taken):
        return None
    del bare["metadata"]["annotations"][f"{PREFIX}pinned"]
    return bare


def _taken_out(spec: dict[str, Any], record: PinRecord) -> bool:
    selector = spec.get("nodeSelector") or {}
    if len(record.values) == 1 and selector.get(record.key) == record.values[0]:
        del selector[record.key]
        if not selector:
            del spec["nodeSelector"]
        return True
    ours = {"key": record.key, "operator": "In", "values": list(record.values)}
    terms: Any = spec
    for step in _TERMS:
        terms = terms.get(step) if isinstance(terms, dict) else None
    found = False
    for term in terms if isinstance(terms, list) else ():
        if ours in (term.get("matchExpressions") or ()):
            term["matchExpressions"].remove(ours)
            found = True
    # A term without any requirement matches nothing; ours was then the only one.
    if found and not any(term.get("matchExpressions") or term.get("matchFields") for term in terms):
        del spec["affinity"]["nodeAffinity"][_TERMS[2]]
    return found


def _at(obj: dict[str, Any], path: Pointer) -> Any:  # noqa: ANN401 - JSON
    value: Any = obj
    for step in path:
        value = value[step]
    return value


def _waiting(owned: Owned, job: TrainingJob | None, seen: Seen) -> Iterator[Waiting]:
    if job is not None and job.suspended:
        queue = job.queue.name if job.queue is not None else ""
        yield Waiting("its own object", f"held back{f'; its queue is {queue}' if queue else ' (suspended)'}")
    yield from _of_queues(owned, seen.documents)
    messages: Counter[tuple[str, str]] = Counter()
    for pod in owned.pods:
        if not _node_of(pod):
            messages[_of_scheduler(pod)] += 1
    for (by, message), pods in messages.items():
        yield Waiting(by, message, pods)
    yield from _of_events(owned, seen.documents)


def _of_scheduler(pod: Object) -> tuple[str, str]:
    for one in _conditions(pod):
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return "scheduler", f"{one.get('reason', '')}: {one.get('message', '')}".strip(": ")
    return "scheduler", "it has not looked at the pod yet"


def _of_queues(owned: Owned, documents: Iterable[Document]) -> Iterator[Waiting]:
    """What Workloads and PodGroups of the job say that is not so yet."""
    for one in documents:
        if one.object["kind"] in _HELD_BY and owned.owns(one.object):
            for condition in _conditions(one.object):
                waits = condition.get("status") == "False" or condition.get("type") == "Unschedulable"
                if waits and condition.get("message"):
                    yield Waiting(one.object["kind"], f"{condition.get('type')}: {condition['message']}")


def _of_events(owned: Owned, documents: Iterable[Document]) -> Iterator[Waiting]:
    """Why no more pods are made (a ResourceQuota, an admission webhook): the last word of each reason."""
    last: dict[str, Object] = {}
    names = {(one["kind"], name_of(one)) for one in (owned.document.object, *owned.between)}
    for one in documents:
        match one.object:
            case {
                "kind": "Event",
                "type": "Warning",
                "reason": str(reason),
                "involvedObject": {"kind": str(kind), "name": str(name)},
                "metadata": {"namespace": owned.namespace},
            } if (kind, name) in names and reason.startswith("Failed"):
                if reason not in last or _when(one.object) >= _when(last[reason]):
                    last[reason] = one.object
    for reason, event in last.items():
        yield Waiting(f"event {reason}", str(event.get("message", "")))


def _when(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _conditions(obj: Object) -> Iterator[Mapping[str, Any]]:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    yield from (one for one in (conditions if isinstance(conditions, list) else ()) if isinstance(one, Mapping))


def _moves(job: TrainingJob, entry: Workload, explained: Explained) -> Iterator[str]:
    """What can be changed on an object of this kind as it stands now, and what only on a new one."""
    if not job.device_roles:
        return
    what = f"{job.kind.kind.lower()}/{job.name}"
    field = f"nodeSelector of {job.device_roles[0].name}"
    if job.record is not None:
        yield (
            f"the annotation {PREFIX}pinned is only a record: what keeps the job on its model is {job.record.key} in "
            f"the selectors of its pods, and both have to go"
        )
    if job.started:
        yield "pods that have a node stay there: nothing moves them but making them anew"
    if job.narrows_only and not job.started:
        yield "while a scheduling gate is there, its selectors may be narrowed, and not taken out"
    elif job.selector_only and not job.started:
        yield "while it is suspended, nodeSelector and tolerations may be changed, and affinity not"
    elif job.template_fixed:
        without = ", without the pin" if job.record is not None else ""
        yield f"its pod template cannot change any more: delete {what} and create it again{without}"
    elif entry.template == "Free" and job.started:
        yield f"a change of its template counts for pods made from then on: change it, then delete the pods of {what}"
    else:
        yield f"it has not started: change the {field}, and it is decided again"
    review = explained.review
    if review is not None and review.verdict is Verdict.PIN and job.record is None and review.decision.models:
        yield f"deleted and created again, it would be pinned to {named(review.decision.models)} now"
    for one in _others(review.decision.pool.candidates, review.decision.models) if review is not None else ():
        free = "" if one.devices_now is None else f" ({one.devices_now} of {one.devices} devices are free now)"
        wish = f'annotation {PREFIX}model: "{one.model.product}"'
        selector = f"a selector for {one.model.product}"
        listens = review is not None and review.policy.model
        yield f"for {one.model.name}{free}: create it with the {wish if listens else selector}"


def _others(candidates: Sequence[Candidate], chosen: Sequence[object]) -> Iterator[Candidate]:
    return (one for one in candidates if not one.out and one.model not in chosen)


def _state(one: Living) -> str:
    if one.ended:
        return "Finished"
    return one.audited.state.value if one.audited is not None else "none of Samestep's business"


def _pin(one: Living) -> str:
    if one.pinned is None:
        return "none recorded"
    record = one.pinned.record
    told = f"{record.key} = {', '.join(record.values)}, by policy {record.policy or 'unknown'}"
    return told if one.pinned.holds else f"{told}; recorded, and its selectors do not require it any more"
