"""Whether a job has come to its end, by what its controller writes into its status."""

from collections.abc import Mapping
from typing import Any

from webhook.model.request import Object

_ENDED = frozenset({"Complete", "Completed", "Failed", "Finished", "Succeeded"})
"""Types of conditions that are True at the end: Job (Complete, Failed), the training operator's kinds (Succeeded,
Failed), JobSet and MPIJob (Completed, Succeeded), TrainJob (Complete, Failed)."""
_PHASES = frozenset({"aborted", "completed", "failed", "stopped", "succeeded", "terminated"})
"""What a phase is called at the end, in any case: Pod (phase), Volcano's Job (state.phase), RayJob (jobStatus)."""
_AT = (("phase",), ("state", "phase"), ("jobStatus",))


def finished(obj: Object) -> bool:
    """Whether it runs no more and will not run again by itself. Never raises."""
    status = _map(obj.get("status"))
    conditions = status.get("conditions")
    for one in conditions if isinstance(conditions, list) else ():
        if _map(one).get("type") in _ENDED and _map(one).get("status") == "True":
            return True
    return any(_phase(status, path) in _PHASES for path in _AT)


def _phase(status: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: object = status
    for step in path:
        value = _map(value).get(step)
    return value.lower() if isinstance(value, str) else ""


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
