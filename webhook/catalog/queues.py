"""Systems of queues: by what a job names its queue (queues.yaml)."""

from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from webhook.model.request import Kind

KUEUE, VOLCANO = "Kueue", "Volcano"
KUEUE_GROUP = "kueue.x-k8s.io"
LOCAL_QUEUE = Kind(KUEUE_GROUP, "", "LocalQueue")
"""What a job's queue is to Kueue."""
CLUSTER_QUEUE = Kind(KUEUE_GROUP, "", "ClusterQueue")
"""What a LocalQueue stands for."""
RESOURCE_FLAVOR = Kind(KUEUE_GROUP, "", "ResourceFlavor")
"""What a ClusterQueue gives its jobs."""


class QueueSystem(BaseModel):
    """`nodes` is the node label by whose values a queue of it names nodes, `says_nodes` labels of a job that its nodes
    carry as well. What of it is written into a job that names no queue is the first label, else the first annotation:
    of jobs that one of `schedulers` places, or whose kind is of one of `groups`; of all others, that of the
    system that goes with any scheduler."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    in_template: bool = False
    nodes: str = ""
    says_nodes: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    source: str


@cache
def queue_systems() -> tuple[QueueSystem, ...]:
    """In the order in which they are asked."""
    text = files("webhook.catalog").joinpath("queues.yaml").read_text("utf-8")
    return TypeAdapter(tuple[QueueSystem, ...]).validate_python(yaml.safe_load(text))


@cache
def queue_keys() -> frozenset[str]:
    """Every label and annotation that a queue may be named by."""
    return frozenset(
        key for one in queue_systems() for keys in (one.labels, one.annotations, one.says_nodes) for key in keys
    )


def system_of(scheduler: str, group: str) -> QueueSystem:
    """The system that queues jobs of this API group which this scheduler places."""
    systems = queue_systems()
    named = (one for one in systems if scheduler in one.schedulers or (not scheduler and group in one.groups))
    return next(named, None) or next(one for one in systems if not one.schedulers)


def queue_system(name: str) -> QueueSystem:
    return next(one for one in queue_systems() if one.system == name)
