"""Queues as they are followed: what changes their meaning is told, and nothing else."""

import asyncio
from collections.abc import Mapping

from tests.queues import GPU, flavor, local, queue
from tests.samples import Json, demo_nodes, fleet
from webhook.cluster.queues import QueueFollower
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.model.queues import Queue
from webhook.model.request import Object

KEY = ("Kueue", "team-a", "lq")


def test_queues_are_made_of_all_kinds_together_in_whatever_order_they_come() -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    listed(QueueFollower(worlds, "localqueues"), local())
    assert KEY not in known(worlds)
    listed(QueueFollower(worlds, "clusterqueues"), queue({"a": 8}))
    assert known(worlds)[KEY].missing == ("ResourceFlavor a",)
    listed(QueueFollower(worlds, "resourceflavors"), flavor("a"))
    assert (known(worlds)[KEY].missing, known(worlds)[KEY].flavors[0].quota) == ((), {GPU: 8})


def test_a_change_of_its_status_makes_no_new_world() -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    follower = QueueFollower(worlds, "clusterqueues")
    (before,) = listed(follower, queue({"a": 8}))
    world = worlds.current
    busy = queue({"a": 8})
    busy["metadata"] |= {"resourceVersion": "2", "generation": 1}
    busy["status"] = {"pendingWorkloads": 3}
    now = follower.project(busy, before)
    assert now is before
    follower.changed(before, now)
    assert worlds.current is world


def test_what_cannot_be_read_is_said_and_costs_itself() -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    listed(QueueFollower(worlds, "resourceflavors"), flavor("a"))
    listed(QueueFollower(worlds, "localqueues"), local())
    listed(QueueFollower(worlds, "clusterqueues"), queue({"a": 8}), queue({"a": {"nominalQuota": "a few"}}, "odd"))
    assert KEY in known(worlds)
    assert [fault.partition(":")[0] for fault in worlds.faults["queues"]] == ["ClusterQueue odd"]


def listed(follower: QueueFollower, *objects: Json) -> list[Object]:
    items = {follower.key(one["metadata"]): item for one in objects if (item := follower.project(one, None))}
    asyncio.run(follower.listed(items))
    return list(items.values())


def known(worlds: Worlds) -> Mapping[tuple[str, str, str], Queue]:
    assert worlds.current is not None
    return worlds.current.queues.known
