"""A pin, and what comes with a pool, as RFC 6902 operations: few, and none that replaces what a person wrote.

The exception is how a container ends, where policy wants that: its default cannot be told from what a person wrote.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace as changed
from typing import Any

import orjson

from webhook.decision.pin import by_selector
from webhook.evidence.termination import FALLBACK
from webhook.model.job import Overlay, PatchShape, PinPatches, Role, TrainingJob
from webhook.model.patch import AFFINITY_TERMS, JOBS_IN_PATCH, MANAGER, POD_IN_JOB, Operation, add, pointer, replace
from webhook.model.placement import Operator, Pointer, Requirement, Term, Toleration
from webhook.model.policy import Policy
from webhook.model.verdict import Addition, Given, Pin

RECORD = "samestep.dev/pinned"
_NOTHING = Addition()
_ANNOTATIONS: Pointer = ("metadata", "annotations")


def operations(
    job: TrainingJob, pin: Pin | None, policy: Policy, *, given: Given | None = None, pool: str = ""
) -> list[Operation]:
    """The operations that write `pin`, and what is `given` with the pool called so, into the job's roles, and the
    record of both into the annotations."""
    added = _added(job, pin, given)
    if job.pin_patches is not None:
        written = _into_patches(job, job.pin_patches, pin, added)
    else:
        moved = _moved(job, pin) if pin is not None and pin.moved_from else []
        written = [*moved, *(one for index, addition in added.items() for one in _add(job.roles[index], addition))]
    if given is not None and given.queue is not None:
        written += [add(slot.at, _nested(slot.below, given.queue.name)) for slot in given.slots]
    # Without a name there may be no metadata at all. No API server stores such an object: there is nothing to remember.
    nowhere = not job.name and not job.annotations_are_a_map
    ours = pin if pin is not None and pin.ours else None
    if nowhere or not (ours or pool):
        return written
    # A Pod's queue may have made the map already.
    there = job.annotations_are_a_map or any(one["path"] == pointer(_ANNOTATIONS) for one in written)
    return [*written, _record(ours, policy, pool, there=there)]


def ending_with_log(containers: Iterable[Pointer]) -> list[Operation]:
    """The operations that make these containers end with the last of their log as their termination message."""
    return [add((*at, "terminationMessagePolicy"), FALLBACK) for at in containers]


def _added(job: TrainingJob, pin: Pin | None, given: Given | None) -> dict[int, Addition]:
    """By role, what the pool and the pin add to it: nodeSelector for one value, required affinity for several."""
    added = dict(given.additions) if given is not None else {}
    for new in pin.every if pin is not None else ():
        # What takes the place of an earlier pin is moved, not added.
        for index in new.roles if not new.moved_from else ():
            one = added.get(index, _NOTHING)
            if by_selector(job.roles[index], new.key, new.values) and new.key not in dict(one.selector):
                added[index] = one._replace(selector=(*one.selector, (new.key, new.values[0])))
            else:
                ours = Requirement(new.key, Operator.IN, new.values)
                added[index] = one._replace(expressions=(*one.expressions, ours))
    return dict(sorted(added.items()))


def _add(role: Role, addition: Addition) -> list[Operation]:
    """ANDed with everything that is there."""
    written = _selecting(role, addition.selector) if addition.selector else []
    if addition.expressions:
        written += _expressing(role, addition.expressions)
    if addition.tolerations:
        written += _tolerating(role, addition.tolerations)
    if addition.scheduler:
        written.append(add((*role.spec, "schedulerName"), addition.scheduler))
    return written


def _selecting(role: Role, selector: Iterable[tuple[str, str]]) -> list[Operation]:
    path = (*role.spec, "nodeSelector")
    if role.placement.node_selector_is_a_map:
        return [add((*path, key), value) for key, value in selector]
    return [add(path, dict(selector))]


def _expressing(role: Role, expressions: Iterable[Requirement]) -> list[Operation]:
    spelled = [*map(_spelled, expressions)]
    if not role.placement.terms:
        return [_new_terms(role, _narrowed_terms(role, spelled))]
    # Terms are ORed, so each must be narrowed (gardener#7166); an empty one matches nothing and stays empty.
    written = []
    for index, term in enumerate(role.placement.terms):
        path = (*role.spec, *AFFINITY_TERMS, index, "matchExpressions")
        if not term.empty and term.expressions_are_a_list:
            written += [add((*path, "-"), one) for one in spelled]
        elif not term.empty:
            written.append(add(path, spelled))
    return written


def _tolerating(role: Role, tolerations: Iterable[Toleration]) -> list[Operation]:
    path, spelled = (*role.spec, "tolerations"), [*map(_spelled_toleration, tolerations)]
    return [add((*path, "-"), one) for one in spelled] if role.placement.tolerations else [add(path, spelled)]


def _moved(job: TrainingJob, pin: Pin) -> list[Operation]:
    return [operation for index in pin.roles for operation in _move(job.roles[index], pin)]


def _move(role: Role, pin: Pin) -> list[Operation]:
    """Our own earlier pin, by the same key and in the same form, gets the new values."""
    if len(pin.values) == 1:
        return [add((*role.spec, "nodeSelector", pin.key), pin.values[0])]
    ours = Requirement(pin.key, Operator.IN, pin.moved_from)
    return [
        replace((*role.spec, *AFFINITY_TERMS, index, "matchExpressions", at, "values"), list(pin.values))
        for index, term in enumerate(role.placement.terms or ())
        for at, one in enumerate(term.expressions)
        if one == ours
    ]


def _into_patches(
    job: TrainingJob, patches: PinPatches, pin: Pin | None, added: Mapping[int, Addition]
) -> list[Operation]:
    """In what the object lays over its runtime: where that has a place for the role, there; else in an entry of ours.

    Ours is the first: what a later one says of the same key stands, as it would without us, and where a queue adds
    its own behind it and the submitter's file drops ours, it is put back where it was.
    """
    written: list[Operation] = []
    made: dict[str, dict[str, Any]] = {}
    for index in pin.roles if pin is not None and pin.moved_from else ():
        role = job.roles[index]
        over = role.overlay or Overlay()
        selects = pin is not None and by_selector(role, pin.key, pin.values, moves=True)
        at = over.at if selects or over.terms_at is None else over.terms_at
        if pin is not None and at is not None:
            written += _move(changed(role, spec=at), pin)
    for index, addition in added.items():
        role = job.roles[index]
        operations, pod = _over(role, role.overlay or Overlay(), addition)
        written += operations
        if pod:
            made[role.name] = pod
    # Roles may share an entry: what is written there is written once.
    once = [one for index, one in enumerate(written) if one not in written[:index]]
    return [*once, *(_entries(patches, made) if made else ())]


def _over(role: Role, over: Overlay, addition: Addition) -> tuple[list[Operation], dict[str, Any]]:
    """What is written into entries that are there, and the pod spec of an entry that is to be made."""
    written: list[Operation] = []
    pod: dict[str, Any] = {}
    if addition.selector:
        if over.at is None:
            pod["nodeSelector"] = dict(addition.selector)
        else:
            place = changed(role.placement, node_selector_is_a_map=over.node_selector is not None)
            written += _selecting(changed(role, spec=over.at, placement=place), addition.selector)
    # Of affinity and tolerations, the entry whose list is in force, if that is in the object. Elsewhere the whole list
    # is written: one takes the place of the other.
    if addition.expressions:
        terms = _narrowed_terms(role, [*map(_spelled, addition.expressions)])
        if over.terms_at is not None:
            written += _expressing(changed(role, spec=over.terms_at), addition.expressions)
        elif over.at is None:
            pod[AFFINITY_TERMS[0]] = _nested(AFFINITY_TERMS[1:], terms)
        else:
            depth = changed(role.placement, affinity_depth=over.affinity_depth)
            written.append(_new_terms(changed(role, spec=over.at, placement=depth), terms))
    if addition.tolerations:
        whole = [*map(_spelled_toleration, (*role.placement.tolerations, *addition.tolerations))]
        if over.tolerations_at is not None:
            written += _tolerating(changed(role, spec=over.tolerations_at), addition.tolerations)
        elif over.at is None:
            pod["tolerations"] = whole
        else:
            written.append(add((*over.at, "tolerations"), whole))
    return written, pod


def _entries(patches: PinPatches, pods: Mapping[str, dict[str, Any]]) -> Iterator[Operation]:
    """One entry for all these roles, by name; one for each pod spec where an entry can hold only one."""
    at: Pointer = ("spec", patches.shape.value)
    if patches.shape is PatchShape.RUNTIME_PATCHES:
        jobs = [{"name": name, **_nested(POD_IN_JOB, pod)} for name, pod in pods.items()]
        if patches.own_jobs:
            yield from (add((*at, patches.own or 0, *JOBS_IN_PATCH, "-"), job) for job in jobs)
        elif patches.own is not None:
            yield add((*at, patches.own, JOBS_IN_PATCH[0]), _nested(JOBS_IN_PATCH, jobs)[JOBS_IN_PATCH[0]])
        else:
            yield from _first(patches, at, [{"manager": MANAGER, **_nested(JOBS_IN_PATCH, jobs)}])
        return
    alike: list[tuple[dict[str, Any], list[str]]] = []
    for name, pod in pods.items():
        names = next((names for one, names in alike if one == pod), None)
        if names is None:
            alike.append((pod, names := []))
        names.append(name)
    inline = patches.shape is PatchShape.POD_SPEC_OVERRIDES
    yield from _first(
        patches,
        at,
        [
            {"targetJobs": [{"name": one} for one in names], **(pod if inline else {"spec": pod})}
            for pod, names in alike
        ],
    )


def _first(patches: PinPatches, at: Pointer, entries: list[dict[str, Any]]) -> list[Operation]:
    if not patches.there:
        return [add(at, entries)]
    return [add((*at, 0), entry) for entry in reversed(entries)]


def _nested(path: Pointer, value: Any) -> Any:  # noqa: ANN401 - JSON
    for step in reversed(path):
        value = {step: value}
    return value


def _narrowed_terms(role: Role, more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The terms in force, each narrowed, as they are written where there are none yet."""
    terms = role.placement.terms or ()
    return [_written(term, more) for term in terms] or [{"matchExpressions": more}]


