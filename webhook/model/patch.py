"""RFC 6902 operations and RFC 6901 pointers."""

from typing import Any, Literal, NotRequired, TypedDict

from webhook.model.placement import Pointer

AFFINITY_TERMS = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
"""From a pod spec to the terms of its required node affinity."""

MANAGER = "samestep.dev/pin"
"""Names our entry among a TrainJob's runtimePatches; it has to be a domain-prefixed path (kubeflow/trainer v2.2,
pkg/runtime/framework/plugins/jobset/jobset.go, Validate)."""

JOBS_IN_PATCH = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
POD_IN_JOB = ("template", "spec", "template", "spec")
"""From a replicated job, in a runtime and in a patch alike, to the pod spec."""


class Operation(TypedDict):
    """One RFC 6902 operation. We never remove what a person wrote, so there is no `from`."""

    op: Literal["add", "replace", "test"]
    path: str
    value: NotRequired[Any]


def pointer(path: Pointer) -> str:
    """The JSON Pointer of a path; "/" and "~" inside a step are escaped (open-policy-agent/library#25)."""
    return "".join([f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path])


def steps(text: str) -> Pointer:
    """The path of a JSON Pointer; a step of digits is taken for the place in a list."""
    unescaped = (step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])
    return tuple(int(step) if step.isdecimal() else step for step in unescaped)


def add(path: Pointer, value: Any) -> Operation:  # noqa: ANN401 - JSON
    """Add a member (RFC 6902: one that is there is replaced) or insert into a list."""
    return {"op": "add", "path": pointer(path), "value": value}


def replace(path: Pointer, value: Any) -> Operation:  # noqa: ANN401 - JSON
    """Replace a value that is there."""
    return {"op": "replace", "path": pointer(path), "value": value}
