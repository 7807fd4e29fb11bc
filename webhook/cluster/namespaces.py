"""The labels of namespaces, by which policies are matched."""

from collections.abc import Mapping

from webhook.cluster.world import Worlds
from webhook.model.request import Object

_Named = tuple[str, Mapping[str, str]]


class NamespaceFollower:
    """Namespaces into the world: the name and the labels of each, and nothing else."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._labels: dict[str, Mapping[str, str]] = {}

    def key(self, metadata: Object) -> str:
        return str(metadata["name"])

    def project(self, item: Object, before: _Named | None, /) -> _Named | None:
        now = str(item["metadata"]["name"]), dict(item["metadata"].get("labels") or {})
        return before if before == now else now

    async def listed(self, items: Mapping[str, _Named]) -> None:
        self._labels = dict(items.values())
        self._worlds.name(self._labels)

    def changed(self, before: _Named | None, now: _Named | None, /) -> None:
        labels = self._labels.copy()
        if before is not None:
            labels.pop(before[0], None)
        if now is not None:
            labels[now[0]] = now[1]
        self._labels = labels
        self._worlds.name(labels)

    def confirmed(self, at: float) -> None:
        pass