def _written(term: Term, more: list[dict[str, Any]]) -> dict[str, Any]:
    if term.empty:
        return {}
    expressions = [*map(_spelled, term.expressions), *more]
    fields = {"matchFields": [*map(_spelled, term.fields)]} if term.fields else {}
    return {"matchExpressions": expressions, **fields}


def _spelled(one: Requirement) -> dict[str, Any]:
    spelled: dict[str, Any] = {"key": one.key, "operator": one.operator.value}
    return {**spelled, "values": list(one.values)} if one.values else spelled


def _new_terms(role: Role, terms: list[dict[str, Any]]) -> Operation:
    """The missing parents are made, and no more (kubernetes#90623)."""
    depth = min(role.placement.affinity_depth, len(AFFINITY_TERMS) - 1)
    return add((*role.spec, *AFFINITY_TERMS[: depth + 1]), _nested(AFFINITY_TERMS[depth + 1 :], terms))


def _spelled_toleration(one: Toleration) -> dict[str, Any]:
    said = {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
    spelled: dict[str, Any] = {name: text for name, text in said.items() if text}
    return spelled if one.seconds is None else {**spelled, "tolerationSeconds": one.seconds}


def _record(pin: Pin | None, policy: Policy, pool: str, *, there: bool) -> Operation:
    """The pin record holds no time and no counter: GitOps tools would see the object change for ever."""
    of_pin = {"key": pin.key, "values": list(pin.values)} if pin is not None else {}
    of_pool = {"pool": pool} if pool else {}
    record = orjson.dumps({**of_pin, "policy": policy.name, **of_pool}).decode()
    return add((*_ANNOTATIONS, RECORD), record) if there else add(_ANNOTATIONS, {RECORD: record})
