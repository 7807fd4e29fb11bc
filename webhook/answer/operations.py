"""A pin as RFC 6902 operations: few, and none that replaces what a person wrote."""

import json

from webhook.model.job import Role, TrainingJob
from webhook.model.patch import Operation, add, replace
from webhook.model.placement import Operator, Pointer, Requirement
from webhook.model.policy import Policy
from webhook.model.verdict import Pin

RECORD = "samestep.dev/pinned"


def operations(job: TrainingJob, pin: Pin, policy: Policy) -> list[Operation]:
    """The operations that write `pin` into the job's roles, and its record into the annotations."""
    write = _move if pin.moved_from else _narrow
    written = [operation for index in pin.roles for operation in write(job.roles[index], pin)]
    # Without a name there may be no metadata at all. No API server stores such an object: there is nothing to remember.
    nowhere = not job.name and not job.annotations_are_a_map
    return written if nowhere or not pin.ours else [*written, _record(job, pin, policy)]


def _narrow(role: Role, pin: Pin) -> list[Operation]:
    """nodeSelector for one value, required affinity for several; ANDed with everything that is there."""
    placement = role.placement
    # A role without pods may select another value: that stands, and beside it the pin keeps the role off all nodes.
    if len(pin.values) == 1 and pin.key not in dict(placement.node_selector):
        path = (*role.spec, "nodeSelector")
        value = pin.values[0]
        return [add((*path, pin.key), value) if placement.node_selector_is_a_map else add(path, {pin.key: value})]
    requirement = {"key": pin.key, "operator": "In", "values": list(pin.values)}
    if not placement.terms:
        return [_new_term(role, {"matchExpressions": [requirement]})]
    # Terms are ORed, so each must be narrowed (gardener#7166); an empty one matches nothing and stays empty.
    terms = (*role.spec, *_AFFINITY)
    return [
        add((*terms, index, "matchExpressions", "-"), requirement)
        if term.expressions_are_a_list
        else add((*terms, index, "matchExpressions"), [requirement])
        for index, term in enumerate(placement.terms)
        if not term.empty
    ]


def _move(role: Role, pin: Pin) -> list[Operation]:
    """Our own earlier pin, by the same key and in the same form, gets the new values."""
    if len(pin.values) == 1:
        return [add((*role.spec, "nodeSelector", pin.key), pin.values[0])]
    ours = Requirement(pin.key, Operator.IN, pin.moved_from)
    return [
        replace((*role.spec, *_AFFINITY, index, "matchExpressions", at, "values"), list(pin.values))
        for index, term in enumerate(role.placement.terms or ())
        for at, one in enumerate(term.expressions)
        if one == ours
    ]


_AFFINITY: Pointer = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def _new_term(role: Role, term: dict[str, object]) -> Operation:
    """The missing parents are made, and no more (kubernetes#90623)."""
    depth = min(role.placement.affinity_depth, len(_AFFINITY) - 1)
    value: object = [term]
    for step in reversed(_AFFINITY[depth + 1 :]):
        value = {step: value}
    return add((*role.spec, *_AFFINITY[: depth + 1]), value)


def _record(job: TrainingJob, pin: Pin, policy: Policy) -> Operation:
    """The pin record holds no time and no counter: GitOps tools would see the object change for ever."""
    record = json.dumps({"key": pin.key, "values": list(pin.values), "policy": policy.name}, separators=(",", ":"))
    if job.annotations_are_a_map:
        return add(("metadata", "annotations", RECORD), record)
    return add(("metadata", "annotations"), {RECORD: record})
