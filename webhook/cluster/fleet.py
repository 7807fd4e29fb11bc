"""The fleet, kept up from what the reflectors of nodes and pods see."""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from webhook.catalog.accelerators import Accelerators, accelerators
from webhook.catalog.additions import Added, added
from webhook.cluster.tasks import ended
from webhook.cluster.world import Worlds
from webhook.fleet.allocated import read_claim
from webhook.fleet.build import build_fleet, changed_fleet
from webhook.fleet.listed import Slice, devices_of, read_slice
from webhook.fleet.nodes import follow, read_node
from webhook.fleet.pods import Change, Usage
from webhook.fleet.signs import own_product
from webhook.intake.pods import read_pod
from webhook.model.fleet import Fleet, Listed, Node
from webhook.model.pods import Pod
from webhook.model.request import Object
from webhook.model.rules import Rules

_log = logging.getLogger(__name__)
_SETTLE_S = 0.2
_AFTER_FAILURE_S = 5.0


class LiveFleet:
    """Takes what the followers of `nodes`, `pods`, `claims` and `slices` are told, and hands fleets on to `worlds`.

    A fleet at most every `_SETTLE_S`, with all that has changed by then, made aside: the first one of 10,000 nodes
    takes longer than a request may wait. Until the nodes are listed again after a break, the old one is served.
    `read_again` is to see to it that the node of this name is told again.
    """

    def __init__(self, worlds: Worlds, read_again: Callable[[str], None]) -> None:
        self.nodes = NodeFollower(self, worlds)
        self.pods = PodFollower(self, worlds)
        self.claims = ClaimFollower(self, worlds)
        self.slices = SliceFollower(read_again)
        self.changed_nodes: dict[str, Node | None] = {}
        self.all_pods: list[Pod] | None = None
        self.changed_pods: list[Change] = []
        self._worlds = worlds
        self._accelerators: list[Object] = []
        self._added = Added(accelerators())
        self._changed_catalog = False
        self._rules: Rules | None = None
        """Those that come into force with the next fleet."""
        self._labels: tuple[str, ...] | None = None
        """By which the last fleet was read, or the next one is at this moment."""
        self._fleet: Fleet | None = None
        self._usage: Usage | None = None
        self._changed = asyncio.Event()
        self._publishing: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to publish; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="fleet")

    async def stop(self) -> None:
        """Leaves the world as it is; what has changed by then is published after the next start."""
        await ended(self._task)

    @property
    def catalog(self) -> Accelerators:
        """By which the fleet is read at present."""
        return self._added.catalog

    def extend(self, objects: Iterable[Object]) -> None:
        """From now on these Accelerator objects, and no others, add to the catalog."""
        self._accelerators, self._changed_catalog = list(objects), True
        self._changed.set()

    def rule(self, rules: Rules) -> None:
        """From now on these rules, with a fleet that is read by their `modelLabels`: where these are others than
        before, rules and fleet change at once, when the fleet has been made."""
        if self._labels is None or self._worlds.labels_under(rules) == self._worlds.policy.model_labels:
            self._rules = None
            self._worlds.rule(rules)
        else:
            self._rules = rules
            self._changed.set()

    def change(self) -> None:
        """There is something new to publish."""
        self._changed.set()

    def pod_changed(self, before: Pod | None, now: Pod | None) -> None:
        """A pod, or a claim, has come, changed or gone."""
        self._worlds.change(before, now)
        self.changed_pods.append((before, now))
        self._changed.set()

    def listed_anew(self, before: Mapping[str, Pod] | None, now: Mapping[str, Pod]) -> None:
        """All pods, or all claims, have been listed: what was reported before is in it. Of the first list there is
        nothing that could have been promised."""
        for uid, one in now.items() if before is not None else ():
            known = before.get(uid) if before else None
            if one.settled and not (known and known.settled):
                self._worlds.change(known, one)
        self.all_pods, self.changed_pods = self._taking(), []
        self._changed.set()

    def _taking(self) -> list[Pod] | None:
        """All that takes of nodes; None before the pods have been listed."""
        return None if self.pods.items is None else [*self.pods.items.values(), *self.claims.items.values()]

    @property
    def behind(self) -> bool:
        """Whether something new is not published yet."""
        return self._changed.is_set() or self._publishing is not None

    async def _run(self) -> None:
        while True:
            if self._publishing is None:
                await self._changed.wait()
                if not self.nodes.complete:
                    await asyncio.sleep(_SETTLE_S)
                    continue
                self._publishing = asyncio.create_task(self._publish())
            try:
                # Shielded: whatever had changed would be lost with it.
                await asyncio.shield(self._publishing)
            except Exception:  # noqa: BLE001 (whatever it is, the next one is made without what led to it)
                _log.exception("the fleet could not be brought up to date and is made anew")
                self._begin_anew()
                await asyncio.sleep(_AFTER_FAILURE_S)
            self._publishing = None
            await asyncio.sleep(_SETTLE_S)

    def _begin_anew(self) -> None:
        self._fleet = self._usage = None
        self.changed_nodes, self.changed_pods = dict(self.nodes.items), []
        self.all_pods = self._taking()
        self._changed_catalog = True
        self._changed.set()

    async def _publish(self) -> None:
        self._changed.clear()
        if self._changed_catalog:
            await self._extend_catalog()
        rules = self._rules
        labels = self._worlds.policy.model_labels if rules is None else self._worlds.labels_under(rules)
        if labels != self._labels:
            self._read_all_again()
            self._labels = labels
        nodes, self.changed_nodes = self.changed_nodes, {}
        listed, self.all_pods = self.all_pods, None
        pods, self.changed_pods = self.changed_pods, []
        nodes_at, pods_at = self.nodes.confirmed_at, self.pods.confirmed_at
        is_first = self._fleet is None or listed is not None
        self._fleet = await asyncio.to_thread(self._next, nodes, listed, pods, labels)
        if self._rules is not rules:
            # Others are in force, or about to be: this fleet may have been read by the wrong labels.
            self._changed.set()
            return
        if rules is not None:
            self._rules = None
            self._worlds.rule(rules)
        fleet = replace(self._fleet, taken_at=nodes_at)
        self._worlds.swap(fleet, usage=self._usage, pods_at=pods_at, since=self.changed_pods)
        if is_first:
            # Nodes and pods stay as long as the process: walking 10,000 nodes takes a full collection 60 ms each time.
            # What was frozen the last time is looked at once more: in it was whatever else was there then.
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    async def _extend_catalog(self) -> None:
        self._changed_catalog = False
        # A millisecond for each object.
        now = await asyncio.to_thread(added, accelerators(), self._accelerators, self._added.good)
        for fault in now.faults:
            if fault not in self._added.faults:
                _log.warning("Accelerator %s", fault)
        self._worlds.broken("Accelerator", now.faults)
        if now.catalog != self._added.catalog:
            self._read_all_again()
        self._added = now

    def _read_all_again(self) -> None:
        """What is read of every node may be another thing now."""
        if self._fleet is not None:
            self.changed_nodes = {**{node.name: node for node in self._fleet.nodes}, **self.changed_nodes}
            self._fleet = None

    def _next(
        self,
        nodes: Mapping[str, Node | None],
        listed: list[Pod] | None,
        pods: list[Change],
        labels: tuple[str, ...],
    ) -> Fleet:
        """Runs in a thread of its own, and is alone in touching the usage and the last fleet."""
        fleet, busy = self._fleet, set()
        if listed is not None:
            self._usage = Usage(listed)
            fleet = replace(fleet, free=None) if fleet else None
        if self._usage is not None:
            for before, now in pods:
                busy |= self._usage.change(before, now)
        used = self._usage.used if self._usage else None
        if fleet is None:
            kept = (node for node in nodes.values() if node)
            return build_fleet(kept, used=used, model_labels=labels, catalog=self.catalog)
        return changed_fleet(fleet, nodes, used=used, busy=busy, model_labels=labels, catalog=self.catalog)


