"""Kubernetes' rules over raw node and pod objects, one node at a time: what the promises are checked against.

Nothing of the product is used here. All of it is *there*: nodes count whatever their passing state.
"""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

Json = dict[str, Any]

DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb")
_SHARES = "nvidia.com/mig-1g.10gb"
_NO_RANKS = {"TFJob": frozenset({"Evaluator", "PS"})}
_SUFFIXES = {"m": Decimal("0.001"), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30)}


def pods(job: Json) -> dict[str, tuple[int, Json]]:
    """By role: how many pods must run at once, and the pod spec."""
    spec = job["spec"]
    match job["kind"]:
        case "Job" if "tasks" not in spec:
            numbers = [spec["parallelism"], spec.get("completions")]
            return {"Job": (min(one for one in numbers if one is not None), spec["template"]["spec"])}
        case "Job":
            return {one["name"]: (one["replicas"], one["template"]["spec"]) for one in spec["tasks"]}
        case "JobSet":
            jobs = [(one["name"], one["replicas"], one["template"]["spec"]) for one in spec["replicatedJobs"]]
            return {name: (count * one["parallelism"], one["template"]["spec"]) for name, count, one in jobs}
        case "RayCluster" | "RayJob":
            cluster = spec.get("rayClusterSpec", spec)
            groups = {
                one["groupName"]: (one["replicas"], one["template"]["spec"]) for one in cluster["workerGroupSpecs"]
            }
            return {"head": (1, cluster["headGroupSpec"]["template"]["spec"])} | groups
        case "LeaderWorkerSet":
            group = spec["leaderWorkerTemplate"]
            leader = {"leader": (1, group["leaderTemplate"]["spec"])} if "leaderTemplate" in group else {}
            return leader | {"worker": (max(group["size"] - len(leader), 0), group["workerTemplate"]["spec"])}
        case "StatefulSet":
            return {"StatefulSet": (spec["replicas"], spec["template"]["spec"])}
        case "Pod":
            total = job["metadata"].get("annotations", {}).get("kueue.x-k8s.io/pod-group-total-count", "1")
            return {"Pod": (int(total), spec)}
    least = spec.get("elasticPolicy", {}).get("minReplicas")
    (roles,) = (value for key, value in spec.items() if key.endswith("ReplicaSpecs"))
    return {
        name: (
            role["replicas"] if least is None or name != "Worker" else min(role["replicas"], least),
            role["template"]["spec"],
        )
        for name, role in roles.items()
    }


def device_pods(job: Json) -> dict[str, tuple[int, Json]]:
    """The same, of the roles that ask for devices and are ranks; of all that ask for some where none is a rank."""
    asking = {name: role for name, role in pods(job).items() if device(role[1])}
    ranks = {name: role for name, role in asking.items() if name not in _NO_RANKS.get(job["kind"], ())}
    return ranks if any(count for count, _ in ranks.values()) else asking


def device(pod: Json) -> str:
    return next((name for name in DEVICES if requests(pod).get(name)), "")


def lands(pod: Json, nodes: Iterable[Json]) -> set[str]:
    """The names of the nodes on which a pod may land."""
    return {
        node["metadata"]["name"] for node in nodes if held(pod, node) and _selected(pod, node) and _tolerated(pod, node)
    }


def held(pod: Json, node: Json) -> int:
    """How many such pods the empty node holds."""
    limits = [offered(node, "pods")]
    limits += [offered(node, name) // amount for name, amount in requests(pod).items() if amount]
    return int(min(limits))


def offered(node: Json, resource: str) -> Decimal:
    status = node["status"]
    amount = _quantity(status["allocatable"].get(resource))
    if resource in DEVICES and not amount and not _quantity(status["capacity"].get(_SHARES)):
        return _quantity(status["capacity"].get(resource))
    return amount


def requests(pod: Json) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for container in pod["containers"]:
        for name, amount in _asked(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in pod.get("initContainers", ()):
        for name, amount in _asked(container).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def _asked(container: Json) -> dict[str, Decimal]:
    resources = container["resources"]
    return {
        name: _quantity(amount)
        for name, amount in (resources.get("limits", {}) | resources.get("requests", {})).items()
    }


def _quantity(written: object) -> Decimal:
    text = "0" if written is None else str(written)
    suffix = next((one for one in _SUFFIXES if text.endswith(one)), "")
    try:
        return Decimal(text.removesuffix(suffix)) * _SUFFIXES.get(suffix, 1)
    except InvalidOperation:
        return Decimal(0)


def _selected(pod: Json, node: Json) -> bool:
    labels = node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_matches(term, node) for term in required["nodeSelectorTerms"])


def meets(pod: Json, labels: dict[str, str], keys: Iterable[str]) -> bool:
    """Whether a flavor with these labels meets what a pod's selectors say of these keys (Kueue's flavorSelector)."""
    looked_at = set(keys)
    kept = {key: value for key, value in (pod.get("nodeSelector") or {}).items() if key in looked_at}
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = [
        {"matchExpressions": [one for one in term.get("matchExpressions") or [] if one["key"] in looked_at]}
        for term in (required["nodeSelectorTerms"] if required is not None else [])
    ]
    flavor = {"metadata": {"name": "", "labels": labels}}
    free = not terms or any(not term["matchExpressions"] for term in terms)
    return _selected({"nodeSelector": kept}, flavor) and (free or any(_matches(term, flavor) for term in terms))


def _matches(term: Json, node: Json) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    names = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or fields) and (
        all(_holds(one, node["metadata"]["labels"]) for one in expressions)
        and all(_holds(one, names) for one in fields)
    )


def _holds(requirement: Json, texts: dict[str, str]) -> bool:
    there, values = texts.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return there in values
        case "NotIn":
            return there not in values
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
        case "Gt":
            return there is not None and there.isdigit() and int(there) > int(values[0])
        case "Lt":
            return there is not None and there.isdigit() and int(there) < int(values[0])
    raise AssertionError(requirement)


def _tolerated(pod: Json, node: Json) -> bool:
    keep_out = [
        taint
        for taint in node["spec"].get("taints", ())
        if taint["effect"] != "PreferNoSchedule" and not taint["key"].startswith("node.kubernetes.io/")
    ]
    return all(any(_tolerates(one, taint) for one in pod.get("tolerations", ())) for taint in keep_out)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if (
        toleration.get("key", taint["key"]) != taint["key"]
        or toleration.get("effect", taint["effect"]) != taint["effect"]
    ):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
