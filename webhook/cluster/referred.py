"""Objects that jobs refer to, that tell whether nodes may be added, or that add to the catalog: followed whole."""

from collections.abc import Callable, Mapping

from webhook.cluster.world import Worlds
from webhook.model.request import Object
from webhook.model.surroundings import Reference, reference_of

_UNREAD = ("managedFields",)


class ReferredFollower:
    """Objects of one kind into the surroundings."""

    def __init__(self, worlds: Worlds, plural: str) -> None:
        self._worlds = worlds
        self._plural = plural
        self._objects: dict[Reference, Object] = {}

    def key(self, metadata: Object) -> str:
        return _key(metadata)

    def project(self, item: Object, _: Object | None, /) -> Object | None:
        return trimmed(item) if reference_of(item) else None

    def listed(self, items: Mapping[str, Object]) -> None:
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

    def troubled(self, problem: str) -> None:
        self._worlds.trouble(self._plural, problem)


class GrowthFollower:
    """Objects of one kind into what they say, all together, of nodes that may be added."""

    def __init__(self, worlds: Worlds, plural: str, growth: Callable[[list[Object]], str]) -> None:
        self._worlds = worlds
        self._plural = plural
        self._growth = growth
        self._items: Mapping[str, Object] = {}

    def key(self, metadata: Object) -> str:
        return _key(metadata)

    def project(self, item: Object, _: Object | None, /) -> Object | None:
        return item

    def listed(self, items: Mapping[str, Object]) -> None:
        self._items = items
        self._tell()

    def changed(self, *_: Object | None) -> None:
        self._tell()

    def confirmed(self, at: float) -> None:
        pass

    def troubled(self, problem: str) -> None:
        self._worlds.trouble(self._plural, problem)

    def _tell(self) -> None:
        self._worlds.grow(self._plural, self._growth(list(self._items.values())))


class AcceleratorFollower:
    """Accelerator objects, all together, into `extend`."""

    def __init__(self, worlds: Worlds, extend: Callable[[list[Object]], None]) -> None:
        self._worlds = worlds
        self._extend = extend
        self._items: Mapping[str, Object] = {}

    def key(self, metadata: Object) -> str:
        return _key(metadata)

    def project(self, item: Object, _: Object | None, /) -> Object | None:
        return trimmed(item)

    def listed(self, items: Mapping[str, Object]) -> None:
        before, self._items = self._items, items
        # Of a cluster without any, which most are, this is called once a minute.
        if items or before:
            self._tell()

    def changed(self, *_: Object | None) -> None:
        self._tell()

    def confirmed(self, at: float) -> None:
        pass

    def troubled(self, problem: str) -> None:
        self._worlds.trouble("accelerators", problem)

    def _tell(self) -> None:
        self._extend(list(self._items.values()))


def trimmed(obj: Object) -> Object:
    """The object without what nobody reads of it."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _UNREAD}
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": metadata}


def _key(metadata: Object) -> str:
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
