"""What has to be in view to read a job: the objects that it refers to."""

from webhook.catalog.workloads import workloads
from webhook.intake.fields import Unreadable
from webhook.intake.overlays import DEFINITION
from webhook.intake.runtime import runtime_of
from webhook.model.policy import Policy
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference


def references(obj: Object, kind: Kind, namespace: str, policy: Policy) -> tuple[Reference, ...]:  # noqa: ARG001
    """What an object of this kind in this namespace refers to, as far as `policy` wants to know. Never raises.

    What a wrapper holds is not looked at: its jobs are decided when they are created, and ask then.
    """
    workload = workloads().of(kind)
    if workload is None or workload.runtime is None:
        return ()
    try:
        return (runtime_of(obj, workload.runtime, namespace), DEFINITION)
    except Unreadable:
        return ()
