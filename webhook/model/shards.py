"""A mapping that is never changed, and of which one with a few changes costs little however large it is."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_PARTS = 512


class Shards(Mapping[_K, _V], Generic[_K, _V]):
    """As a dictionary, in parts by hash: what is changed costs a copy of its part, and the others are shared."""

    __slots__ = ("_parts", "_size")

    def __init__(self, items: Iterable[tuple[_K, _V]] = ()) -> None:
        parts: list[dict[_K, _V]] = [{} for _ in range(_PARTS)]
        for key, value in items:
            parts[hash(key) % _PARTS][key] = value
        self._parts = tuple(parts)
        self._size = sum(map(len, parts))

    def changed(self, changes: Iterable[tuple[_K, _V | None]]) -> "Shards[_K, _V]":
        """Another one in which these keys have these values; None: they are not there."""
        parts, size, copied = list(self._parts), self._size, set[int]()
        for key, value in changes:
            at = hash(key) % _PARTS
            if at not in copied:
                copied.add(at)
                parts[at] = parts[at].copy()
            size -= key in parts[at]
            if value is None:
                parts[at].pop(key, None)
            else:
                parts[at][key] = value
                size += 1
        made: Shards[_K, _V] = Shards.__new__(Shards)
        made._parts, made._size = tuple(parts), size
        return made

    def __getitem__(self, key: _K) -> _V:
        return self._parts[hash(key) % _PARTS][key]

    def __iter__(self) -> Iterator[_K]:
        for part in self._parts:
            yield from part

    def __len__(self) -> int:
        return self._size
