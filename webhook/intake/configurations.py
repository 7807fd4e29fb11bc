"""Configurations: what a file, or a value written in its place, tells a program."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from webhook.catalog.flags import Means
from webhook.catalog.launchers import launchers
from webhook.catalog.trainers import OWN, Parser
from webhook.intake.config_files import File, Files
from webhook.intake.trees import Tree, entries, span
from webhook.intake.words import Listed, Number, Piece, Source, Word
from webhook.model.paths import dotted

_MOST = 4
_Value = TypeVar("_Value")


class Configuration(NamedTuple):
    """Values by dotted key, and the format that knows them; None: they are the program's own flags. `prefix` is what
    stands before the keys in the file, `under` the key of another configuration that names or holds this one."""

    parser: Parser | None
    file: File
    tree: Tree
    prefix: str = ""
    under: str = ""

    @property
    def values(self) -> Iterator[tuple[str, str]]:
        """The values, as a command line would have them."""
        for key, value in entries(self.tree):
            if isinstance(value, str):
                yield key, value

    def number(self, key: str, value: str) -> Number:
        """The number under a key, with its place in the object where the file stands in it."""
        word, path = self.file.word, f"{self.prefix}{key}"
        at = span(word.text, path) if any(piece.origin is not None for piece in word.pieces) else None
        found = Source(word).word(*at) if at else Word(value, (Piece(value, None),), value)
        return Number(f"{path}:", Listed([found._replace(after=None)]), 0, 0, self.file.where)

    def numbers(self, meanings: Mapping[str, _Value]) -> Iterator[tuple[_Value, Number]]:
        """The numbers whose meaning is in this table, by key or by the flag of that name."""
        for key, value in self.values:
            meaning = by_key(meanings, key)
            if meaning is not None:
                yield meaning, self.number(key, value)

    def counts(self) -> list[tuple[Means, Number]]:
        """How many nodes and processes it says there are, and the accumulation."""
        if self.parser is None:
            return []
        known = {key: one.means for key, one in self.parser.batch.items() if one.means is Means.ACCUMULATION}
        return list(self.numbers({**self.parser.counts, **known}))

    def nested(self, files: Files) -> "Iterator[Configuration]":
        """The configurations that it holds, or names, under keys of their own."""
        holds = self.parser.holds if self.parser else launchers().holds
        for key, value in entries(self.tree, {name.lstrip("-") for name in holds}):
            what = by_key(holds, key)
            if what is None or what == OWN:
                continue
            if isinstance(value, dict):
                yield Configuration(launchers().formats[what], self.file, value, f"{self.prefix}{key}.", key)
            elif isinstance(value, str) and (file := files.find(value)) and (tree := files.tree(file)) is not None:
                yield Configuration(launchers().formats[what], file, tree, "", key)


def opened(files: Files, word: Word, what: str) -> list[Configuration]:
    """The configuration that a word names, or is, with those that it names itself; empty where none can be read. `what`
    is what it holds: OWN, or the name of a format."""
    if word.text.lstrip()[:1] == "{":
        origin = next((piece.origin for piece in word.pieces if piece.origin is not None), None)
        file: File | None = File("the value", word, dotted(origin.path) if origin else "")
    else:
        file = files.find(word.text)
    tree = files.tree(file) if file else None
    if file is None or tree is None:
        return []
    found = [Configuration(launchers().formats.get(what), file, tree)]
    for one in found:
        if len(found) < _MOST:
            found += one.nested(files)
    return found


def by_key(table: Mapping[str, _Value], key: str) -> _Value | None:
    """What a table has under a key, or under the flag of that name."""
    for name in (key, f"--{key}", f"{key}="):
        if name in table:
            return table[name]
    return None