class NodeFollower:
    """Nodes by name; `items` are the reflector's own. `complete` once they have all been listed."""

    def __init__(self, live: LiveFleet, worlds: Worlds) -> None:
        self._live = live
        self._worlds = worlds
        self.items: Mapping[str, Node] = {}
        self.complete = False
        self.confirmed_at: float | None = None

    def key(self, metadata: Object) -> str:
        return str(metadata["name"])

    def project(self, item: Object, before: Node | None) -> Node | None:
        listed = self._live.slices.of(item["metadata"]["name"])
        node = read_node(item, before.known_since if before else self._came(item["metadata"]), listed)
        if node is None or before is None:
            return node
        node = follow(before, node, self._live.catalog)
        if _identity(before) != _identity(node):
            node = replace(node, known_since=time.time())
        return before if before == node else node

    def _came(self, metadata: Object) -> float:
        now = time.time()
        if self.complete:
            return now
        # It was there before this replica, and so it was for others, which may have decided by it.
        with suppress(KeyError, TypeError, ValueError):
            return min(datetime.fromisoformat(metadata["creationTimestamp"]).timestamp(), now)
        return now

    async def listed(self, items: Mapping[str, Node]) -> None:
        changes: dict[str, Node | None] = dict.fromkeys(self.items.keys() - items.keys())
        changes |= {name: node for name, node in items.items() if self.items.get(name) is not node}
        self.items, self.complete = items, True
        self._live.changed_nodes |= changes
        self._live.change()

    def changed(self, before: Node | None, now: Node | None) -> None:
        name = (now or before).name  # type: ignore[union-attr] # one of them is there
        self._live.changed_nodes[name] = now
        self._live.change()

    def confirmed(self, at: float) -> None:
        self.confirmed_at = at
        if not self._live.behind:
            self._worlds.confirm(nodes_at=at)


