"""What says that nodes may be added, and what says that none will be."""

from typing import Any

import pytest

from webhook.fleet.growth import autoscaler_growth, node_pool_growth

Json = dict[str, Any]


def pool(name: str = "gpus", *, used: Json | None = None, limits: Json | None = None, **requirement: object) -> Json:
    template = {"spec": {"requirements": [requirement]}} if requirement else {}
    return {
        "metadata": {"name": name},
        "spec": {"template": template, **({"limits": limits} if limits else {})},
        "status": {"resources": used or {}},
    }


@pytest.mark.parametrize(
    "one",
    [
        pool(),
        pool(limits={"nvidia.com/gpu": "16", "cpu": 1000}, used={"nvidia.com/gpu": "8", "cpu": "384"}),
        pool(limits={"nvidia.com/gpu": "8", "amd.com/gpu": "8"}, used={"nvidia.com/gpu": "8"}),
        pool(limits={"cpu": "lots"}),
        pool(key="karpenter.k8s.aws/instance-gpu-count", operator="Gt", values=["0"]),
        pool(key="karpenter.sh/capacity-type", operator="In", values=["spot"]),
        {"metadata": {"name": "gpus"}},
        {"metadata": {"name": "gpus"}, "spec": {"template": [], "limits": 3}},
    ],
)
def test_a_node_pool_may_add_nodes(one: Json) -> None:
    assert node_pool_growth([one]) == "NodePool gpus"


@pytest.mark.parametrize(
    "one",
    [
        pool(limits={"nvidia.com/gpu": "0"}),
        pool(limits={"nvidia.com/gpu": 16}, used={"nvidia.com/gpu": "16"}),
        pool(limits={"cpu": "1000"}, used={"cpu": "1000"}),
        pool(limits={"memory": "1Ti"}, used={"memory": "1025Gi"}),
        pool(key="karpenter.k8s.aws/instance-gpu-count", operator="DoesNotExist"),
        pool(key="karpenter.k8s.aws/instance-gpu-count", operator="In", values=["0"]),
        pool(key="karpenter.k8s.aws/instance-gpu-count", operator="Lt", values=["1"]),
        {"metadata": {"name": "gpus", "deletionTimestamp": "2026-07-31T00:00:00Z"}, "spec": {}},
    ],
)
def test_a_node_pool_that_is_full_going_or_keeps_devices_out_adds_none(one: Json) -> None:
    assert node_pool_growth([one]) == ""


def test_many_node_pools_are_told_in_few_words() -> None:
    assert node_pool_growth(pool(name) for name in "edcba") == "NodePool a, b, c and 2 more"
    assert node_pool_growth([]) == ""


# As cluster-autoscaler 1.30 and later writes it.
YAML = """\
time: 2026-07-31 00:00:00.000000000 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    nodeCounts: {registered: {total: 5, ready: 5}}
nodeGroups:
- name: gpus-a
  health:
    status: Healthy
    cloudProviderTarget: TARGET
    minSize: 0
    maxSize: 4
  scaleUp: {status: NoActivity}
- name: gpus-b
  health: {status: Healthy, cloudProviderTarget: 2, minSize: 1, maxSize: 2}
"""
# As earlier ones do.
TEXT = """\
Cluster-autoscaler status at 2023-07-31 00:00:00.000000000 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=5 unready=0 notStarted=0 longNotStarted=0 registered=5 longUnregistered=0)
NodeGroups:
  Name:        gpus-a
  Health:      Healthy (ready=1 unready=0 notStarted=0 registered=1 cloudProviderTarget=TARGET (minSize=0, maxSize=4))
  ScaleUp:     NoActivity (ready=1 cloudProviderTarget=TARGET)
  Name:        gpus-b
  Health:      Healthy (ready=2 unready=0 notStarted=0 registered=2 cloudProviderTarget=2 (minSize=1, maxSize=2))
"""


@pytest.mark.parametrize("text", [YAML, TEXT])
@pytest.mark.parametrize(
    ("target", "told"), [("1", "the cluster autoscaler (node groups below their maximum: 1)"), ("4", "")]
)
def test_the_cluster_autoscaler_says_which_groups_are_below_their_maximum(text: str, target: str, told: str) -> None:
    assert autoscaler_growth([{"data": {"status": text.replace("TARGET", target)}}]) == told


@pytest.mark.parametrize(
    "status",
    [[], [{}], [{"data": {"status": ""}}], [{"data": {"status": "nodeGroups: 3"}}], [{"data": {"status": "{["}}]],
)
def test_a_status_that_says_nothing_adds_nothing(status: list[Json]) -> None:
    assert autoscaler_growth(status) == ""
