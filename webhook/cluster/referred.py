"""Objects that jobs refer to, that tell whether nodes may be added, or that add to the catalog: followed whole."""

from collections.abc import Callable, Mapping

from webhook.cluster.world import Worlds
from webhook.model.request import Object
from webhook.model.surroundings import Reference, reference_of


class ReferredFollower:
    """Objects of one kind into the surroundings."""

    def __init__(self, worlds: Worlds, plural: str) -> None:
        self._worlds = worlds
        self._plural = plural
        self._objects: dict[Reference, Object] = {}

    def key(self, metadata: Object) -> str:
        return place_of(metadata)

    def project(self, item: Object, _: Object | None, /) -> Object | None:
        return trimmed(item) if reference_of(item) else None

    async def listed(self, items: Mapping[str, Object]) -> None:
        self._objects = {reference: obj for obj in items.values() if (reference := reference_of(obj))}
        self._worlds.surround(self._plural, self._objects)

    def changed(self, before: Object | None, now: Object | None) -> None:
        objects = self._objects.copy()
        if before is not None and (reference := reference_of(before)):
            objects.pop(reference, None)
        if now is not None and (reference := reference_of(now)):
            objects[reference] = now
        self._objects = objects
        self._worlds.surround(self._plural, objects)

    def confirmed(self, at: float) -> None:
        pass


class WholeFollower:
    """Objects of one kind, all together, into `tell`: whatever changes, what they say is told anew."""

    def __init__(self, tell: Callable[[list[Object]], None]) -> None:
        self._tell = tell
        self._items: Mapping[str, Object] = {}

    def key(self, metadata: Object) -> str:
        return place_of(metadata)

    def project(self, item: Object, _: Object | None, /) -> Object | None:
        return _managed_by_nobody(item)

    async def listed(self, items: Mapping[str, Object]) -> None:
        self._items = items
        self.changed()

    def changed(self, *_: Object | None) -> None:
        self._tell(list(self._items.values()))

    def confirmed(self, at: float) -> None:
        pass


def trimmed(obj: Object) -> Object:
    """The object without what nobody reads of it."""
    return {key: value for key, value in _managed_by_nobody(obj).items() if key != "status"}


def _managed_by_nobody(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def place_of(metadata: Object) -> str:
    """What tells objects of one kind apart: the namespace, empty for those of the cluster, and the name."""
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