class SliceFollower:
    """ResourceSlices, one by one, for the node that has the devices (dynamic resource allocation). Where they change,
    `read_again` is called with the name of the node, which may have been none for us without them."""

    def __init__(self, read_again: Callable[[str], None]) -> None:
        self._read_again = read_again
        self._of_node: dict[str, dict[str, Slice]] = {}

    def key(self, metadata: Object) -> str:
        return str(metadata["name"])

    def project(self, item: Object, before: Slice | None) -> Slice | None:
        now = read_slice(item)
        return before if before == now else now

    async def listed(self, items: Mapping[str, Slice]) -> None:
        before, self._of_node = self._of_node, {}
        for one in items.values():
            self._of_node.setdefault(one.node, {})[one.name] = one
        for node in before.keys() | self._of_node.keys():
            if before.get(node) != self._of_node.get(node):
                self._read_again(node)

    def changed(self, before: Slice | None, now: Slice | None) -> None:
        if before is not None:
            self._of_node.get(before.node, {}).pop(before.name, None)
        if now is not None:
            self._of_node.setdefault(now.node, {})[now.name] = now
        for node in {one.node for one in (before, now) if one is not None}:
            self._read_again(node)

    def confirmed(self, at: float) -> None:
        pass

    def of(self, node: str) -> tuple[Listed, ...]:
        """The devices that are listed for this node."""
        return devices_of(self._of_node.get(node, {}).values())


class PodFollower:
    """Unfinished pods by uid; `items` are the reflector's own, None before they have been listed."""

    def __init__(self, live: LiveFleet, worlds: Worlds) -> None:
        self._live = live
        self._worlds = worlds
        self.items: Mapping[str, Pod] | None = None
        self.confirmed_at: float | None = None

    def key(self, metadata: Object) -> str:
        return str(metadata["uid"])

    def project(self, item: Object, before: Pod | None) -> Pod | None:
        pod = read_pod(item)
        return before if before == pod else pod

    async def listed(self, items: Mapping[str, Pod]) -> None:
        before, self.items = self.items, items
        self._live.listed_anew(before, items)

    def changed(self, before: Pod | None, now: Pod | None) -> None:
        self._live.pod_changed(before, now)

    def confirmed(self, at: float) -> None:
        self.confirmed_at = at
        if not self._live.behind:
            self._worlds.confirm(pods_at=at)


class ClaimFollower:
    """Claims that hold devices by uid, as pods that ask for these alone; `items` are the reflector's own."""

    def __init__(self, live: LiveFleet, worlds: Worlds) -> None:
        self._live = live
        self._worlds = worlds
        self.items: Mapping[str, Pod] = {}

    def key(self, metadata: Object) -> str:
        return str(metadata["uid"])

    def project(self, item: Object, before: Pod | None) -> Pod | None:
        claim = read_claim(item)
        return before if before == claim else claim

    async def listed(self, items: Mapping[str, Pod]) -> None:
        before, self.items = self.items, items
        self._live.listed_anew(before, items)

    def changed(self, before: Pod | None, now: Pod | None) -> None:
        self._live.pod_changed(before, now)

    def confirmed(self, at: float) -> None:
        pass


def _identity(node: Node) -> tuple[str, ...]:
    """What makes it another node, or a node of another model, to what was known of it. A label that now names a display
    card does not (k8s-device-plugin#731)."""
    names = [node.labels.get(key, "") for key in sorted(accelerators().product_keys)]
    if node.last_product:
        passing = {own_product(node, vendor) for vendor in accelerators().vendors} - {""}
        names = [node.last_product if name in passing else name for name in names]
    return node.uid, *names
