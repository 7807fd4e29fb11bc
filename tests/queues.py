"""Kueue's and Volcano's objects, as a platform team would write them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.samples import Json
from webhook.fleet.queues import read_queues
from webhook.model.queues import Queues

GPU = "nvidia.com/gpu"


def kueue(kind: str, name: str, *, version: str = "v1beta2", **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    metadata = {"name": name, **({"namespace": "team-a"} if kind == "LocalQueue" else {})}
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def flavor(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:  # noqa: ANN401
    named: Json = {"nodeLabels": dict(labels)} if labels else {}
    return kueue("ResourceFlavor", name, **named, **spec)


def groups(quotas: Mapping[str, int | Mapping[str, Any]], resource: str = GPU) -> list[Json]:
    """One resource group: by flavor its nominal quota, or all the fields of its quota."""
    flavors = [
        {"name": name, "resources": [{"name": resource, **({"nominalQuota": one} if isinstance(one, int) else one)}]}
        for name, one in quotas.items()
    ]
    return [{"coveredResources": [resource], "flavors": flavors}]


def queue(quotas: Mapping[str, int | Mapping[str, Any]], name: str = "cq", **spec: Any) -> Json:  # noqa: ANN401
    return kueue("ClusterQueue", name, resourceGroups=groups(quotas), **spec)


def local(of: str = "cq", name: str = "lq") -> Json:
    return kueue("LocalQueue", name, clusterQueue=of)


def volcano(name: str, **affinity: Iterable[str]) -> Json:
    """Which node groups it requires: `to` and `against`."""
    fields = {"to": "nodeGroupAffinity", "against": "nodeGroupAntiAffinity"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {"affinity": {fields[key]: {required: list(names)} for key, names in affinity.items()}} if affinity else {}
    metadata = {"name": name}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}


def read(*objects: Json) -> Queues:
    """The queues of objects that are all well formed."""
    found = read_queues((str(index), one) for index, one in enumerate(objects))
    assert found.faults == ()
    return found.queues


def queued(obj: Json, *, name: str = "lq", suspend: bool = True) -> Json:
    """The job with a queue label, held back as Kueue holds back what it manages."""
    metadata = {**obj["metadata"], "labels": {"kueue.x-k8s.io/queue-name": name}}
    spec = {**obj["spec"]}
    if suspend and obj["kind"] == "PyTorchJob":
        spec["runPolicy"] = {"suspend": True}
    elif suspend:
        spec["suspend"] = True
    return {**obj, "metadata": metadata, "spec": spec}
