"""Whether anything in view may add nodes with devices: a lack of room is no denial then.

Each function says so in a few words for one kind of object, or with an empty text that it does not. What is doubtful
may add nodes: to refuse a job that would have run is worse than to let one wait.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.catalog.accelerators import accelerators
from webhook.catalog.strict_yaml import YamlError, load_all
from webhook.model.quantity import QuantityError, milli
from webhook.model.request import Object

_NOTHING: Mapping[str, Any] = {}
# https://karpenter.sh/docs/concepts/scheduling/: what a cloud's provider says of an instance type with devices.
_DEVICE_KEY = re.compile(r"/instance-(?:gpu|accelerator)-(?:count|name|manufacturer|memory)\Z")
# The text before cluster-autoscaler 1.30, which writes YAML (kubernetes/autoscaler, clusterstate/api/types.go).
_GROUP = re.compile(r"\bcloudProviderTarget=(\d{1,9}) \(minSize=\d{1,9}, maxSize=(\d{1,9})\)")
_MOST_TOLD = 3


def node_pool_growth(pools: Iterable[Object]) -> str:
    """Of Karpenter NodePools (karpenter.sh/v1): those whose limits are not reached and whose requirements do not keep
    devices out."""
    names = sorted(_name(pool) for pool in pools if _may_add(pool))
    return f"NodePool {_listed(names)}" if names else ""


def autoscaler_growth(status: Iterable[Object]) -> str:
    """Of the ConfigMap cluster-autoscaler-status: whether a group of nodes is below its maximum."""
    texts = (_map(one.get("data")).get("status") for one in status)
    below = sum(target < most for text in texts if isinstance(text, str) for target, most in _groups(text))
    return f"the cluster autoscaler (node groups below their maximum: {below})" if below else ""


def _may_add(pool: Object) -> bool:
    spec, metadata = _map(pool.get("spec")), _map(pool.get("metadata"))
    if metadata.get("deletionTimestamp"):
        return False
    template = _map(_map(spec.get("template")).get("spec"))
    requirements = template.get("requirements")
    if any(_keeps_devices_out(_map(one)) for one in (requirements if isinstance(requirements, list) else ())):
        return False
    used = _map(_map(pool.get("status")).get("resources"))
    reached = {name: _is_reached(limit, used.get(name)) for name, limit in _map(spec.get("limits")).items()}
    devices = [name for name in reached if accelerators().is_device(name)]
    # Every node has CPUs and memory; of devices a pool may add another kind than the one that it has enough of.
    always = any(reached.get(name) for name in ("cpu", "memory", "nodes"))
    return not always and not (devices and all(reached[name] for name in devices))


def _keeps_devices_out(requirement: Mapping[str, Any]) -> bool:
    key, operator, values = (requirement.get(part) for part in ("key", "operator", "values"))
    if not isinstance(key, str) or not _DEVICE_KEY.search(key):
        return False
    return (
        operator == "DoesNotExist" or (operator == "In" and values == ["0"]) or (operator == "Lt" and values == ["1"])
    )


def _is_reached(limit: object, used: object) -> bool:
    try:
        return (milli(used) if used is not None else 0) >= milli(limit)
    except QuantityError:
        return False


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """Target and maximum of each group of nodes."""
    before, _, groups = text.partition("NodeGroups:")
    if groups:
        yield from ((int(target), int(most)) for target, most in _GROUP.findall(groups))
        return
    try:
        listed = _map(next(load_all(before), None)).get("nodeGroups")
    except YamlError:
        return
    for group in listed if isinstance(listed, list) else ():
        health = _map(_map(group).get("health"))
        match health.get("cloudProviderTarget", 0), health.get("maxSize", 0):
            case int(target), int(most):
                yield target, most


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(names[:_MOST_TOLD]) + more


def _name(obj: Object) -> str:
    return str(_map(obj.get("metadata")).get("name", ""))


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
