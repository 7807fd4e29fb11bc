"""First fit, where bounds alone would let a gang in."""

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.samples import ask, codes, fleet, nodes, pod, pytorchjob
from webhook.fleet.packing import Ask, first_fit
from webhook.model.verdict import Verdict

GPU = "nvidia.com/gpu"


def test_pods_of_several_shapes_fill_nodes_together() -> None:
    known = fleet(nodes((RTX_5090, 2, 4)))
    assert first_fit(known, [Ask({GPU: 1}, known.every, 2), Ask({GPU: 3}, known.every, 2)])


def test_a_gap_on_each_node_is_no_room_for_a_large_pod() -> None:
    known = fleet(nodes((RTX_5090, 2, 4)))
    assert not first_fit(known, [Ask({GPU: 3}, known.every, 2), Ask({GPU: 2}, known.every, 1)])


def test_host_resources_count_too() -> None:
    known = fleet(nodes((RTX_5090, 1, 4)))
    half = {GPU: 1, "memory": 300 << 30}
    assert first_fit(known, [Ask(half, known.every, 1)])
    assert not first_fit(known, [Ask(half, known.every, 1), Ask({GPU: 2, "memory": 300 << 30}, known.every, 1)])


def test_a_gang_that_first_fit_cannot_place_is_pinned_with_a_warning() -> None:
    obj = pytorchjob(pod(gpus=3), workers=2)
    obj["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 1, "template": {"spec": pod(gpus=2)}}
    outcome = ask(obj, nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4)))
    assert outcome.verdict is Verdict.PIN
    assert "SST401" in codes(outcome)
