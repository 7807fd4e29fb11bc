"""Words of a command line that know where in the object each of their characters stands, so that a number in them can
be changed by a patch, through `$(VAR)`, quotes, variables and nested shells."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from webhook.model.job import Edit
from webhook.model.paths import within
from webhook.model.placement import Pointer

UNREAD = "\0"
"""Stands for text that cannot be known from the object; no flag and no number contains it."""

_ROOM = 1 << 18


class Origin(NamedTuple):
    """A string in the object; `variable` is the name of the environment variable whose value it is."""

    path: Pointer
    text: str
    variable: str = ""


class Piece(NamedTuple):
    """A stretch of text that stands in `origin` from `start` on, unchanged; None: made up, or UNREAD."""

    text: str
    origin: Origin | None
    start: int = 0


class Place(NamedTuple):
    """Where something can be put behind a word: into a string at an offset, or (None) as the next item of a list."""

    origin: Origin
    offset: int | None


class Word(NamedTuple):
    """One word as the program gets it; `raw` is how it is written, `after` where a further word could be put."""

    text: str
    pieces: tuple[Piece, ...]
    raw: str
    after: Place | None = None

    def behind(self, offset: int) -> "Word":
        """The word without its first characters."""
        pieces = Source(self).cut(offset, len(self.text))
        return Word(self.text[offset:], pieces, self.text[offset:], self.after)


class Words(Protocol):
    """A command line: `texts` for reading, `word(i)` where more is needed, which is seldom."""

    @property
    def texts(self) -> Sequence[str]: ...

    def word(self, index: int) -> Word: ...


class Listed:
    """A command line whose words are there already."""

    __slots__ = ("_words", "texts")

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self.texts = [word.text for word in words]

    def word(self, index: int) -> Word:
        return self._words[index]


class Source:
    """A text to be read by a shell, with the places that its characters come from."""

    __slots__ = ("_home", "_pieces", "_starts", "text")

    def __init__(self, word: Word) -> None:
        self.text = word.text
        self._home = word.after.origin if word.after else None
        self._pieces = word.pieces
        self._starts = [0]
        for piece in word.pieces[:-1]:
            self._starts.append(self._starts[-1] + len(piece.text))

    def word(self, start: int, end: int) -> Word:
        """The word that stands in text[start:end], as it is."""
        text = self.text[start:end]
        return Word(text, self.cut(start, end), text, self.place(end))

    def cut(self, start: int, end: int) -> tuple[Piece, ...]:
        """The pieces of text[start:end]."""
        if len(self._pieces) == 1:
            (piece,) = self._pieces
            return (Piece(self.text[start:end], piece.origin, piece.start + start),)
        found: list[Piece] = []
        at = bisect_right(self._starts, start) - 1
        while start < end:
            piece, low = self._pieces[at], start - self._starts[at]
            part = piece.text[low : low + end - start]
            found.append(Piece(part, piece.origin, piece.start + low))
            start += len(part)
            at += 1
        return tuple(found)

    def place(self, offset: int) -> Place | None:
        """Where text can be put right behind text[:offset]; None where that is in no string of the object."""
        at = bisect_right(self._starts, offset - 1) - 1
        piece, within = self._pieces[at], offset - self._starts[at]
        if piece.origin is not None and (piece.origin is self._home or within < len(piece.text)):
            return Place(piece.origin, piece.start + within)
        # Behind a `$(VAR)`: there, and not at the end of the variable's value, which others may use.
        if self._home is None:
            return None
        if at + 1 == len(self._pieces):
            return Place(self._home, len(self._home.text))
        behind = self._pieces[at + 1]
        return Place(self._home, behind.start) if behind.origin is self._home else None


class Line:
    """A command line in a script: most of its words are as they stand there, and only found when asked for."""

    __slots__ = ("_source", "_words", "texts")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._words: list[Word | tuple[int, int]] = []
        self.texts: list[str] = []

    def add(self, word: Word) -> None:
        """The next word."""
        self._words.append(word)
        self.texts.append(word.text)

    def add_plain(self, start: int, end: int) -> None:
        """The next word, which stands in the script's text[start:end]."""
        self._words.append((start, end))
        self.texts.append(self._source.text[start:end])

    def word(self, index: int) -> Word:
        word = self._words[index]
        return word if isinstance(word, Word) else self._source.word(*word)


