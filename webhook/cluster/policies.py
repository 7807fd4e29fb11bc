"""The rules, kept up from what files and the reflectors of our own kinds tell."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from webhook.cluster.referred import WholeFollower
from webhook.cluster.tasks import ended, waited
from webhook.cluster.world import Worlds
from webhook.model.request import Object
from webhook.model.rules import Rules
from webhook.policy.load import Loaded
from webhook.policy.matching import index_of
from webhook.policy.settle import NO_FILES, Settled, Standing, settle

KINDS = ("TrainingPolicy", "AcceleratorPool", "TrainingPolicyException")
FILES = "File"
"""What faults of files are counted under, beside those of kinds."""

_log = logging.getLogger(__name__)
_SETTLE_S = 0.1
# Exceptions end without anything being changed.
_LOOK_S = 30.0


class LivePolicies:
    """Takes what `followers` (by kind) are told and what files come to, and hands `rule` rules that are made and
    indexed aside; `tell` hears how each object stands.

    Nothing is handed on before all `kinds` have been listed: a job would be decided by some of the policies. `extend`
    is given the Accelerator objects of both.
    """

    def __init__(
        self,
        worlds: Worlds,
        rule: Callable[[Rules], None],
        extend: Callable[[Iterable[Object]], None] = lambda _: None,
        *,
        kinds: Iterable[str] = (),
        files: Loaded = NO_FILES,
        tell: Callable[[tuple[Standing, ...]], None] = lambda _: None,
    ) -> None:
        self.followers = {kind: WholeFollower(partial(self._take, kind)) for kind in kinds}
        self.accelerators = WholeFollower(self._take_accelerators)
        self._worlds = worlds
        self._rule = rule
        self._extend = extend
        self._tell = tell
        self._objects: dict[str, list[Object]] = {}
        self._accelerators: list[Object] = []
        self._files = files
        self._settled = Settled(files.rules)
        self._is_first = bool(self.followers)
        self._faults: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to hand on; does nothing where it does so already."""
        if self._task is None or self._task.done():
            self._changed.set()
            self._task = asyncio.create_task(self._run(), name="policies")

    async def stop(self) -> None:
        """Leaves the rules as they are."""
        await ended(self._task)

    def read(self, files: Loaded) -> None:
        """What the files come to now."""
        self._files = files
        self._changed.set()
        self._extend(self._all_accelerators())

    def _take(self, kind: str, objects: list[Object]) -> None:
        self._objects[kind] = objects
        self._changed.set()

    def _take_accelerators(self, objects: list[Object]) -> None:
        self._accelerators = objects
        self._extend(self._all_accelerators())

    def _all_accelerators(self) -> list[Object]:
        """A file goes before an object of the same name."""
        files = self._files.accelerators
        names = {one["metadata"]["name"] for one in files}
        return [*files, *(one for one in self._accelerators if one["metadata"]["name"] not in names)]

    async def _run(self) -> None:
        while True:
            await waited(self._changed, _LOOK_S)
            if self.followers.keys() <= self._objects.keys():
                try:
                    await self._publish()
                except Exception:  # noqa: BLE001 (whatever it is, the last rules stay in force)
                    _log.exception("policies could not be brought up to date")
            await asyncio.sleep(_SETTLE_S)

    async def _publish(self) -> None:
        self._changed.clear()
        objects = [one for kind in self.followers for one in self._objects[kind]]
        before, files = self._settled, self._files
        self._settled = now = await asyncio.to_thread(_settled, objects, files, before)
        if self._is_first or now.rules != before.rules:
            self._is_first = False
            self._rule(now.rules)
            _log.info("policies in force", extra={"facts": {"policies": [one.name for one in now.rules.policies]}})
        self._tell_faults(now.standings, files)
        self._tell(now.standings)

    def _tell_faults(self, standings: Iterable[Standing], files: Loaded) -> None:
        by_kind: Mapping[str, list[str]] = {kind: [] for kind in (*self.followers, FILES)}
        for one in standings:
            # That an exception has ended is no fault.
            if not one.ready and one.reason != "Expired":
                namespace = one.object["metadata"].get("namespace")
                name = f"{f'{namespace}/' if namespace else ''}{one.object['metadata']['name']}"
                by_kind[one.object["kind"]].append(f"{name}: {one.message}")
        by_kind[FILES].extend(map(str, files.faults))
        for kind, faults in by_kind.items():
            self._worlds.broken(kind, tuple(faults))
        told = frozenset(f"{kind} {fault}" for kind, faults in by_kind.items() for fault in faults)
        for fault in sorted(told - self._faults):
            _log.warning(fault)
        self._faults = told


def _settled(objects: list[Object], files: Loaded, before: Settled) -> Settled:
    """Runs in a thread of its own."""
    now = settle(objects, files, before, time.time())
    # No request is to pay for it.
    index_of(now.rules)
    return now
