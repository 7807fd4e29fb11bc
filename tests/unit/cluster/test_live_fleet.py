"""What a pod takes counts from the moment that it is seen, though a fleet that holds it comes later."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import pytest

from controlplane.nodes import RTX_5090, RTX_PRO_6000, Card
from tests.samples import Json, nodes, pod, products, pytorchjob
from tests.unit.cluster.api_server import until
from webhook.cluster.fleet import LiveFleet
from webhook.cluster.world import Worlds
from webhook.fleet.nodes import read_node
from webhook.model.pods import Pod
from webhook.model.policy import Policy
from webhook.model.request import Kind, Request
from webhook.model.verdict import Review
from webhook.review import review

GPU = "nvidia.com/gpu"
LABEL = f"{GPU}.product"
SMALL, LARGE = RTX_5090.product, RTX_PRO_6000.product
READ = {
    one.name: one for each in nodes((RTX_5090, 3, 4), (RTX_PRO_6000, 3, 4)) if (one := read_node(each, 0.0)) is not None
}
CREATED = 1000
PATIENCE_S = 30


@pytest.fixture
def worlds() -> Worlds:
    return Worlds(Policy())


@pytest.fixture
async def live(worlds: Worlds) -> AsyncIterator[LiveFleet]:
    """Three nodes of each model, on which nothing runs, and no pods."""
    following = LiveFleet(worlds, lambda _: None)
    await following.nodes.listed(READ)
    await following.pods.listed({})
    following.start()
    await until(lambda: worlds.fleet and worlds.fleet.free, PATIENCE_S)
    yield following
    await following.stop()


def node(card: Card, index: int) -> str:
    return [name for name in READ if name.startswith(f"{card.product.lower()}-")][index]


def submitted(worlds: Worlds, name: str, workers: int) -> Review:
    """The answer to a job whose pods each fill a node of either model. It is given, and promises what it does."""
    world = worlds.current
    assert world is not None
    obj: Json = pytorchjob(pod(gpus=4), workers=workers, name=name, memory_per_device="20Gi")
    kind = Kind("kubeflow.org", "v1", "PyTorchJob")
    answer = review(Request(kind, "CREATE", obj, namespace="team-a", now=float(CREATED)), world)
    worlds.promise(answer)
    return answer


def pods_of(name: str, count: int, product: str) -> Iterator[Pod]:
    """As they are when they are held back by a gate, or no node is free."""
    for index in range(count):
        uid = f"{name}-{index}"
        yield Pod(uid, "team-a", "", "", {GPU: 4, "pods": 1}, CREATED, waits_for=(LABEL, product))


def bound(one: Pod, to: str) -> Pod:
    return replace(one, node=to, waits_for=None)


def figures(worlds: Worlds) -> dict[str, tuple[int | None, int | None, bool]]:
    """By model, for a job of two such pods: devices free now, what the queue leaves of them, and whether it waits."""
    world = worlds.current
    assert world is not None
    kind, obj = Kind("kubeflow.org", "v1", "PyTorchJob"), pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi")
    found = review(Request(kind, "CREATE", obj, namespace="team-b", now=float(CREATED)), world).decision.pool
    return {one.model.product: (one.devices_now, one.left_now, one.waits) for one in found.candidates}


async def published(live: LiveFleet) -> None:
    await until(lambda: not live.behind, PATIENCE_S)


async def test_a_job_is_not_sent_to_nodes_that_pods_have_been_bound_to_since_the_last_fleet(
    live: LiveFleet, worlds: Worlds
) -> None:
    assert products(submitted(worlds, "first", 2)) == [SMALL]
    gated = list(pods_of("first", 2, SMALL))
    for one in gated:
        live.pods.changed(None, one)
    await published(live)
    for index, one in enumerate(gated):
        live.pods.changed(one, bound(one, node(RTX_5090, index)))

    assert products(submitted(worlds, "second", 2)) == [LARGE]


async def test_a_pod_counts_once_from_the_moment_that_it_is_seen(live: LiveFleet, worlds: Worlds) -> None:
    """Promised, then queued, then in use: what is left never shows it twice or not at all."""
    assert products(submitted(worlds, "first", 3)) == [SMALL]
    full = {SMALL: (0, 0, True), LARGE: (12, 12, False)}
    assert figures(worlds) == full

    gated = list(pods_of("first", 3, SMALL))
    queued = {SMALL: (12, 0, False), LARGE: (12, 12, False)}
    for one in gated:
        live.pods.changed(None, one)
    assert figures(worlds) == queued
    await published(live)
    assert figures(worlds) == queued

    for index, one in enumerate(gated):
        live.pods.changed(one, bound(one, node(RTX_5090, index)))
    assert figures(worlds) == full
    await published(live)
    assert figures(worlds) == full


async def test_pods_that_are_bound_at_once_keep_their_promise_until_a_fleet_holds_them(
    live: LiveFleet, worlds: Worlds
) -> None:
    submitted(worlds, "first", 2)
    for index, one in enumerate(pods_of("first", 2, SMALL)):
        live.pods.changed(None, bound(one, node(RTX_5090, index)))
    seen = figures(worlds)
    assert seen[SMALL] == (4, 4, True)
    await published(live)
    assert figures(worlds) == seen


async def test_pods_of_others_count_at_once_too(live: LiveFleet, worlds: Worlds) -> None:
    [one, other] = pods_of("strange", 2, LARGE)
    live.pods.changed(None, bound(one, node(RTX_PRO_6000, 0)))
    live.pods.changed(None, bound(other, "no node that is in view"))
    assert figures(worlds)[LARGE] == (8, 8, False)
    live.pods.changed(bound(one, node(RTX_PRO_6000, 0)), None)
    assert figures(worlds)[LARGE] == (12, 12, False)
    await published(live)
    assert figures(worlds)[LARGE] == (12, 12, False)


async def test_a_pod_that_is_seen_while_a_fleet_is_made_counts_beside_it(live: LiveFleet, worlds: Worlds) -> None:
    gated = list(pods_of("strange", 3, SMALL))
    first, second, third = (bound(each, node(RTX_5090, index)) for index, each in enumerate(gated))
    before = worlds.fleet
    with the_only_thread_busy():
        live.pods.changed(None, first)
        await asyncio.sleep(0.5)  # by now it is to be made, and waits for the thread
        live.pods.changed(None, second)
        live.pods.changed(None, gated[2])
    await until(lambda: worlds.fleet is not before, PATIENCE_S)
    assert figures(worlds)[SMALL] == (4, 0, True)
    live.pods.changed(gated[2], third)
    assert figures(worlds)[SMALL] == (0, 0, True)
    await published(live)
    assert figures(worlds)[SMALL] == (0, 0, True)


@contextmanager
def the_only_thread_busy() -> Iterator[None]:
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        go_on = Event()
        threads.submit(go_on.wait)
        try:
            yield
        finally:
            go_on.set()
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))


async def test_what_was_promised_is_found_bound_in_a_new_list(live: LiveFleet, worlds: Worlds) -> None:
    submitted(worlds, "first", 2)
    there = [bound(one, node(RTX_5090, index)) for index, one in enumerate(pods_of("first", 2, SMALL))]
    await live.pods.listed({one.uid: one for one in there})
    assert figures(worlds)[SMALL] == (4, 4, True)
    await published(live)
    assert figures(worlds)[SMALL] == (4, 4, True)
    assert worlds.current is not None
    assert worlds.current.promises == ()


class Ring:
    """Only the collector frees it."""

    def __init__(self) -> None:
        self.ring = self


async def test_what_was_there_at_one_list_and_went_after_it_is_freed_at_the_next(live: LiveFleet) -> None:
    ring = Ring()
    seen = weakref.ref(ring)
    await live.pods.listed({})
    await published(live)
    del ring

    await live.pods.listed({})
    await published(live)

    assert seen() is None