class Moved:
    """A command line that stands in two places: what is below `here` in one is below `there` in the other."""

    __slots__ = ("_below", "_there", "_words", "texts")

    def __init__(self, words: Words, here: Pointer, there: Pointer) -> None:
        self._words = words
        self._below = len(here)
        self._there = there
        self.texts = words.texts

    def word(self, index: int) -> Word:
        text, pieces, raw, after = self._words.word(index)
        moved = tuple(Piece(part, origin and self._moved(origin), start) for part, origin, start in pieces)
        return Word(text, moved, raw, after and Place(self._moved(after.origin), after.offset))

    def _moved(self, origin: Origin) -> Origin:
        return Origin((*self._there, *origin.path[self._below :]), origin.text, origin.variable)


class Budget:
    """How many more characters of scripts and expansions one job may make us read.

    `A=$B$B B=$C$C …` doubles with every step, and a webhook has two seconds.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _ROOM

    def take(self, characters: int) -> bool:
        """Whether that much may still be read; it is counted if so."""
        if characters > self._left:
            return False
        self._left -= characters
        return True


_SIGNS = {"=": "=", ":": ": "}


class Number(NamedTuple):
    """A number on a command line, in a variable or in a configuration file: it stands in a word, from `start` to the
    word's end. `flag` is what a person knows it by; one that ends in "=" is written key=value, in ":" key: value.
    `where` is the place of a file that is no part of the object."""

    flag: str
    words: Words
    at: int
    start: int
    where: str = ""

    @property
    def text(self) -> str:
        """What stands there; empty where nothing does."""
        return self.words.texts[self.at][self.start :] if self.at < len(self.words.texts) else ""

    @property
    def name(self) -> str:
        """The flag without its sign."""
        return self.flag.rstrip("=:")

    @property
    def written(self) -> str:
        """The flag and its value as the object has them, before any expansion."""
        raw = self.words.word(self.at).raw
        return f"{self.name}={raw.partition('=')[2] if self.start else raw}"

    @property
    def at_path(self) -> Pointer | None:
        """Where the number stands, be it in another object; None where that is in no string of any."""
        found = self._piece()
        return found[0].path if found else None

    def edit(self, *, plus: int = 0, times: int = 1, also: tuple[Edit, ...] = ()) -> Edit:
        """How to change the number; without a path where it stands in no string of the object."""
        sign = _SIGNS.get(self.flag[-1:], " ")
        found = self._piece()
        if found is None:
            return Edit(self.name, None, sign=sign)
        (path, text, variable), low, high = found
        name, sign = variable or self.name, "=" if variable else sign
        if not within(path):
            return Edit(name, None, sign=sign)
        return Edit(
            name, path, text[:low], text[high:], sign=sign, old=text[low:high], plus=plus, times=times, also=also
        )

    def _piece(self) -> tuple[Origin, int, int] | None:
        """The string that the whole number stands in, and from where to where."""
        word = self.words.word(self.at)
        start, end = self.start, len(word.text)
        for piece in word.pieces:
            if end <= len(piece.text):
                if start < 0 or piece.origin is None:
                    return None
                return piece.origin, piece.start + start, piece.start + end
            start -= len(piece.text)
            end -= len(piece.text)
        return None

    def moved(self, here: Pointer, there: Pointer) -> "Number":
        """The same number where its command line stands a second time: below `there` what is below `here`."""
        return Number(self.flag, Moved(self.words, here, there), self.at, self.start, self.where)

    def insertion(self, flag: str, *, also: tuple[Edit, ...] = ()) -> Edit:
        """How to put another flag with a number behind this one."""
        after = self.words.word(self.at).after
        sign = "=" if flag.endswith("=") else " "
        flag = flag.removesuffix("=")
        if after is None or not within(after.origin.path):
            return Edit(flag, None, sign=sign)
        origin, offset = after
        if offset is None:
            *parent, index = origin.path
            assert isinstance(index, int)
            item = f"{flag}="
            path = (*parent, index + 1)
            return Edit(flag, path, item, sign=sign, added=len(item), inserts=True, also=also)
        added = f" {flag}{sign}"
        before, behind = origin.text[:offset], origin.text[offset:]
        return Edit(flag, origin.path, before + added, behind, sign=sign, added=len(added), also=also)
