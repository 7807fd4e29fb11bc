"""Documents out of a file of our own objects: each for itself, within bounds, with the place of every field."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import yaml

from webhook.catalog.strict_yaml import YamlError, items_of, load_all, places_in
from webhook.policy.parts import Steps, dotted

LARGEST = 1 << 20
"""Bytes of one file: a ConfigMap, and an object of the API server, holds no more."""
_DEEPEST = 64
_MOST_VALUES = 100_000
# As the API server's own reader does: a line that begins so ends a document wherever it stands.
_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something in a file does not count as it stands. `line` and `column` from 1; 0: it has no place. `field` is
    dotted; empty: it is about the document or the file as a whole."""

    file: str
    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {f'{self.field}: ' if self.field else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document stands: its text, which begins at line `first` of the file, and where in it the object is."""

    file: str
    text: str
    first: int = 1
    within: Steps = ()

    def place(self, *steps: str | int) -> tuple[int, int]:
        """Line and column of a field of the object, or of the last one on the way to it."""
        return self.places([steps])[0]

    def faults(self, problems: Sequence[tuple[Steps, str]]) -> list[Fault]:
        """Each as a fault of its field."""
        places = self.places([steps for steps, _ in problems])
        return [
            Fault(self.file, *place, printable(dotted(steps)) if steps else "", printable(message))
            for place, (steps, message) in zip(places, problems, strict=True)
        ]

    def places(self, ways: Iterable[Steps]) -> list[tuple[int, int]]:
        """Of several fields."""
        found = places_in(self.text, ((*self.within, *steps) for steps in ways))
        return [(line + self.first - 1, column) if line else (self.first, 1) for line, column in found]

    def ends(self, error: YamlError) -> Fault:
        """What is no YAML."""
        line = error.line + self.first - 1 if error.line else self.first
        return Fault(self.file, line, error.column or 1, "", printable(error.problem))


@dataclass(frozen=True, slots=True)
class Document:
    """One object, not looked into yet."""

    source: Source
    object: dict[str, Any]


def documents_of(file: str, data: bytes) -> Iterator[Document | Fault]:
    """The objects in a file of at most `LARGEST` bytes, Lists taken apart. Of documents that are none there is a fault
    each, and the others are as they would be without them. Never raises."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, error.start) + 1
        yield Fault(file, line, error.start - begin + 1, "", "not UTF-8 text")
        return
    for source in _sources(file, text):
        try:
            _within_bounds(source.text)
            for loaded in load_all(source.text):
                if loaded is not None:
                    yield from _objects(source, loaded)
        except YamlError as error:
            yield source.ends(error)


def printable(text: str) -> str:
    """One short line that any terminal takes."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _sources(file: str, text: str) -> Iterator[Source]:
    starts = [0, *(found.start() for found in _SEPARATOR.finditer(text) if found.start()), len(text)]
    line = 1
    for start, end in pairwise(starts):
        part = text[start:end]
        yield Source(file, part, line)
        line += part.count("\n")


def _within_bounds(text: str) -> None:
    """Raises YamlError for what nests too deeply or, with its aliases written out, is too much.

    On the stream of events, before anything is built: a few lines of aliases of aliases are more values than there is
    memory for. Where it is no YAML, whoever builds it says so.
    """
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    total = 0
    with suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append((event.anchor, total))
                total += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = open_.pop()
                if anchor is not None:
                    sizes[anchor] = total - before
            elif isinstance(event, yaml.ScalarEvent):
                total += 1
                if event.anchor is not None:
                    sizes[event.anchor] = 1
            elif isinstance(event, yaml.AliasEvent):
                total += sizes.get(event.anchor or "", 1)
            problem = ""
            if len(open_) > _DEEPEST:
                problem = f"nested more than {_DEEPEST} deep"
            elif total > _MOST_VALUES:
                problem = f"more than {_MOST_VALUES:,} values, aliases written out"
            if problem:
                mark = event.start_mark
                raise YamlError(problem, mark.line + 1, mark.column + 1) if mark else YamlError(problem)


def _objects(source: Source, loaded: object) -> Iterator[Document | Fault]:
    if not isinstance(loaded, dict):
        yield from source.faults([((), "expected a Kubernetes object")])
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(loaded.get(field), str) or not loaded[field]:
            yield from source.faults([((field,), "expected a string")])
            return
    if (items := items_of(loaded)) is not None:
        for index, item in enumerate(items):
            yield from _objects(replace(source, within=(*source.within, "items", index)), item)
        return
    yield Document(source, loaded)
