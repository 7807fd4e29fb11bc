"""Containers that are to end with the last of their log as their termination message, so that a device that ran out of
memory can be told from it."""

from collections.abc import Iterator

from webhook.model.job import Container, TrainingJob
from webhook.model.placement import Pointer
from webhook.model.policy import Policy, ValidationAction

FALLBACK = "FallbackToLogsOnError"
_DEFAULT = "File"


def ending_with_their_log(
    job: TrainingJob, old: TrainingJob | None, policy: Policy, *, created: bool
) -> tuple[Pointer, ...]:
    """Where `terminationMessagePolicy: FallbackToLogsOnError` is to be written: into the containers that train of a job
    that is created, and into those of an update that had it and lack it now, for a template may not change.

    The API server writes `File` where nothing is set, before it asks any webhook, so that an explicit `File` cannot be
    told from its own. It may be overwritten: with the fallback, too, what the container writes into its file is the
    message, and the log stands in only where that is empty and the container failed (core/v1 TerminationMessagePolicy).
    Pods whose template stands in another object are left alone.
    """
    if not policy.evidence.termination_message or policy.validation_action is ValidationAction.AUDIT:
        return ()
    if job.pin_patches is not None:
        return ()
    before = (
        {(one.role, one.name) for one in old.containers if one.termination == FALLBACK} if old is not None else None
    )
    if before is None and not created:
        return ()
    return tuple(one.at for one in _training(job) if before is None or (one.role, one.name) in before)


def _training(job: TrainingJob) -> Iterator[Container]:
    """Those with devices, whose policy is the default or not set."""
    roles = {role.name for role in job.device_roles if role.overlay is None}
    for one in job.containers:
        if one.read and one.role in roles and one.at[-2] == "containers" and one.termination in ("", _DEFAULT):
            yield one
