"""Policies that are followed: nothing is decided by half of them."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.nodes import RTX_5090, gpu_node
from tests.samples import Json
from tests.unit.cluster.api_server import ApiServer, Collection, served, until
from tests.unit.policy.test_load import accelerator, mount, policy, write
from webhook.cluster.access import Access
from webhook.cluster.following import Following
from webhook.cluster.policy_files import PolicyFiles
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.policy.load import Loaded, load
from webhook.policy.settle import NO_FILES

OWN = "/apis/samestep.dev/v1alpha1"
PATIENCE_S = 30
"""On a busy machine."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    async with served(tmp_path) as (server, kubeconfig):
        for path, kind in (
            ("/api/v1/nodes", "Node"),
            ("/api/v1/pods", "Pod"),
            ("/api/v1/namespaces", "Namespace"),
            ("/api/v1/configmaps", "ConfigMap"),
            (f"{OWN}/trainingpolicies", "TrainingPolicy"),
            (f"{OWN}/accelerators", "Accelerator"),
        ):
            server.serve(path, kind)
        server.collections["/api/v1/nodes"].put(labelled("a"))
        yield server, kubeconfig


@pytest.fixture
def policies(cluster: tuple[ApiServer, Path]) -> Collection:
    found = cluster[0].collections[f"{OWN}/trainingpolicies"]
    found.api_version = "samestep.dev/v1alpha1"
    return found


@pytest.fixture
def worlds() -> Worlds:
    return Worlds(Policy())


def labelled(name: str) -> Json:
    node = gpu_node(name, RTX_5090)
    node["metadata"]["labels"] |= {"type-1": "first", "type-2": "second"}
    return node


def spoken(worlds: Worlds) -> tuple[str, ...]:
    """Which label names the model in the rules of a world, and what the model is called in its fleet."""
    world = worlds.current
    assert world is not None
    [column] = world.fleet.devices.values()
    labels = world.rules.policies[0].model_labels if world.rules and world.rules.policies else ()
    return (*labels, *(model.name for model in column.models))


async def test_nothing_is_decided_before_policies_and_namespaces_are_in_view(
    cluster: tuple[ApiServer, Path], policies: Collection, worlds: Worlds
) -> None:
    server, kubeconfig = cluster
    policies.put(policy("one"))
    policies.refuses = server.collections["/api/v1/namespaces"].refuses = 403
    following = Following(Access(kubeconfig).client, worlds)
    following.start()
    try:
        await until(lambda: worlds.fleet, PATIENCE_S)
        await until(lambda: {"trainingpolicies", "namespaces"} <= worlds.problems.keys(), PATIENCE_S)
        assert (worlds.current, worlds.synced, worlds.awaited) == (None, False, ("namespaces", "policies"))
        policies.refuses = None
        await until(lambda: worlds.awaited == ("namespaces",), PATIENCE_S)
        assert worlds.current is None
        server.collections["/api/v1/namespaces"].refuses = None
        await until(lambda: worlds.current, PATIENCE_S)
        assert worlds.policies == 1
    finally:
        await following.stop()


async def test_rules_and_the_fleet_that_their_labels_make_change_at_once(
    cluster: tuple[ApiServer, Path], policies: Collection, worlds: Worlds
) -> None:
    seen: set[tuple[str, ...]] = set()
    over = asyncio.Event()

    async def look() -> None:
        while not over.is_set():
            seen.add(spoken(worlds))
            await asyncio.sleep(0)

    following = Following(Access(cluster[1]).client, worlds)
    following.start()
    try:
        await until(lambda: worlds.current, PATIENCE_S)
        looking = asyncio.create_task(look())
        for label in ("type-1", "type-2", "type-1", "type-2"):
            policies.put(policy("one", modelLabels=[label]))
            await asyncio.sleep(0.15)  # mostly while the fleet before it is being made
        await until(lambda: spoken(worlds) == ("type-2", "second"), PATIENCE_S)
        policies.remove("one")
        await until(lambda: spoken(worlds) == ("RTX-5090",), PATIENCE_S)
        over.set()
        await looking
    finally:
        await following.stop()
    assert seen <= {("RTX-5090",), ("type-1", "first"), ("type-2", "second")}
    assert len(seen) > 1


