"""What a request refers to is looked up within bounds, and what is not got is out of view."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.queues import flavor, local, queue, queued, read
from tests.samples import job
from tests.unit.cluster.api_server import ApiServer, Collection, served
from webhook.catalog.queues import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from webhook.cluster.access import Access
from webhook.cluster.lookup import Bounds, Lookup
from webhook.fleet.build import build_fleet
from webhook.intake.references import references
from webhook.model.policy import Policy
from webhook.model.request import Kind, Request
from webhook.model.surroundings import Reference
from webhook.model.world import World

RUNTIME = Kind("trainer.kubeflow.org", "", "TrainingRuntime")
CONFIG_MAP = Kind("", "", "ConfigMap")
RUNTIMES = "/apis/trainer.kubeflow.org/v1/trainingruntimes"
REQUEST = Request(Kind("batch", "v1", "Job"), "CREATE", job(), namespace="team-a")
WORLD = World(build_fleet([]), Policy())


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    async with served(tmp_path) as (server, kubeconfig):
        runtimes = server.serve(RUNTIMES, "TrainingRuntime")
        runtimes.put({"metadata": {"name": "torch", "namespace": "team-a"}, "spec": {"a": 1}, "status": {"b": 2}})
        yield server, kubeconfig


@pytest.fixture
def server(cluster: tuple[ApiServer, Path]) -> ApiServer:
    return cluster[0]


@pytest.fixture
def config_maps(server: ApiServer) -> Collection:
    return server.serve("/api/v1/configmaps", "ConfigMap")


@pytest.fixture
async def looking_up(cluster: tuple[ApiServer, Path]) -> AsyncIterator[Callable[..., Lookup]]:
    made: list[Lookup] = []

    def look_up(*references: Reference, path: str = RUNTIMES, bounds: Bounds | None = None) -> Lookup:
        # A generous time: what is tested here must not hang on how busy the machine is.
        limits = bounds or Bounds(seconds=5)
        made.append(Lookup(Access(cluster[1]).client, lambda _: path, lambda *_: references, limits))
        return made[-1]

    yield look_up
    for one in made:
        await one.close()


def config_map(name: str) -> Reference:
    return Reference(CONFIG_MAP, "team-a", name)


TORCH = Reference(RUNTIME, "team-a", "torch")


async def test_what_is_not_in_view_is_got_by_name(looking_up: Callable[..., Lookup], server: ApiServer) -> None:
    world = await looking_up(TORCH).world(REQUEST, WORLD)
    assert world.surroundings[TORCH]["spec"] == {"a": 1}
    assert "status" not in world.surroundings[TORCH]
    assert not WORLD.surroundings
    assert server.asked == ["/apis/trainer.kubeflow.org/v1/namespaces/team-a/trainingruntimes/torch"]


@pytest.fixture
async def kueue(
    cluster: tuple[ApiServer, Path], server: ApiServer
) -> AsyncIterator[tuple[dict[str, Collection], Callable[..., Lookup]]]:
    """The collections of Kueue by kind, and a look-up of what jobs refer to in them."""
    api, made = "/apis/kueue.x-k8s.io/v1beta2", list[Lookup]()
    paths = {one: f"{api}/{one.kind.lower()}s" for one in (LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR)}

    def look_up(bounds: Bounds | None = None) -> Lookup:
        limits = bounds or Bounds(seconds=5)
        made.append(Lookup(Access(cluster[1]).client, lambda kind: paths.get(kind, ""), references, limits))
        return made[-1]

    yield {kind.kind: server.serve(path, kind.kind) for kind, path in paths.items()}, look_up
    for one in made:
        await one.close()


QUEUED = replace(REQUEST, object=queued(job()))
LQ = ("Kueue", "team-a", "lq")


async def test_a_queue_that_is_not_in_view_is_got_by_name_and_joins_the_others(
    kueue: tuple[dict[str, Collection], Callable[..., Lookup]], server: ApiServer
) -> None:
    objects, look_up = kueue
    objects["LocalQueue"].put(local())
    world = replace(WORLD, queues=read(flavor("a"), queue({"a": 8})))
    lookup = look_up()
    seen = await lookup.world(QUEUED, world)
    assert [one.name for one in seen.queues.known[LQ].flavors] == ["a"]
    assert seen.surroundings == world.surroundings
    # One that is in view is not asked for, nor is one of a job that names none.
    assert await lookup.world(QUEUED, seen) is seen
    assert await lookup.world(REQUEST, world) is world
    assert server.asked == ["/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/localqueues/lq"]


async def test_what_is_behind_a_queue_is_got_by_name_as_far_as_it_is_not_in_view(
    kueue: tuple[dict[str, Collection], Callable[..., Lookup]], server: ApiServer
) -> None:
    objects, look_up = kueue
    every = [local(), queue({"a": 8, "b": 8}), flavor("a"), flavor("b", {"gpu": "b"})]
    for one in every:
        objects[one["kind"]].put(one)
    world = replace(WORLD, queues=read(flavor("a")))
    lookup = look_up()
    seen = await lookup.world(QUEUED, world)
    assert seen.queues.known[LQ] == read(*every).known[LQ]
    assert seen.surroundings == world.surroundings
    assert [path.rpartition("/v1beta2/")[2] for path in server.asked] == [
        "namespaces/team-a/localqueues/lq",
        "clusterqueues/cq",
        "resourceflavors/b",
    ]
    # The next job of the queue waits for none of them.
    assert (await lookup.world(QUEUED, world)).queues == seen.queues
    assert len(server.asked) == 3


async def test_a_flavor_that_a_queue_in_view_lacks_is_got_by_name_and_asked_for_once_where_it_is_nowhere(
    kueue: tuple[dict[str, Collection], Callable[..., Lookup]], server: ApiServer
) -> None:
    objects, look_up = kueue
    in_view = [local(), queue({"a": 8, "late": 8, "gone": 8}), flavor("a")]
    for one in (*in_view, flavor("late")):
        objects[one["kind"]].put(one)
    world = replace(WORLD, queues=read(*in_view))
    lookup = look_up()
    for _ in range(3):
        found = (await lookup.world(QUEUED, world)).queues.known[LQ]
        assert [one.name for one in found.flavors] == ["a", "late"]
        assert found.missing == ("ResourceFlavor gone",)
    assert len(server.asked) == 4


async def test_what_was_got_before_the_time_was_up_counts(
    kueue: tuple[dict[str, Collection], Callable[..., Lookup]], server: ApiServer
) -> None:
    objects, look_up = kueue
    objects["LocalQueue"].put(local())
    lookup = look_up(Bounds(fresh_s=600, absent_s=0))
    while LQ not in (await lookup.world(QUEUED, WORLD)).queues.known:
        pass
    objects["ClusterQueue"].put(queue({"a": 8}))
    server.delay_s = 30
    found = (await lookup.world(QUEUED, replace(WORLD, queues=read(flavor("a"))))).queues.known[LQ]
    assert ([one.name for one in found.flavors], found.missing) == (["a"], ("ClusterQueue cq",))
    server.delay_s = 0


async def test_a_step_asks_for_a_bounded_number_of_objects(
    kueue: tuple[dict[str, Collection], Callable[..., Lookup]], server: ApiServer
) -> None:
    objects, look_up = kueue
    names = [f"f{index}" for index in range(12)]
    for one in (local(), queue(dict.fromkeys(names, 8)), *map(flavor, names)):
        objects[one["kind"]].put(one)
    found = (await look_up().world(QUEUED, WORLD)).queues.known[LQ]
    assert (len(found.flavors), len(found.missing)) == (8, 4)
    assert len(server.asked) == 1 + 1 + 8


async def test_an_answer_is_used_again_and_so_is_a_no(looking_up: Callable[..., Lookup], server: ApiServer) -> None:
    absent = Reference(RUNTIME, "team-a", "absent")
    lookup = looking_up(TORCH, absent)
    for _ in range(3):
        assert list((await lookup.world(REQUEST, WORLD)).surroundings) == [TORCH]
    assert len(server.asked) == 2


async def test_an_answer_is_asked_for_again_when_it_is_old(
    looking_up: Callable[..., Lookup], server: ApiServer
) -> None:
    lookup = looking_up(TORCH, bounds=Bounds(seconds=5, fresh_s=0))
    for _ in range(2):
        assert TORCH in (await lookup.world(REQUEST, WORLD)).surroundings
    assert len(server.asked) == 2


async def test_what_is_in_view_is_not_asked_for(looking_up: Callable[..., Lookup], server: ApiServer) -> None:
    world = World(WORLD.fleet, Policy(), surroundings={TORCH: {"kind": "TrainingRuntime"}})
    assert await looking_up(TORCH).world(REQUEST, world) is world
    assert server.asked == []


async def test_a_kind_that_the_cluster_does_not_serve_is_not_asked_for(
    looking_up: Callable[..., Lookup], server: ApiServer
) -> None:
    assert await looking_up(TORCH, path="").world(REQUEST, WORLD) is WORLD
    assert server.asked == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "a%2Fb", "a?watch=true", "A", "x" * 254])
async def test_a_name_that_is_none_is_not_asked_for(
    looking_up: Callable[..., Lookup], server: ApiServer, name: str
) -> None:
    references = (Reference(RUNTIME, "team-a", name), Reference(RUNTIME, name or "..", "torch"))
    assert await looking_up(*references).world(REQUEST, WORLD) is WORLD
    assert server.asked == []


async def test_the_time_is_bounded_whatever_the_api_server_does(
    looking_up: Callable[..., Lookup], server: ApiServer
) -> None:
    server.delay_s = 10
    started = time.perf_counter()
    assert await looking_up(TORCH, bounds=Bounds()).world(REQUEST, WORLD) is WORLD
    assert time.perf_counter() - started < 2
    server.delay_s = 0


async def test_at_most_three_config_maps_are_read(
    looking_up: Callable[..., Lookup], server: ApiServer, config_maps: Collection
) -> None:
    for index in range(5):
        config_maps.put({"metadata": {"name": f"c{index}", "namespace": "team-a"}, "data": {"a": "b"}})
    world = await looking_up(*(config_map(f"c{index}") for index in range(5))).world(REQUEST, WORLD)
    assert set(world.surroundings) == {config_map("c0"), config_map("c1"), config_map("c2")}
    assert len(server.asked) == 3


async def test_config_maps_have_256_kib_together(looking_up: Callable[..., Lookup], config_maps: Collection) -> None:
    for name, size in (("large", 300), ("half", 200), ("other", 200)):
        config_maps.put({"metadata": {"name": name, "namespace": "team-a"}, "data": {"a": "x" * (size << 10)}})
    alone = await looking_up(config_map("large")).world(REQUEST, WORLD)
    assert not alone.surroundings
    both = await looking_up(config_map("half"), config_map("other")).world(REQUEST, WORLD)
    assert len(both.surroundings) < 2
    one = await looking_up(config_map("half")).world(REQUEST, WORLD)
    assert set(one.surroundings) == {config_map("half")}


async def test_a_refusal_leaves_it_out_of_view_and_an_error_is_tried_again(
    looking_up: Callable[..., Lookup], server: ApiServer
) -> None:
    lookup = looking_up(TORCH, bounds=Bounds(seconds=5, absent_s=0))
    for status in (403, 500):
        server.collections[RUNTIMES].refuses = status
        assert await lookup.world(REQUEST, WORLD) is WORLD
    server.collections[RUNTIMES].refuses = None
    assert TORCH in (await lookup.world(REQUEST, WORLD)).surroundings


async def test_requests_at_the_same_time_share_one_connection(looking_up: Callable[..., Lookup]) -> None:
    lookup = looking_up(TORCH)
    worlds = await asyncio.gather(*(lookup.world(REQUEST, WORLD) for _ in range(8)))
    assert all(TORCH in world.surroundings for world in worlds)
