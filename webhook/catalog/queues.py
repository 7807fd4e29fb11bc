"""Systems of queues: by what a job names its queue (queues.yaml)."""

from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

KUEUE, VOLCANO = "Kueue", "Volcano"


class QueueSystem(BaseModel):
    """`nodes` is the node label by whose values a queue of it names nodes, `says_nodes` labels of a job that its nodes
    carry as well."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    in_template: bool = False
    nodes: str = ""
    says_nodes: tuple[str, ...] = ()
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


def queue_system(name: str) -> QueueSystem:
    return next(one for one in queue_systems() if one.system == name)
