"""Files of policies, followed while we serve."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from webhook.cluster.tasks import ended
from webhook.policy.load import Loaded, files_in, load

_log = logging.getLogger(__name__)
_LOOK_S = 0.5
# What was written this shortly before a look may be written to once more without a change of its time.
_RACY_NS = 50_000_000
_MOST_TRIES = 5


class PolicyFiles:
    """Reads a file or a directory again whenever something in it changes, and tells `tell` what it comes to.

    By looking every half second: it sees the links of a ConfigMap mount swap, which watching the files does not, on any
    file system. `loaded` is what has been read already. Without a path there is nothing to follow.
    """

    def __init__(self, path: Path | None, loaded: Loaded, tell: Callable[[Loaded], None]) -> None:
        self._path = path
        self._loaded = loaded
        self._tell = tell
        self._seen: object = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to follow; does nothing where it follows already."""
        if self._path is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(self._path), name="policy files")

    async def stop(self) -> None:
        """What was told stays told."""
        await ended(self._task)

    async def _run(self, path: Path) -> None:
        while True:
            try:
                loaded = await asyncio.to_thread(self._look, path)
                if loaded != self._loaded:
                    self._loaded = loaded
                    self._tell(loaded)
            except Exception:  # noqa: BLE001 (whatever it is, what has been read counts)
                _log.exception("policy files could not be looked at")
            await asyncio.sleep(_LOOK_S)

    def _look(self, path: Path) -> Loaded:
        """What the files come to now. Read again where they change meanwhile: never half old and half new."""
        for _ in range(_MOST_TRIES):
            seen = _signature(path)
            if seen == self._seen:
                break
            loaded = load(path, self._loaded)
            if _signature(path) == seen:
                newest = max((one[-1] for one in seen), default=0)
                self._seen = seen if newest < time.time_ns() - _RACY_NS else None
                return loaded
        return self._loaded


def _signature(path: Path) -> list[tuple[str, int, int, int, int]]:
    """What changes whenever a file does. Through links: the files that they lead to."""
    found = []
    try:
        for file in files_in(path):
            try:
                stat = os.stat(file)  # noqa: PTH116 (as it says, through links)
                found.append((str(file), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
            except OSError as error:
                found.append((str(file), -(error.errno or 1), 0, 0, 0))
    except OSError as error:
        found.append((str(path), -(error.errno or 1), 0, 0, 0))
    return found