async def test_rules_that_come_while_a_fleet_is_made_for_others_are_the_ones_that_stay(
    cluster: tuple[ApiServer, Path], worlds: Worlds
) -> None:
    following = Following(Access(cluster[1]).client, worlds)
    following.start()
    try:
        await until(lambda: worlds.current, PATIENCE_S)
        live = following._live
        for label in ("type-1", "type-2", "type-1"):
            live.rule(Rules((Policy("one", model_labels=(label,)),)))
            await asyncio.sleep(0.001)
        last = Rules((Policy("last"),))
        live.rule(last)
        await until(lambda: worlds.current and worlds.current.rules is last and not live.behind, PATIENCE_S)
        await asyncio.sleep(0.5)
        assert worlds.current is not None
        assert (spoken(worlds), worlds.current.rules) == (("RTX-5090",), last)
    finally:
        await following.stop()


async def test_accelerators_of_files_go_before_objects_of_their_names(
    cluster: tuple[ApiServer, Path], worlds: Worlds, tmp_path: Path
) -> None:
    found = cluster[0].collections[f"{OWN}/accelerators"]
    found.api_version = "samestep.dev/v1alpha1"
    found.put(accelerator("X1", memory="1Gi"))
    found.put(accelerator("X2", memory="2Gi"))
    files = load(write(tmp_path / "policies" / "a.yaml", accelerator("X1", memory="3Gi")).parent)
    following = Following(Access(cluster[1]).client, worlds, files)
    following.start()

    def memories() -> list[int | None]:
        products = (following._live.catalog.product(name) for name in ("NVIDIA-X1", "NVIDIA-X2"))
        return [one.memory_mib if one else None for one in products]

    try:
        await until(lambda: memories() == [3072, 2048], PATIENCE_S)
        following.policies.read(NO_FILES)
        await until(lambda: memories() == [1024, 2048], PATIENCE_S)
    finally:
        await following.stop()


async def test_a_mount_that_is_swapped_all_the_time_is_never_read_half_old_and_half_new(tmp_path: Path) -> None:
    told: list[Loaded] = []
    at = tmp_path / "mount"

    def swap(version: int) -> None:
        write(at / f"..{version}" / "later.yaml", policy(f"later-{version}"))  # as kubelet does: before the swap
        mount(at, str(version), *(policy(f"{name}-{version}") for name in "abcdefgh"))

    swap(0)
    (at / "later.yaml").symlink_to("..data/later.yaml")
    files = PolicyFiles(at, NO_FILES, told.append)
    files.start()
    until_s = time.monotonic() + 4
    version = 0
    while time.monotonic() < until_s:
        version += 1
        await asyncio.to_thread(swap, version)
        await asyncio.sleep(0.05 if version % 20 else 0.8)
    await until(lambda: told and told[-1].rules.policies[0].name == f"a-{version}", PATIENCE_S)
    await files.stop()
    assert len(told) > 2
    for one in told:
        assert len({policy.name.rpartition("-")[2] for policy in one.rules.policies}) == 1
        assert (len(one.rules.policies), one.faults) == (9, ())


async def test_a_file_that_is_rewritten_with_the_same_length_at_once_is_read_again(tmp_path: Path) -> None:
    told: list[Loaded] = []
    file = write(tmp_path / "a.yaml", policy("a"))
    files = PolicyFiles(file, load(file), told.append)
    files.start()
    await asyncio.sleep(0.1)
    for name in "bcdefg":
        write(file, policy(name))
        await until(lambda name=name: told and told[-1].rules.policies[0].name == name, within_s=2)  # type: ignore[misc]
    await files.stop()
    assert [one.rules.policies[0].name for one in told] == list("bcdefg")
