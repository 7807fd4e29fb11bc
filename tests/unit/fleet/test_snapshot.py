"""The written form of a fleet; that it reads back equal is a property in test_against_naive."""

from webhook.fleet.build import build_fleet
from webhook.fleet.snapshot import to_objects
from webhook.model.fleet import Node, Taint


def test_a_snapshot_is_plain_trimmed_node_objects() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    taints = (Taint("pool", "a", "NoSchedule"), Taint("bare", "", "NoExecute"))
    amounts = {"cpu": 3920, "memory": 1 << 30, "nvidia.com/gpu": 1}
    busy = Node("busy", "u-1", labels, taints, True, False, True, amounts, {"nvidia.com/gpu": 1}, known_since=7.0)
    plain = Node("plain", "", labels, (), False, True, False, {"cpu": 4000}, {})
    assert to_objects(build_fleet([busy, plain])) == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "busy",
                "labels": labels,
                "uid": "u-1",
                "deletionTimestamp": "1970-01-01T00:00:00Z",
            },
            "spec": {
                "unschedulable": True,
                "taints": [
                    {"key": "pool", "value": "a", "effect": "NoSchedule"},
                    {"key": "bare", "effect": "NoExecute"},
                ],
            },
            "status": {
                "allocatable": {"cpu": "3920m", "memory": "1073741824", "nvidia.com/gpu": "1"},
                "capacity": {"nvidia.com/gpu": "1"},
                "conditions": [{"type": "Ready", "status": "False"}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "plain", "labels": labels},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "4"},
                "capacity": {},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    ]
