"""A pin as RFC 6902 operations: few, and none that replaces what a person wrote."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace as changed
from typing import Any

from webhook.decision.pin import by_selector, narrowed
from webhook.model.job import Overlay, PatchShape, PinPatches, Role, TrainingJob
from webhook.model.patch import AFFINITY_TERMS, JOBS_IN_PATCH, MANAGER, POD_IN_JOB, Operation, add, replace
from webhook.model.placement import Operator, Pointer, Requirement, Term
from webhook.model.policy import Policy
from webhook.model.verdict import Pin

RECORD = "samestep.dev/pinned"


def operations(job: TrainingJob, pin: Pin, policy: Policy) -> list[Operation]:
    """The operations that write `pin` into the job's roles, and its record into the annotations."""
    if job.pin_patches is not None:
        written = _into_patches(job, job.pin_patches, pin)
    else:
        write = _move if pin.moved_from else _narrow
        written = [operation for index in pin.roles for operation in write(job.roles[index], pin)]
        if (also := pin.beside) is not None:
            done = {index: narrowed(job.roles[index], pin) for index in pin.roles}
            written += (one for index in also.roles for one in _narrow(done.get(index, job.roles[index]), also))
    # Without a name there may be no metadata at all. No API server stores such an object: there is nothing to remember.
    nowhere = not job.name and not job.annotations_are_a_map
    return written if nowhere or not pin.ours else [*written, _record(job, pin, policy)]


def _narrow(role: Role, pin: Pin) -> list[Operation]:
    """nodeSelector for one value, required affinity for several; ANDed with everything that is there."""
    if by_selector(role, pin.key, pin.values):
        path = (*role.spec, "nodeSelector")
        value = pin.values[0]
        there = role.placement.node_selector_is_a_map
        return [add((*path, pin.key), value) if there else add(path, {pin.key: value})]
    if not role.placement.terms:
        return [_new_terms(role, _narrowed_terms(role, pin))]
    # Terms are ORed, so each must be narrowed (gardener#7166); an empty one matches nothing and stays empty.
    terms = (*role.spec, *AFFINITY_TERMS)
    return [
        add((*terms, index, "matchExpressions", "-"), _requirement(pin))
        if term.expressions_are_a_list
        else add((*terms, index, "matchExpressions"), [_requirement(pin)])
        for index, term in enumerate(role.placement.terms)
        if not term.empty
    ]


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


def _into_patches(job: TrainingJob, patches: PinPatches, pin: Pin) -> list[Operation]:
    """In what the object lays over its runtime: where that has a place for the role, there; else in an entry of ours.

    Ours is the first: what a later one says of the same key stands, as it would without us, and where a queue adds
    its own behind it and the submitter's file drops ours, it is put back where it was.
    """
    written: list[Operation] = []
    made: dict[str, dict[str, Any]] = {}
    for index in pin.roles:
        role = job.roles[index]
        over = role.overlay or Overlay()
        selects = by_selector(role, pin.key, pin.values, moves=bool(pin.moved_from))
        # Of affinity the one whose terms are in force, if that is in the object.
        at = over.at if selects or over.terms_at is None else over.terms_at
        if at is None:
            made[role.name] = _pod(role, pin)
        elif pin.moved_from:
            written += _move(changed(role, spec=at), pin)
        elif not selects and at != over.terms_at:
            depth = changed(role.placement, affinity_depth=over.affinity_depth)
            written.append(_new_terms(changed(role, spec=at, placement=depth), _narrowed_terms(role, pin)))
        else:
            place = changed(role.placement, node_selector_is_a_map=over.node_selector is not None)
            written += _narrow(changed(role, spec=at, placement=place), pin)
    # Roles may share an entry: what is written there is written once.
    once = [one for index, one in enumerate(written) if one not in written[:index]]
    return [*once, *(_entries(patches, made) if made else ())]


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


def _pod(role: Role, pin: Pin) -> dict[str, Any]:
    if by_selector(role, pin.key, pin.values):
        return {"nodeSelector": {pin.key: pin.values[0]}}
    return {AFFINITY_TERMS[0]: _nested(AFFINITY_TERMS[1:], _narrowed_terms(role, pin))}


def _nested(path: tuple[str, ...], value: Any) -> Any:  # noqa: ANN401 - JSON
    for step in reversed(path):
        value = {step: value}
    return value


def _requirement(pin: Pin) -> dict[str, Any]:
    return {"key": pin.key, "operator": "In", "values": list(pin.values)}


def _narrowed_terms(role: Role, pin: Pin) -> list[dict[str, Any]]:
    """The terms in force, each narrowed, as they are written where there are none yet."""
    terms = role.placement.terms or ()
    return [_written(term, _requirement(pin)) for term in terms] or [{"matchExpressions": [_requirement(pin)]}]


def _written(term: Term, more: dict[str, Any]) -> dict[str, Any]:
    if term.empty:
        return {}
    expressions = [*map(_spelled, term.expressions), more]
    fields = {"matchFields": [*map(_spelled, term.fields)]} if term.fields else {}
    return {"matchExpressions": expressions, **fields}


def _spelled(one: Requirement) -> dict[str, Any]:
    spelled: dict[str, Any] = {"key": one.key, "operator": one.operator.value}
    return {**spelled, "values": list(one.values)} if one.values else spelled


def _new_terms(role: Role, terms: list[dict[str, Any]]) -> Operation:
    """The missing parents are made, and no more (kubernetes#90623)."""
    depth = min(role.placement.affinity_depth, len(AFFINITY_TERMS) - 1)
    return add((*role.spec, *AFFINITY_TERMS[: depth + 1]), _nested(AFFINITY_TERMS[depth + 1 :], terms))


def _record(job: TrainingJob, pin: Pin, policy: Policy) -> Operation:
    """The pin record holds no time and no counter: GitOps tools would see the object change for ever."""
    record = json.dumps({"key": pin.key, "values": list(pin.values), "policy": policy.name}, separators=(",", ":"))
    if job.annotations_are_a_map:
        return add(("metadata", "annotations", RECORD), record)
    return add(("metadata", "annotations"), {RECORD: record})
