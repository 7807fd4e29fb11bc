"""Files that a container's command line may name: what its script has written, and the ConfigMaps that it mounts."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.intake.fields import EMPTY, Unreadable
from webhook.intake.resources import read_resources
from webhook.intake.trees import Fault, Tree, parsed
from webhook.intake.words import UNREAD, Budget, Piece, Word
from webhook.model.finding import Finding
from webhook.model.paths import dotted, printable
from webhook.model.request import Kind, Object
from webhook.model.surroundings import NOTHING_IN_VIEW, Reference, Surroundings

# What one job may make us look up (docs/explanation: nothing in the path waits for the API server for long).
MOST_CONFIG_MAPS = 3
MOST_BYTES = 256 << 10

# A reference has no version: the object is one, whatever it is served as.
_CONFIG_MAP = Kind("", "", "ConfigMap")
# A file of a person has a few kilobytes, and YAML takes a hundred times as long as JSON.
LONGEST = 64 << 10
_LONGEST_PATH = 1024
_MOST_WRITTEN = 16
_MOST_FAULTS = 8


class File(NamedTuple):
    """A text in view. `name` is its path as it is known here, `where` the place that it stands in, for a person."""

    name: str
    word: Word
    where: str


class Files:
    """What is known of a container's file system at one point of its script; `budget` is the whole job's. Paths are
    resolved from `directory`; nothing is known of what the image holds."""

    __slots__ = ("_directory", "_faults", "_held", "_mounted", "_trees", "budget")

    def __init__(self, budget: Budget, directory: str = "", mounted: Mapping[str, File] = EMPTY) -> None:
        self.budget = budget
        self._directory = directory
        self._mounted = mounted
        self._held: dict[str, File | None] = {}
        self._faults: dict[str, Finding] = {}
        self._trees: dict[str, Tree | None] = {}

    @classmethod
    def of(
        cls,
        pod: Object,
        container: Object,
        *,
        namespace: str,
        budget: Budget,
        surroundings: Surroundings = NOTHING_IN_VIEW,
    ) -> "Files":
        """The files of a container of this pod before it starts. A mount that cannot be read is none."""
        directory = container.get("workingDir")
        mounted = dict(_mounted(pod, container, namespace, surroundings)) if surroundings else EMPTY
        return cls(budget, directory if isinstance(directory, str) else "", mounted)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """SST101 for each file that was named, is in view, and cannot be read."""
        return tuple(self._faults.values())

    def __bool__(self) -> bool:
        """Whether any file is in view."""
        return bool(self._held or self._mounted)

    def find(self, path: str) -> File | None:
        """The file at a path; None where it is not in view or not known."""
        if not path or UNREAD in path:
            return None
        at = self._resolved(path)
        return self._held[at] if at in self._held else self._mounted.get(at)

    def tree(self, file: File) -> Tree | None:
        """The configuration that a file holds; None where it holds none, or cannot be read."""
        text = file.word.text
        if text not in self._trees:
            self._trees[text] = self._read(file)
        return self._trees[text]

    def _read(self, file: File) -> Tree | None:
        text = file.word.text
        if len(text) > LONGEST or UNREAD in text or not self.budget.take(len(text)):
            return None
        found = parsed(text, toml=file.name.endswith(".toml"))
        if not isinstance(found, Fault):
            return found
        if len(self._faults) < _MOST_FAULTS:
            facts = {"file": printable(file.name), "field": file.where, "because": printable(found.problem)}
            self._faults[file.name] = Finding("SST101", file.where, facts, "file")
        return None

    def entered(self, directory: str) -> "Files":
        """After `cd`."""
        unknown = not directory or UNREAD in directory or directory.startswith(("-", "~"))
        into = "" if unknown else self._resolved(directory)
        # One that is not known is like no other: a mark more than that before it.
        return self._changed(
            directory=into if into and len(into) <= _LONGEST_PATH else f"{UNREAD}{self._directory[:64]}"
        )

    def written(self, path: str, content: Word | None, *, appends: bool = False) -> "Files":
        """After something was written there; None: nobody knows what."""
        if not path or UNREAD in path:
            return self
        at = self._resolved(path)
        before = self.find(path) if appends else None
        size = sum(len(word.text) + len(word.pieces) for word in (before and before.word, content) if word)
        if appends and before is None:
            content = None
        if content is None or size > LONGEST or not self.budget.take(size) or not self._has_room(at):
            return self._changed(at, None) if at in self._held or at in self._mounted else self
        if before is not None:
            content = Word(before.word.text + content.text, (*before.word.pieces, *content.pieces), "")
        origin = next((piece.origin for piece in content.pieces if piece.origin is not None), None)
        return self._changed(at, File(path, content, dotted(origin.path) if origin else ""))

    def _has_room(self, at: str) -> bool:
        return at in self._held or len(self._held) < _MOST_WRITTEN

    def _changed(self, at: str = "", file: File | None = None, *, directory: str | None = None) -> "Files":
        after = Files(self.budget, self._directory if directory is None else directory, self._mounted)
        after._held = {**self._held, at: file} if at else self._held
        after._faults, after._trees = self._faults, self._trees
        return after

    def _resolved(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._directory, path))


def mounted_config_maps(pod: Object, namespace: str) -> tuple[Reference, ...]:
    """The ConfigMaps that containers with devices mount (where none has any: that any container mounts), in order.
    Never raises: what cannot be read is left out."""
    containers = pod.get("containers")
    if not isinstance(containers, list):
        return ()
    try:
        chosen: Sequence[int] = read_resources(pod, ()).containers
    except Unreadable:
        chosen = ()
    found: dict[Reference, None] = {}
    for index in chosen or range(len(containers)):
        for mount in _mounts(pod, containers[index]):
            found[Reference(_CONFIG_MAP, namespace, mount.config_map)] = None
    return tuple(found)


class _Mount(NamedTuple):
    """A ConfigMap in a container: where it is mounted, one file of it or (empty) all, and its keys as files."""

    path: str
    sub_path: str
    config_map: str
    items: Mapping[str, str]


def _mounts(pod: Object, container: object) -> Iterator[_Mount]:
    """Mounts of ConfigMaps, projected ones too."""
    sources: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for volume in _maps(pod.get("volumes")):
        projected = volume.get("projected")
        parts = [volume, *(_maps(projected.get("sources")) if isinstance(projected, dict) else ())]
        named = [(one.get("name"), _items(one.get("items"))) for part in parts if (one := _map(part.get("configMap")))]
        sources[str(volume.get("name"))] = [(name, keys) for name, keys in named if isinstance(name, str) and name]
    for mount in _maps(_map(container).get("volumeMounts")):
        path, sub_path = mount.get("mountPath"), mount.get("subPath") or ""
        if isinstance(path, str) and isinstance(sub_path, str):
            for name, keys in sources.get(str(mount.get("name")), ()):
                yield _Mount(path, posixpath.normpath(sub_path) if sub_path else "", name, keys)


def _mounted(pod: Object, container: Object, namespace: str, surroundings: Surroundings) -> Iterator[tuple[str, File]]:
    """The files that ConfigMaps in view give a container, by path."""
    room, seen = MOST_BYTES, set()
    for mount in _mounts(pod, container):
        seen.add(mount.config_map)
        config_map = surroundings.get(Reference(_CONFIG_MAP, namespace, mount.config_map))
        if config_map is None or len(seen) > MOST_CONFIG_MAPS:
            continue
        for key, text in _map(config_map.get("data")).items():
            file = mount.items.get(key, "") if mount.items else key
            if not isinstance(text, str) or not file or (mount.sub_path and file != mount.sub_path):
                continue
            room -= len(text)
            if room < 0:
                return
            path = posixpath.normpath(mount.path if mount.sub_path else posixpath.join(mount.path, file))
            where = f"ConfigMap {namespace}/{mount.config_map}, {printable(key)}"
            yield path, File(path, Word(text, (Piece(text, None),), text), where)


def _items(value: object) -> Mapping[str, str]:
    """What of a ConfigMap is there, by key, and under which path; empty: all of it."""
    pairs = [(one.get("key"), one.get("path")) for one in _maps(value)]
    return {key: posixpath.normpath(path) for key, path in pairs if isinstance(key, str) and isinstance(path, str)}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else EMPTY


def _maps(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else ()
