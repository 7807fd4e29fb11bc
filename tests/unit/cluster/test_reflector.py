"""What of a cluster is followed, in front of an API server of a few lines that does as it is told."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from controlplane.devices import allocation, resource_slice
from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000, cpu_node, gpu_node
from tests.samples import Json, fleet, pod
from tests.unit.cluster.api_server import ApiServer, Collection, served, until
from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.referred import ReferredFollower
from webhook.cluster.reflector import Reflector, Source
from webhook.cluster.world import Worlds
from webhook.fleet.pods import siblings
from webhook.fleet.room import free_devices
from webhook.model.fleet import Node
from webhook.model.job import PinRecord
from webhook.model.policy import Policy
from webhook.model.request import Kind, Object
from webhook.model.surroundings import Reference


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    async with served(tmp_path) as (server, kubeconfig):
        for path, kind in (
            ("/api/v1/nodes", "Node"),
            ("/api/v1/pods", "Pod"),
            ("/api/v1/namespaces", "Namespace"),
            ("/api/v1/configmaps", "ConfigMap"),
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "CustomResourceDefinition"),
        ):
            server.serve(path, kind)
        yield server, kubeconfig


@pytest.fixture
def server(cluster: tuple[ApiServer, Path]) -> ApiServer:
    return cluster[0]


@pytest.fixture
def api(server: ApiServer) -> Collection:
    """The nodes."""
    return server.collections["/api/v1/nodes"]


@pytest.fixture
def pods(server: ApiServer) -> Collection:
    return server.collections["/api/v1/pods"]


@pytest.fixture
def worlds() -> Worlds:
    return Worlds(Policy())


@pytest.fixture
async def following(cluster: tuple[ApiServer, Path], worlds: Worlds) -> AsyncIterator[Following]:
    following = Following(Access(cluster[1]).client, worlds)
    yield following
    await following.stop()


def nodes(worlds: Worlds) -> dict[str, Node]:
    return {node.name: node for node in worlds.current.fleet.nodes} if worlds.current else {}


async def test_every_page_of_the_list_is_in_the_first_fleet(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    for index in range(5):
        api.put(gpu_node(f"gpu-{index}", RTX_5090))
    api.put(cpu_node("cpu"))
    assert not worlds.synced
    following.start()
    await until(lambda: worlds.synced)

    assert sorted(nodes(worlds)) == [f"gpu-{index}" for index in range(5)]
    assert api.lists == 3
    assert not worlds.problems
    assert worlds.age_s(time.time()) == pytest.approx(0, abs=2)


async def test_a_cluster_without_nodes_is_in_sync_too(api: Collection, following: Following, worlds: Worlds) -> None:
    following.start()
    await until(lambda: worlds.synced)

    assert nodes(worlds) == {}


async def test_nodes_come_change_and_go(api: Collection, following: Following, worlds: Worlds) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await api.watched()
    api.put(gpu_node("b", RTX_PRO_6000))
    await until(lambda: "b" in nodes(worlds))
    node = gpu_node("a", RTX_5090)
    node["spec"]["unschedulable"] = True
    api.put(node)
    await until(lambda: nodes(worlds)["a"].unschedulable)
    api.remove("a")
    await until(lambda: "a" not in nodes(worlds))
    api.put(cpu_node("b"))
    await until(lambda: "b" not in nodes(worlds))

    assert api.lists == 1


async def test_a_heartbeat_changes_nothing_but_the_age(api: Collection, following: Following, worlds: Worlds) -> None:
    node = api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    assert worlds.current is not None
    before = worlds.current.fleet
    node["status"]["conditions"] = [{"type": "MemoryPressure", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    api.put(node)
    await until(lambda: worlds.current and worlds.current.fleet.taken_at != before.taken_at)
    await asyncio.sleep(0.3)

    assert worlds.current.fleet.nodes is before.nodes
    assert worlds.current.fleet.labels is before.labels


async def test_a_bookmark_confirms_a_quiet_fleet(api: Collection, following: Following, worlds: Worlds) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    assert worlds.current is not None
    taken_at = worlds.current.fleet.taken_at
    assert taken_at is not None
    api.bookmark()

    await until(lambda: worlds.current and (worlds.current.fleet.taken_at or 0) > taken_at)


async def test_a_node_is_known_since_it_was_first_seen_with_its_present_model(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    started = time.time()
    node = api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    first = nodes(worlds)["a"].known_since
    assert started <= first <= time.time()

    node["metadata"]["labels"]["team"] = "vision"
    api.put(node)
    await until(lambda: "team" in nodes(worlds)["a"].labels)
    assert nodes(worlds)["a"].known_since == first

    api.put(gpu_node("a", A100_80GB))
    await until(lambda: "team" not in nodes(worlds)["a"].labels)
    second = nodes(worlds)["a"].known_since
    assert second > first

    # A display card in the same node takes the label for a while (k8s-device-plugin#731).
    flipped = gpu_node("a", A100_80GB)
    flipped["metadata"]["labels"] |= {"nvidia.com/gpu.product": "NVIDIA-DGX-Display", "nvidia.com/gpu.count": "1"}
    api.put(flipped)
    await until(lambda: nodes(worlds)["a"].last_product == A100_80GB.product)
    assert nodes(worlds)["a"].known_since == second

    replaced = gpu_node("a", A100_80GB)
    replaced["metadata"]["uid"] = "another machine"
    api.put(replaced)
    await until(lambda: nodes(worlds)["a"].uid == "another machine")
    assert nodes(worlds)["a"].known_since > second


async def test_of_nodes_that_were_there_before_this_replica_age_is_what_they_say(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    started = time.time()
    for name, created in (("old", "2026-01-01T00:00:00Z"), ("odd", "yesterday"), ("ahead", "2999-01-01T00:00:00Z")):
        node = gpu_node(name, RTX_5090)
        node["metadata"]["creationTimestamp"] = created
        api.put(node)
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    late = gpu_node("late", RTX_5090)
    late["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"  # and was no GPU node until now
    api.put(late)
    await until(lambda: "late" in nodes(worlds))

    assert nodes(worlds)["old"].known_since == 1_767_225_600
    for name in ("odd", "ahead", "late"):
        assert started <= nodes(worlds)[name].known_since <= time.time(), name


async def test_an_expired_watch_is_begun_anew_and_forgets_nothing(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    api.put(gpu_node("gone", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    since = nodes(worlds)["a"].known_since
    api.objects.pop("/gone")
    api.expire()

    await until(lambda: "gone" not in nodes(worlds))
    assert api.lists == 2
    assert nodes(worlds)["a"].known_since == since
    await until(lambda: not worlds.problems)


async def test_while_nodes_are_listed_again_the_fleet_that_was_whole_is_served(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    for index in range(5):
        api.put(gpu_node(f"gpu-{index}", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    api.go_on.clear()
    for name in ("gpu-0", "gpu-4"):
        api.objects.pop(f"/{name}")
    api.expire()
    await until(lambda: api.lists == 3 + 2)
    await asyncio.sleep(0.3)
    assert len(nodes(worlds)) == 5
    api.go_on.set()
    await until(lambda: sorted(nodes(worlds)) == ["gpu-1", "gpu-2", "gpu-3"])


async def test_a_watch_that_ends_in_order_goes_on_from_where_it_was(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    api.end_watches()
    api.put(gpu_node("b", RTX_5090))
    await until(lambda: "b" in nodes(worlds))

    assert api.lists == 1


async def test_a_refusal_leaves_the_last_fleet_and_says_why_until_it_ends(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()
    api.refuses = 403
    api.end_watches()

    await until(lambda: worlds.problems)
    assert worlds.problems["nodes"].startswith("nodes not followed since 20")
    assert worlds.problems["nodes"].endswith(': 403 Node is forbidden: User "x"')
    assert list(nodes(worlds)) == ["a"]
    api.refuses = None
    await until(lambda: not worlds.problems)


async def test_events_that_make_no_sense_end_nothing(api: Collection, following: Following, worlds: Worlds) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    for event in ({"type": "ADDED"}, {"type": "ERROR", "object": {}}, {}):
        await api.watched()
        api.send(event)
        await until(lambda: worlds.problems)
        await until(lambda: not worlds.problems, within_s=10)

    api.put(gpu_node("b", RTX_5090))
    await until(lambda: "b" in nodes(worlds))


async def test_a_stopped_reflector_goes_on_when_it_is_started_again(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await following.stop()
    api.end_watches()
    assert list(nodes(worlds)) == ["a"]
    api.put(gpu_node("b", RTX_5090))
    following.start()

    await until(lambda: "b" in nodes(worlds))
    assert api.lists == 1


async def test_a_reflector_that_is_started_twice_follows_once(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    following.start()
    following.start()
    await until(lambda: worlds.synced)
    await api.watched()

    assert api.lists == 1
    assert len(api.watches) == 1


def raw_pod(name: str, node: str = "", *, gpus: int = 2, phase: str = "Running", **metadata: object) -> Json:
    return {
        "metadata": {"name": name, "namespace": "team-a", "creationTimestamp": "2026-07-31T00:00:00Z", **metadata},
        "spec": {**pod(gpus=gpus), **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


def free(worlds: Worlds) -> int | None:
    """GPUs that are free on all nodes together."""
    fleet = worlds.current.fleet if worlds.current else None
    return free_devices(fleet, "nvidia.com/gpu", fleet.every) if fleet else None


async def test_what_bound_pods_ask_for_is_not_free_until_they_are_gone(
    api: Collection, pods: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090, devices=8))
    pods.put(raw_pod("first", "a"))
    pods.put(raw_pod("waiting", phase="Pending"))
    pods.put(raw_pod("elsewhere", "another"))
    pods.put(raw_pod("over", "a", phase="Succeeded"))
    following.start()
    await until(lambda: free(worlds) == 6)
    await pods.watched()
    pods.put(raw_pod("waiting", "a"))
    await until(lambda: free(worlds) == 4)
    pods.put(raw_pod("first", "a", phase="Failed"))
    await until(lambda: free(worlds) == 6)
    pods.remove("waiting", "team-a")
    await until(lambda: free(worlds) == 8)
    # A node that comes later has its pods at once.
    api.put(gpu_node("another", RTX_5090, devices=8))
    await until(lambda: free(worlds) == 14)


async def test_pods_that_are_listed_again_count_once(
    api: Collection, pods: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090, devices=8))
    for name in ("first", "second", "gone"):
        pods.put(raw_pod(name, "a"))
    following.start()
    await until(lambda: free(worlds) == 2)
    await pods.watched()
    pods.objects.pop("team-a/gone")
    pods.expire()

    await until(lambda: free(worlds) == 4)
    assert pods.lists == 2 + 1


async def test_where_pods_may_not_be_listed_what_is_free_is_unknown_and_the_fleet_serves_on(
    api: Collection, pods: Collection, following: Following, worlds: Worlds
) -> None:
    pods.refuses = 403
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: worlds.synced and worlds.problems)

    assert free(worlds) is None
    assert worlds.problems["pods"].endswith(': 403 Pod is forbidden: User "x"')
    assert list(worlds.problems) == ["pods"]
    pods.refuses = None
    await until(lambda: free(worlds) == 4)
    assert not worlds.problems


async def test_pods_that_were_last_seen_long_ago_tell_nothing_of_what_is_free(
    api: Collection, following: Following, worlds: Worlds
) -> None:
    api.put(gpu_node("a", RTX_5090))
    following.start()
    await until(lambda: free(worlds) == 4)
    await following.stop()

    worlds.confirm(pods_at=time.time() - 299)
    assert free(worlds) == 4
    worlds.confirm(pods_at=time.time() - 301)
    assert free(worlds) is None
    worlds.confirm(pods_at=time.time())
    assert free(worlds) == 4


async def test_the_pin_of_the_oldest_pod_of_a_group_is_in_view(
    pods: Collection, following: Following, worlds: Worlds
) -> None:
    def member(name: str, value: str, second: int) -> Json:
        record = json.dumps({"key": "k", "values": [value], "policy": "p"})
        return raw_pod(
            name,
            labels={"scheduling.x-k8s.io/pod-group": "ring"},
            annotations={"samestep.dev/pinned": record},
            creationTimestamp=f"2026-07-31T00:00:{second:02}Z",
        )

    def pin(namespace: str = "team-a") -> PinRecord | None:
        return siblings(worlds.current.pinned, namespace, "ring") if worlds.current else None

    pods.put(member("young", "large", 9))
    following.start()
    await until(lambda: pin() == PinRecord("k", ("large",), "p"))
    assert pin("team-b") is None
    await pods.watched()
    pods.put(member("old", "small", 3))
    await until(lambda: pin() == PinRecord("k", ("small",), "p"))
    pods.remove("old", "team-a")
    await until(lambda: pin() == PinRecord("k", ("large",), "p"))
    pods.remove("young", "team-a")
    await until(lambda: pin() is None)


RUNTIME = Kind("trainer.kubeflow.org", "", "TrainingRuntime")


async def test_objects_that_jobs_refer_to_are_in_view_in_the_version_that_is_served(
    server: ApiServer, following: Following, worlds: Worlds
) -> None:
    runtimes = server.serve("/apis/trainer.kubeflow.org/v1beta9/trainingruntimes", "TrainingRuntime")
    metadata = {"name": "torch", "namespace": "team-a", "managedFields": [{"manager": "kubectl"}]}
    runtimes.put({"metadata": metadata, "spec": {"mlPolicy": {"numNodes": 2}}, "status": {"a": 1}})
    reference = Reference(RUNTIME, "team-a", "torch")

    def seen() -> Object:
        return worlds.current.surroundings.get(reference, {}) if worlds.current else {}

    following.start()
    await until(seen)
    assert seen()["apiVersion"] == "trainer.kubeflow.org/v1beta9"
    assert seen()["kind"] == "TrainingRuntime"
    assert "status" not in seen()
    assert "managedFields" not in seen()["metadata"]
    assert following.path_of(RUNTIME) == "/apis/trainer.kubeflow.org/v1beta9/trainingruntimes"
    await runtimes.watched()
    runtimes.put({"metadata": dict(metadata), "spec": {"mlPolicy": {"numNodes": 4}}})
    await until(lambda: seen()["spec"]["mlPolicy"]["numNodes"] == 4)
    runtimes.remove("torch", "team-a")
    await until(lambda: not seen())


class Told(ReferredFollower):
    """Counts how often it is told all that there is."""

    lists = 0

    async def listed(self, items: Mapping[str, Object]) -> None:
        self.lists += 1
        await super().listed(items)


class Slow(Told):
    """Takes what there is only when it may."""

    def __init__(self, worlds: Worlds, plural: str) -> None:
        super().__init__(worlds, plural)
        self.go_on = asyncio.Event()

    async def listed(self, items: Mapping[str, Object]) -> None:
        self.lists += 1
        await self.go_on.wait()
        await ReferredFollower.listed(self, items)


async def test_one_that_is_stopped_while_all_is_told_lists_anew(tmp_path: Path, worlds: Worlds) -> None:
    async with served(tmp_path) as (server, kubeconfig):
        runtimes = server.serve("/apis/trainer.kubeflow.org/v1/trainingruntimes", "TrainingRuntime")
        runtimes.put({"metadata": {"name": "torch", "namespace": "team-a"}, "spec": {}})
        source = Source("trainingruntimes", "trainer.kubeflow.org", optional=True)
        slow = Slow(worlds, source.plural)
        reflector = Reflector(Access(kubeconfig).client, source, slow, worlds.trouble)
        worlds.swap(fleet([]))
        reflector.start()
        await until(lambda: slow.lists == 1)
        await reflector.stop()
        slow.go_on.set()
        reflector.start()
        await until(lambda: worlds.current and worlds.current.surroundings)
        assert slow.lists == 2
        await reflector.stop()


async def test_a_kind_that_a_cluster_serves_later_is_found_then(tmp_path: Path, worlds: Worlds) -> None:
    async with served(tmp_path) as (server, kubeconfig):
        source = Source("trainingruntimes", "trainer.kubeflow.org", optional=True)
        told = Told(worlds, source.plural)
        reflector = Reflector(Access(kubeconfig).client, source, told, worlds.trouble, again_s=0.05)
        worlds.swap(fleet([]))
        reflector.start()
        await until(lambda: len(server.asked) > 2)
        assert told.lists == 1
        assert not worlds.problems
        assert reflector.path == ""
        runtimes = server.serve("/apis/trainer.kubeflow.org/v1/trainingruntimes", "TrainingRuntime")
        runtimes.put({"metadata": {"name": "torch", "namespace": "team-a"}, "spec": {}})
        await until(lambda: worlds.current and worlds.current.surroundings)
        await reflector.stop()


async def test_objects_of_half_a_megabyte_can_be_watched(
    server: ApiServer, following: Following, worlds: Worlds
) -> None:
    definitions = server.collections["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
    following.start()
    await definitions.watched()
    schema = {"description": "x" * (512 << 10)}
    definitions.put({"metadata": {"name": "trainjobs.trainer.kubeflow.org"}, "spec": {"schema": schema}})

    await until(lambda: worlds.current and worlds.current.surroundings)
    assert definitions.queries[0]["fieldSelector"] == "metadata.name=trainjobs.trainer.kubeflow.org"


async def test_what_may_add_nodes_is_told_with_the_fleet(
    server: ApiServer, following: Following, worlds: Worlds
) -> None:
    pools = server.serve("/apis/karpenter.sh/v1/nodepools", "NodePool")
    pools.put({"metadata": {"name": "gpus"}, "spec": {}})

    def grows() -> str:
        return worlds.current.fleet.grows if worlds.current else ""

    following.start()
    await until(lambda: grows() == "NodePool gpus")
    status = "nodeGroups:\n- name: a\n  health: {cloudProviderTarget: 1, minSize: 0, maxSize: 4}\n"
    metadata = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    server.collections["/api/v1/configmaps"].put({"metadata": metadata, "data": {"status": status}})
    await until(lambda: "; " in grows())
    assert grows() == "NodePool gpus; the cluster autoscaler (node groups below their maximum: 1)"
    await pools.watched()
    pools.remove("gpus")
    await until(lambda: grows() == "the cluster autoscaler (node groups below their maximum: 1)")


async def test_the_devices_that_a_driver_lists_come_with_their_node(
    server: ApiServer, api: Collection, following: Following, worlds: Worlds
) -> None:
    slices = server.serve("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice")

    def of(node: str, generation: int, *products: str) -> Json:
        devices = [
            {"name": f"gpu-{index}", "attributes": {"productName": {"string": product}, "type": {"string": "gpu"}}}
            for index, product in enumerate(products)
        ]
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "pool": pool, "nodeName": node, "devices": devices}
        return {"metadata": {"name": f"{node}-slice-{generation}"}, "spec": spec}

    def listed() -> list[tuple[str, int]]:
        return [(one.product, one.count) for one in nodes(worlds)["a"].listed] if "a" in nodes(worlds) else []

    api.put(gpu_node("a", RTX_5090))
    slices.put(of("a", 1, "NVIDIA L4", "NVIDIA L4"))
    slices.put(of("elsewhere", 1, "NVIDIA L4"))
    following.start()
    await until(lambda: listed() == [("NVIDIA L4", 2)])
    await slices.watched()
    slices.put(of("a", 2, "NVIDIA L4"))
    await until(lambda: listed() == [("NVIDIA L4", 1)])
    slices.remove("a-slice-1")
    slices.remove("a-slice-2")
    await until(lambda: listed() == [])


async def test_a_node_that_is_none_for_us_comes_with_the_devices_that_a_driver_lists_and_goes_with_them(
    server: ApiServer, api: Collection, following: Following, worlds: Worlds
) -> None:
    slices = server.serve("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice")
    api.put(gpu_node("a", RTX_5090))
    api.put(cpu_node("bare"))
    following.start()
    await until(lambda: nodes(worlds).keys() == {"a"})
    await api.watched()
    slices.put(resource_slice("bare", RTX_5090))
    slices.put(resource_slice("gone", RTX_5090))
    await until(lambda: nodes(worlds).keys() == {"a", "bare"})
    assert api.lists == 3  # all at first, and then these two
    await api.watched()
    slices.remove("bare-gpu.nvidia.com")
    await until(lambda: nodes(worlds).keys() == {"a"})


async def test_devices_that_are_allocated_to_claims_are_not_free(
    server: ApiServer, api: Collection, following: Following, worlds: Worlds
) -> None:
    slices = server.serve("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice")
    claims = server.serve("/apis/resource.k8s.io/v1/resourceclaims", "ResourceClaim")

    def free() -> int | None:
        fleet = worlds.current.fleet if worlds.current else None
        return free_devices(fleet, "gpu.nvidia.com", fleet.every) if fleet else None

    api.put(gpu_node("a", RTX_5090))
    slices.put(resource_slice("a", RTX_5090))
    claims.put(allocated("first", "a", "gpu-0"))
    claims.put({"metadata": {"name": "second", "namespace": "team-a"}, "spec": {}})
    following.start()
    await until(lambda: free() == 3)
    await claims.watched()
    claims.put(allocated("second", "a", "gpu-1", "gpu-2"))
    await until(lambda: free() == 1)
    claims.remove("first", "team-a")
    await until(lambda: free() == 2)


def allocated(name: str, node: str, *devices: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {},
        "status": {"allocation": allocation(node, *devices)},
    }


def accelerator(name: str, **spec: object) -> Json:
    said = {"product": "NVIDIA-New", "vendor": "nvidia", "source": "our bench"} | spec
    return {"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": said}


def without_memory(name: str, product: str) -> Json:
    """A node that does not say its memory."""
    node = gpu_node(name, RTX_5090)
    node["metadata"]["labels"] |= {"nvidia.com/gpu.product": product}
    del node["metadata"]["labels"]["nvidia.com/gpu.memory"]
    return node


def models(worlds: Worlds) -> dict[str, int | None]:
    """Their memory by their names."""
    column = worlds.current.fleet.devices.get("nvidia.com/gpu") if worlds.current else None
    return {one.name: column.memory.least(nodes) for one, nodes in column.models.items()} if column else {}


async def test_accelerator_objects_add_to_the_catalog_while_they_are_there(
    server: ApiServer, api: Collection, following: Following, worlds: Worlds
) -> None:
    accelerators = server.serve("/apis/samestep.dev/v1alpha1/accelerators", "Accelerator")
    api.put(without_memory("a", "NVIDIA-New"))
    api.put(without_memory("b", "ours"))
    api.put(gpu_node("c", RTX_5090))
    following.start()
    await until(lambda: worlds.synced)
    await accelerators.watched()
    assert models(worlds) == {"RTX-5090": 32607}
    known_since = nodes(worlds)["a"].known_since

    accelerators.put(accelerator("new", memory="64Gi", aliases=["ours"]))
    await until(lambda: models(worlds) == {"New": 65536, "RTX-5090": 32607})
    assert nodes(worlds)["a"].known_since == known_since
    await api.watched()
    api.put(without_memory("d", "ours"))
    await until(lambda: "d" in nodes(worlds))
    assert models(worlds) == {"New": 65536, "RTX-5090": 32607}
    accelerators.remove("new")
    await until(lambda: models(worlds) == {"RTX-5090": 32607})
    assert sorted(nodes(worlds)) == ["a", "b", "c", "d"]


async def test_a_broken_accelerator_is_told_and_what_it_was_before_counts(
    server: ApiServer, api: Collection, following: Following, worlds: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    accelerators = server.serve("/apis/samestep.dev/v1alpha1/accelerators", "Accelerator")
    accelerators.put(accelerator("new", memory="64Gi"))
    accelerators.put(accelerator("never-good", vendor="acme"))
    api.put(without_memory("a", "NVIDIA-New"))
    following.start()
    await until(lambda: models(worlds) == {"New": 65536})
    assert [fault.partition(":")[0] for fault in worlds.faults["Accelerator"]] == ["never-good"]
    await accelerators.watched()

    accelerators.put(accelerator("new", memory="65Gi", vendor="acme"))
    await until(lambda: len(worlds.faults["Accelerator"]) == 2)
    assert models(worlds) == {"New": 65536}
    assert [one.message.split(":")[0] for one in caplog.records if one.levelname == "WARNING"] == [
        "Accelerator never-good",
        "Accelerator new",
    ]
    accelerators.put(accelerator("new", memory="66Gi"))
    accelerators.remove("never-good")
    await until(lambda: models(worlds) == {"New": 66 * 1024})
    assert worlds.faults["Accelerator"] == ()


async def test_what_slices_say_of_nodes_is_kept_when_the_catalog_changes(
    server: ApiServer, api: Collection, following: Following, worlds: Worlds
) -> None:
    accelerators = server.serve("/apis/samestep.dev/v1alpha1/accelerators", "Accelerator")
    slices = server.serve("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice")
    api.put(without_memory("a", "NVIDIA-New"))
    api.put(without_memory("b", "NVIDIA-Other"))
    following.start()
    await until(lambda: worlds.synced)
    await slices.watched()
    await accelerators.watched()
    attributes = {"productName": {"string": "NVIDIA New"}, "type": {"string": "gpu"}}
    devices = [{"name": "0", "attributes": attributes, "capacity": {"memory": {"value": "40960Mi"}}}]
    said = {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": {"name": "a", "generation": 1}, "devices": devices}
    slices.put({"metadata": {"name": "one"}, "spec": said})
    await until(lambda: models(worlds) == {"New": 40960})

    accelerators.put(accelerator("other", memory="64Gi", product="NVIDIA-Other"))
    await until(lambda: models(worlds) == {"New": 40960, "Other": 65536})
