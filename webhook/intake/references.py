"""What has to be in view to read a job: the objects that it refers to."""

from collections.abc import Iterator

from webhook.catalog.queues import KUEUE, LOCAL_QUEUE
from webhook.catalog.workloads import workloads
from webhook.intake.claims import claim_template
from webhook.intake.config_files import MOST_CONFIG_MAPS, mounted_config_maps
from webhook.intake.fields import Unreadable, mapping, objects
from webhook.intake.overlays import DEFINITION
from webhook.intake.queue import read_queue
from webhook.intake.roles import pod_specs
from webhook.intake.runtime import runtime_of
from webhook.model.placement import Pointer
from webhook.model.policy import Policy
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference
from webhook.model.workload import Workload, Workloads


def references(
    obj: Object, kind: Kind, namespace: str, policy: Policy, known: Workloads | None = None
) -> tuple[Reference, ...]:
    """What an object of this kind in this namespace refers to, as far as `policy` wants to know. Never raises.

    What a wrapper holds is not looked at: its jobs are decided when they are created, and ask then. What a runtime
    refers to is not looked at either: it is another object's.
    """
    workload = (workloads() if known is None else known).of(kind)
    if workload is None or not isinstance(obj, dict):
        return ()
    try:
        if workload.runtime is not None:
            found = [runtime_of(obj, workload.runtime, namespace), DEFINITION]
            return (*found, *_queue(obj, workload, [], namespace))
        pods = [*pod_specs(obj, workload)]
        return tuple(dict.fromkeys((*_of_pods(pods, namespace, policy), *_queue(obj, workload, pods, namespace))))
    except Unreadable:
        return ()


def _queue(
    obj: Object, workload: Workload, pods: list[tuple[Object, Pointer]], namespace: str
) -> tuple[Reference, ...]:
    queue = read_queue(obj, mapping(obj, "metadata", ()), workload, [at for _, at in pods])
    return (Reference(LOCAL_QUEUE, namespace, queue.name),) if queue and queue.system == KUEUE and queue.name else ()


def _of_pods(pods: list[tuple[Object, Pointer]], namespace: str, policy: Policy) -> Iterator[Reference]:
    for pod, at in pods:
        for index, entry in enumerate(objects(pod, "resourceClaims", at)):
            if (template := claim_template(entry, (*at, "resourceClaims", index), namespace)) is not None:
                yield template
    if policy.config_maps:
        mounted = dict.fromkeys(one for pod, _ in pods for one in mounted_config_maps(pod, namespace))
        yield from [*mounted][:MOST_CONFIG_MAPS]
