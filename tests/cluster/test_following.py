"""What is followed of a real cluster, with the rights of manifests/base/rbac.yaml and no others."""

import asyncio
import time
from pathlib import Path

import pytest

from controlplane.rig import ControlPlane
from demo.serving import MANIFESTS
from tests.cluster.followed import free, until
from tests.cluster.team import Team
from tests.queues import flavor, kueue, local, queue
from tests.samples import Json, fleet, pod
from webhook.catalog.queues import LOCAL_QUEUE
from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.lookup import Bounds, Lookup
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.model.profile import Allocator, Observation, Profile, Recipe
from webhook.model.request import Kind, Request
from webhook.model.surroundings import Reference
from webhook.model.world import World
from webhook.policy.training_profile import document_of, name_of

GPU = "nvidia.com/gpu"
RUNTIME = Kind("trainer.kubeflow.org", "", "TrainingRuntime")
DEFINITION = Reference(
    Kind("apiextensions.k8s.io", "", "CustomResourceDefinition"), "", "trainjobs.trainer.kubeflow.org"
)
STATUS = "nodeGroups:\n- {name: a, health: {cloudProviderTarget: 1, minSize: 0, maxSize: 4}}\n"


def runtime(name: str) -> Json:
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod()}}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name},
        "spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


@pytest.mark.usefixtures("demo_fleet")
def test_nodes_pods_runtimes_and_autoscalers_are_followed_with_our_own_rights(
    control_plane: ControlPlane, account: Path, team: Team
) -> None:
    control_plane.install_crds("trainer")
    team.apply(runtime("before"))
    path = "/api/v1/namespaces/kube-system/configmaps"
    name = "cluster-autoscaler-status"
    control_plane.api.request("POST", path, {"metadata": {"name": name}, "data": {"status": STATUS}})
    worlds = Worlds(Policy())
    access = Access(account)
    following = Following(access.client, worlds)

    async def follow() -> None:
        following.start()
        await until(worlds, lambda world: free(world, GPU) == 16)
        await until(worlds, lambda world: Reference(RUNTIME, team.namespace, "before") in world.surroundings)
        await until(worlds, lambda world: DEFINITION in world.surroundings)
        await until(worlds, lambda world: world.fleet.grows)
        assert worlds.problems == {}
        bound = {"metadata": {"name": "bound"}, "spec": pod(gpus=3)}
        await asyncio.to_thread(control_plane.api.create, f"/api/v1/namespaces/{team.namespace}/pods", [bound])
        await until(worlds, lambda world: free(world, GPU) == 13)
        await asyncio.to_thread(team.kubectl, "delete", "pod", "bound", "--grace-period=0", "--force")
        await until(worlds, lambda world: free(world, GPU) == 16)
        await following.stop()

        await asyncio.to_thread(team.apply, runtime("later"))
        later = Reference(RUNTIME, team.namespace, "later")
        lookup = Lookup(access.client, following.path_of, lambda *_: (later,), Bounds(seconds=30))
        assert worlds.current is not None
        world = await lookup.world(Request(Kind("", "v1", "Pod"), "CREATE", {}), worlds.current)
        assert world.surroundings[later]["spec"]["mlPolicy"]["numNodes"] == 2
        await lookup.close()

    try:
        asyncio.run(follow())
    finally:
        control_plane.api.delete(f"{path}/{name}")


def test_queues_and_their_flavors_are_followed_with_our_own_rights(
    control_plane: ControlPlane, account: Path, team: Team
) -> None:
    control_plane.install_crds("kueue")
    name = team.namespace
    control_plane.apply(flavor(name, {"gpu-type": "a"}), queue({name: 8}, name, cohortName=name))
    team.apply(local(name))
    worlds = Worlds(Policy())
    access = Access(account)
    following = Following(access.client, worlds)
    key = ("Kueue", team.namespace, "lq")

    def quota(world: World) -> int | None:
        known = world.queues.known.get(key)
        return known.flavors[0].quota[GPU] if known and known.flavors and known.flavors[0].quota else None

    async def follow() -> None:
        following.start()
        await until(worlds, lambda world: quota(world) == 8)
        lends = kueue("Cohort", name, resourceGroups=queue({name: 4})["spec"]["resourceGroups"])
        await asyncio.to_thread(control_plane.apply, lends)
        await until(worlds, lambda world: quota(world) == 12)
        await asyncio.to_thread(control_plane.kubectl, "delete", "resourceflavor", name)
        await until(worlds, lambda world: world.queues.known[key].missing == (f"ResourceFlavor {name}",))
        await following.stop()

        await asyncio.to_thread(team.apply, local(name, "later"))
        later = Reference(LOCAL_QUEUE, team.namespace, "later")
        lookup = Lookup(access.client, following.path_of, lambda *_: (later,), Bounds(seconds=30))
        assert worlds.current is not None
        request = Request(Kind("", "v1", "Pod"), "CREATE", {})
        world = await lookup.world(request, worlds.current)
        assert world.queues.known["Kueue", team.namespace, "later"] == worlds.current.queues.known[key]

        behind = (flavor(f"{name}-new"), queue({f"{name}-new": 16}, f"{name}-new"))
        await asyncio.to_thread(control_plane.apply, *behind)
        await asyncio.to_thread(team.apply, local(f"{name}-new", "newer"))
        newer = Reference(LOCAL_QUEUE, team.namespace, "newer")
        lookup = Lookup(access.client, following.path_of, lambda *_: (newer,), Bounds(seconds=30))
        world = await lookup.world(request, worlds.current)
        await lookup.close()
        (given,) = world.queues.known["Kueue", team.namespace, "newer"].flavors
        assert (given.name, given.quota) == (f"{name}-new", {GPU: 16})

    try:
        asyncio.run(follow())
    finally:
        control_plane.kubectl("delete", "clusterqueue,cohort", name)
        control_plane.kubectl("delete", "clusterqueue,resourceflavor", f"{name}-new", "--ignore-not-found")


def test_profiles_are_followed_with_our_own_rights(control_plane: ControlPlane, account: Path, team: Team) -> None:
    definition = MANIFESTS / "crds" / "trainingprofiles.samestep.dev.yaml"
    control_plane.kubectl("apply", "--server-side", "-f", definition)
    control_plane.kubectl("wait", "--for=condition=Established", "crd/trainingprofiles.samestep.dev")
    now = time.time()
    recipe = Recipe("0" * 20, "1" * 20, 8, Allocator.CACHING)
    seen = Observation("NVIDIA-L4", 23_034, 1, now, 20_000, now)
    team.apply(document_of(Profile(team.namespace, name_of(recipe), recipe, (seen,))))
    worlds = Worlds(Policy(), fleet([]))
    following = Following(Access(account).client, worlds)
    key = (team.namespace, recipe.digest)

    async def follow() -> None:
        following.start()
        await until(worlds, lambda world: key in world.profiles.by_digest)
        assert worlds.current is not None
        (profile,) = worlds.current.profiles.by_digest[key]
        assert (profile.recipe, profile.observations[0].peak_mib) == (recipe, 20_000)
        await asyncio.to_thread(team.kubectl, "delete", "tprof", profile.name)
        await until(worlds, lambda world: key not in world.profiles.by_digest)
        await following.stop()

    try:
        asyncio.run(follow())
    finally:
        control_plane.kubectl("delete", "-f", definition)
