"""Queues and their flavors, followed whole."""

from collections.abc import Mapping

from webhook.cluster.referred import place_of, trimmed
from webhook.cluster.world import Worlds
from webhook.model.request import Object


class QueueFollower:
    """Objects of one kind that queues are made of. Their status, which changes with every job, says nothing here."""

    def __init__(self, worlds: Worlds, plural: str) -> None:
        self._worlds = worlds
        self._plural = plural
        self._items: Mapping[str, Object] = {}

    def key(self, metadata: Object) -> str:
        return place_of(metadata)

    def project(self, item: Object, before: Object | None) -> Object | None:
        now = _lasting(item)
        return before if before == now else now

    async def listed(self, items: Mapping[str, Object]) -> None:
        self._items = items
        self._tell()

    def changed(self, before: Object | None, now: Object | None) -> None:
        if before is not now:
            self._tell()

    def confirmed(self, at: float) -> None:
        pass

    def _tell(self) -> None:
        self._worlds.queue(self._plural, list(self._items.values()))


def _lasting(obj: Object) -> Object:
    """The object without what the API server counts in it."""
    kept = trimmed(obj)
    metadata = {key: kept["metadata"][key] for key in ("name", "namespace") if key in kept["metadata"]}
    return {**kept, "metadata": metadata}
