"""What files tell of a cluster beside its nodes."""

import json
from pathlib import Path

from controlplane.nodes import RTX_5090, gpu_node
from tests.queues import flavor, local, queue
from tests.samples import Json, pod
from webhook.cli.surroundings import offline
from webhook.cli.worlds import world_from
from webhook.fleet.pods import siblings
from webhook.fleet.room import free_devices
from webhook.model.job import PinRecord
from webhook.model.profile import Observation, Profile, Recipe
from webhook.policy.training_profile import document_of, name_of


def raw_pod(name: str, node: str, **metadata: object) -> Json:
    named = {"name": name, "namespace": "team-a", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": {**pod(gpus=2), "nodeName": node}}


def written(folder: Path, *objects: Json) -> Path:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


NODE = gpu_node("a", RTX_5090, devices=8)


def test_pods_among_the_documents_count_as_what_is_in_use(tmp_path: Path) -> None:
    path = written(tmp_path, NODE, raw_pod("first", "a"), raw_pod("second", "a"), raw_pod("second", "a"))
    fleet = offline([path]).fleet
    assert free_devices(fleet, "nvidia.com/gpu", fleet.every) == 4


def test_without_pods_what_is_free_is_not_known(tmp_path: Path) -> None:
    assert offline([written(tmp_path, NODE)]).fleet.free is None


def test_the_pins_of_pods_that_belong_together_are_in_view(tmp_path: Path) -> None:
    record = json.dumps({"key": "k", "values": ["v"], "policy": "p"})
    metadata = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "annotations": {"samestep.dev/pinned": record}}
    known = offline([written(tmp_path, NODE, raw_pod("first", "", **metadata))])
    assert siblings(known.usage.pinned, "team-a", "g") == PinRecord("k", ("v",), "p")


def test_what_may_add_nodes_is_told_with_the_fleet(tmp_path: Path) -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}, "spec": {}}
    status = "nodeGroups:\n- {name: a, health: {cloudProviderTarget: 1, maxSize: 2}}\n"
    metadata = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    told = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": status}}
    fleet = offline([written(tmp_path, NODE, pool, told)]).fleet
    assert fleet.grows == "NodePool gpus; the cluster autoscaler (node groups below their maximum: 1)"


def test_a_pod_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    odd = raw_pod("odd", "a")
    odd["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "two"
    (problem,) = offline([written(tmp_path, NODE, odd)]).problems
    assert str(problem).startswith("cluster.json#0.items[1]: spec.containers[0].resources.limits")


def test_flavors_and_queues_are_in_view_whatever_stands_beside_them(tmp_path: Path) -> None:
    path = written(tmp_path, NODE, flavor("a", {"gpu-type": "a"}), queue({"a": 8}), local())
    known = offline([path])
    assert known.problems == []
    assert [one.name for one in known.queues.known["Kueue", "team-a", "lq"].flavors] == ["a"]


def test_a_queue_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    (problem,) = offline([written(tmp_path, NODE, flavor("a"), queue({"a": {"nominalQuota": "a few"}}))]).problems
    assert str(problem).startswith("cluster.json#0.items[2]: spec.resourceGroups.0.flavors.0.resources.0.nominalQuota")


def profile(**metadata: object) -> Json:
    recipe = Recipe("0" * 20, "1" * 20, 8)
    written = document_of(
        Profile("team-a", name_of(recipe), recipe, (Observation("NVIDIA-L4", 23_034, seen_at=1.8e9),))
    )
    return written | {"metadata": {"name": written["metadata"]["name"], **metadata}}


def test_profiles_are_in_view_each_in_its_namespace(tmp_path: Path) -> None:
    known = offline([written(tmp_path, NODE, profile(namespace="team-a"), profile())])
    assert known.problems == []
    assert set(known.profiles.by_digest) == {("team-a", "0" * 20), ("default", "0" * 20)}
    world, problems = world_from([], [tmp_path / "cluster.json"], None)
    assert (set(world.profiles.by_family), problems) == ({("team-a", "1" * 20), ("default", "1" * 20)}, [])


def test_a_profile_that_cannot_be_read_is_told_with_its_place_and_costs_itself(tmp_path: Path) -> None:
    odd = profile(namespace="team-b")
    odd["spec"]["recipe"]["digest"] = "x"
    known = offline([written(tmp_path, NODE, odd, profile(namespace="team-a"))])
    (problem,) = known.problems
    assert str(problem).startswith("cluster.json#0.items[1]: spec.recipe.digest: ")
    assert set(known.profiles.by_digest) == {("team-a", "0" * 20)}
