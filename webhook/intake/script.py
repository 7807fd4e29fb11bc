"""Runs a shell script as far as its variables go: which commands, with which words, in which environment."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from webhook.intake.config_files import LONGEST, Files
from webhook.intake.environment import Environment
from webhook.intake.outputs import TOUCHES, output_of, touched
from webhook.intake.shell import Command, Literal, Part, ShellWord, Variable, content, parse
from webhook.intake.words import UNREAD, Line, Piece, Place, Source, Word

_SPACE = re.compile(r"[ \t\n]+")
_EXPORTS = frozenset({"export", "declare", "typeset", "readonly", "local"})
_UNKNOWN = (Word(UNREAD, (Piece(UNREAD, None),), UNREAD),)


class Exported:
    """An environment with what a script or `env` has set since."""

    __slots__ = ("_changed", "_environment")

    def __init__(self, environment: "Environment | Exported", changed: Mapping[str, Word | None]) -> None:
        self._environment = environment
        self._changed = changed

    def __contains__(self, name: str) -> bool:
        return name in self._changed or name in self._environment

    def sets_any(self, names: frozenset[str]) -> bool:
        """Whether any of these variables is set here."""
        return not names.isdisjoint(self._changed) or self._environment.sets_any(names)

    def get(self, name: str) -> Word | None:
        """The value of a variable; None where it is not set here, or not known."""
        return self._changed[name] if name in self._changed else self._environment.get(name)


Variables: TypeAlias = Environment | Exported


class Ran(NamedTuple):
    """A command of a script, with its words expanded, its environment, the files that are there when it runs, and what
    gives the here-document that it reads."""

    line: Line
    environment: Variables
    files: Files
    document: "Callable[[], Word | None]"


class Script:
    """One script and the state of its variables and files. `positional` are the words behind it: $0, $1, …"""

    def __init__(self, script: Word, environment: Variables, positional: Sequence[Word], files: Files) -> None:
        self._source = Source(script)
        self._environment = environment
        self._budget = files.budget
        self._files = files
        self._piped: Word | None = None
        self._exported: dict[str, Word | None] = {}
        self._variables: dict[str, tuple[Word, ...] | None] = {
            **{str(index): (word,) for index, word in enumerate(positional[:10])},
            "@": tuple(positional[1:]),
            "*": tuple(positional[1:]),
        }

    def commands(self) -> Iterator[Ran]:
        """The commands in order."""
        text = self._source.text
        if not self._budget.take(len(text)):
            return
        for command in parse(text):
            if command.loops:
                self._variables[command.loops] = None
            words = command.words
            assignments: Sequence[ShellWord] = ()
            if words and words[0].assigns:
                first = next((index for index, word in enumerate(words) if not word.assigns), len(words))
                assignments, words = words[:first], words[first:]
            if not words:
                for word in assignments:
                    self._assign(word, conditional=command.conditional)
                continue
            name = text[words[0].start : words[0].end]
            if name in _EXPORTS:
                self._export(words, conditional=command.conditional)
                continue
            line = self._line(words)
            changed = {word.assigns: self._single(self._value(word)) for word in assignments}
            if self._exported:
                if not self._budget.take(len(self._exported)):
                    return
                changed = {**self._exported, **changed}
            environment = Exported(self._environment, changed) if changed else self._environment
            yield Ran(line, environment, self._files, partial(self._document, command))
            if command.output or command.piped or name in TOUCHES:
                self._touch(command, line)
            else:
                self._piped = None

    def _document(self, command: Command) -> Word | None:
        """The here-document that a command reads; None where there is none, or a long one."""
        document = command.document
        if document is None or document.end - document.start > LONGEST:
            return None
        parts = content(self._source.text, document)
        return None if parts is None else self._whole(parts)

    def _touch(self, command: Command, line: Line) -> None:
        """What a command does to the files in view."""
        read = self._piped if command.document is None else self._document(command)
        text = output_of(line, read, self._files) if line.texts else None
        self._piped = text if command.piped else None
        known = not command.conditional
        for path, written, appends in touched(line, text, self._files) if line.texts else ():
            self._files = self._files.written(path, written if known else None, appends=appends)
        if line.texts[:1] == ["cd"]:
            self._files = self._files.entered(line.texts[1] if known and len(line.texts) == 2 else "")
        if command.output is not None:
            path = self._whole(command.output.parts).text
            self._files = self._files.written(path, text if known else None, appends=command.appends)

    def _line(self, words: Sequence[ShellWord]) -> Line:
        line = Line(self._source)
        for word in words:
            if word.plain:
                line.add_plain(word.start, word.end)
            else:
                for expanded in self._expand(word):
                    line.add(expanded)
        return line

    def _export(self, words: Sequence[ShellWord], *, conditional: bool) -> None:
        exports = self._source.text.startswith("export", words[0].start)
        for word in words[1:]:
            name = word.assigns or self._source.text[word.start : word.end]
            if word.assigns:
                self._assign(word, conditional=conditional)
            if exports and not name.startswith("-"):
                self._exported[name] = self._single(self._look_up(name))

    def _assign(self, word: ShellWord, *, conditional: bool) -> None:
        name = word.assigns
        value = None if conditional else self._value(word)
        if value is not None and word.appends:
            before = self._look_up(name)
            if before is None or not self._budget.take(sum(1 + len(one.text) + len(one.pieces) for one in before)):
                value = None
            elif word.elements is not None:
                value = before + value
            else:
                value = (_joined([*before, *value], ""),)
        self._variables[name] = value
        if name in self._exported or name in self._environment:
            self._exported[name] = self._single(value)

    def _value(self, word: ShellWord) -> tuple[Word, ...] | None:
        if word.elements is not None:
            return tuple(expanded for element in word.elements for expanded in self._expand(element))
        return (self._whole(word.value),)

    @staticmethod
    def _single(value: tuple[Word, ...] | None) -> Word | None:
        return value[0] if value and UNREAD not in value[0].text else None

    def _look_up(self, name: str) -> tuple[Word, ...] | None:
        if name in self._variables:
            return self._variables[name]
        word = self._environment.get(name)
        return None if word is None else (word,)

    def _expanded(self, part: Part) -> tuple[Word, ...]:
        """The value of a variable or substitution; one unread word where it cannot be known."""
        if not isinstance(part, Variable):
            return _UNKNOWN
        value = self._look_up(part.name)
        if part.default is not None and not self._may_be_set(part, value):
            return (self._whole(part.default),)
        if value is None or not self._budget.take(sum(len(word.text) + len(word.pieces) for word in value)):
            return _UNKNOWN
        return value if part.each else value[:1]

    def _may_be_set(self, part: Variable, value: tuple[Word, ...] | None) -> bool:
        """Whether a default does not stand for it: it has a value, or one that nobody knows."""
        if value is None:
            return part.name in self._variables or part.name in self._environment
        return not part.or_empty or any(word.text for word in value)

    def _whole(self, parts: Sequence[Part]) -> Word:
        """The parts as one word, as in double quotes or behind `NAME=`."""
        pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, Literal):
                pieces.extend(self._source.cut(part.start, part.end))
            else:
                pieces.extend(_joined(self._expanded(part), " ").pieces)
        # Empty ones would add up where a variable is set from itself over and over.
        pieces = [piece for piece in pieces if piece.text] or pieces[:1]
        text = "".join([piece.text for piece in pieces])
        return Word(text, tuple(pieces), text)

    def _expand(self, word: ShellWord) -> Iterator[Word]:
        """The words that one word of the script becomes: `$ARGS` and `"${ARGS[@]}"` may be many, or none."""
        pieces: list[Piece] = []
        begun = False
        for part in word.parts:
            if isinstance(part, Literal):
                pieces.extend(self._source.cut(part.start, part.end))
                begun = True
                continue
            values = self._expanded(part)
            splits = isinstance(part, Variable) and not part.quoted
            for index, value in enumerate(values):
                if index and begun:
                    yield _word(pieces, values[index - 1].after)
                    pieces, begun = [], False
                if not splits:
                    pieces.extend(value.pieces)
                    begun = True
                    continue
                for piece in value.pieces:
                    start = 0
                    for gap in _SPACE.finditer(piece.text):
                        if start < gap.start():
                            pieces.append(_part(piece, start, gap.start()))
                            begun = True
                        if begun:
                            yield _word(pieces, piece.origin and Place(piece.origin, piece.start + gap.start()))
                            pieces, begun = [], False
                        start = gap.end()
                    if start < len(piece.text):
                        pieces.append(_part(piece, start, len(piece.text)))
                        begun = True
        if begun:
            raw = self._source.text[word.start : word.end]
            yield _word(pieces, self._source.place(word.end), raw)


def _word(pieces: list[Piece], after: Place | None, raw: str = "") -> Word:
    text = "".join(piece.text for piece in pieces)
    return Word(text, tuple(pieces), raw or text, after)


def _part(piece: Piece, start: int, end: int) -> Piece:
    return Piece(piece.text[start:end], piece.origin, piece.start + start)


def _joined(words: Sequence[Word], between: str) -> Word:
    if len(words) == 1:
        return words[0]
    pieces: list[Piece] = []
    for word in words:
        if pieces and between:
            pieces.append(Piece(between, None))
        pieces.extend(word.pieces)
    text = "".join(piece.text for piece in pieces)
    return Word(text, tuple(pieces), text)
