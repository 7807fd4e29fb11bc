"""The syntax of a POSIX shell script, as far as command lines in manifests need it.

What is not understood is left unread and never misread: command substitution, arithmetic. A script that breaks off
inside a quote is read up to the command before it. Linear in the length of the script. Why it is our own:
docs/decisions/0021-a-shell-reader-of-our-own.md.
"""

import re
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, TypeAlias

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_REDIRECT = re.compile(r"(?:\d{1,4})?(?:<<<|<<-?|&>>|&>|>>|>&|>\||<&|<>|<|>)")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;&|()\n]")
_PLAIN = re.compile(r"[^ \t\r\n\\'\"$`;&|()<>]+")
_QUOTED_PLAIN = re.compile(r"[^\\\"$`]+")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*]")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9@*])(\[[@*]\])?(:?[-=])?")
_ANSI_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_BACKTICKS = re.compile(r"`(?:[^`\\]|\\.)*+`", re.DOTALL)
_NESTED = re.compile(r"'[^']*+'|\"(?:[^\"\\]|\\.)*+\"|\\.|[(){}]", re.DOTALL)
_INDENTED = re.compile(r"\t*([^\n]*\n?)")
_QUOTES = re.compile(r"['\"\\]")
_DEEPEST_DEFAULT = 3

_OPENS = frozenset({"if", "while", "until"})
_OPENS_WITHOUT_COMMAND = frozenset({"for", "select", "case"})
_CLOSES = frozenset({"fi", "done", "esac"})
_BEFORE_COMMAND = frozenset({"then", "else", "elif", "do", "!", "{", "}", "time"})
_TESTS = frozenset({"[", "[[", "test"})


class Literal(NamedTuple):
    """text[start:end], as it stands."""

    start: int
    end: int


class Variable(NamedTuple):
    """`$NAME`, `${NAME}`, `${NAME:-default}`; `each`: all elements as words of their own (`"${NAME[@]}"`, `"$@"`). The
    default stands for an empty value too where `or_empty` (`:-`)."""

    name: str
    quoted: bool
    each: bool = False
    default: "tuple[Part, ...] | None" = None
    or_empty: bool = True


class Opaque(NamedTuple):
    """Something whose text cannot be known: a command substitution, `$?`, `${NAME%suffix}`."""


Part: TypeAlias = Literal | Variable | Opaque


class ShellWord(NamedTuple):
    """text[start:end]. `assigns` is the variable's name where the word looks like `NAME=value`, `value` the parts of
    what is assigned; `elements` are the words of `NAME=( … )`. `plain`: without quotes, escapes and expansions."""

    parts: tuple[Part, ...]
    start: int
    end: int
    assigns: str = ""
    appends: bool = False
    value: tuple[Part, ...] = ()
    elements: "tuple[ShellWord, ...] | None" = None
    plain: bool = False


class Command(NamedTuple):
    """A simple command. `conditional`: it may not run. `loops`: the variable that a `for` around it sets. `document` is
    the here-document that it reads, None where there is none or it breaks off; `output` the file that it writes, to
    whose end where it `appends`; `piped`: the next command reads what it writes."""

    words: tuple[ShellWord, ...]
    conditional: bool = False
    loops: str = ""
    document: "Document | None" = None
    output: ShellWord | None = None
    appends: bool = False
    piped: bool = False


def parse(text: str) -> tuple[Command, ...]:
    """The simple commands of a script, in order, whatever pipes, lists and compounds they stand in. Never raises."""
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _parsed(text)


def _parsed(text: str) -> tuple[Command, ...]:
    reader = _Reader(text)
    with suppress(_BrokenOff):
        reader.read()
    return tuple(reader.commands)


# All roles of a job, and both calls of the webhook, bring the same script.
_LONGEST_REMEMBERED = 4096
_remembered = lru_cache(maxsize=32)(_parsed)


class _BrokenOff(Exception):
    """The script ends inside a quote, a substitution or a here-document."""


class Document(NamedTuple):
    """A here-document: text[start:end]; of one that is `indented` tabs at the start of a line do not count, and in one
    that is not `quoted` variables are expanded."""

    start: int
    end: int
    indented: bool
    quoted: bool


class _Begun(NamedTuple):
    """A here-document whose text is still to come; `command` is the index of the command that reads it, if any."""

    delimiter: str
    indented: bool
    quoted: bool
    command: int | None = None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.commands: list[Command] = []
        self._words: list[ShellWord] = []
        self._depth = 0
        self._joined = ""
        self._after_test = False
        self._output: tuple[ShellWord, bool] | None = None
        self._begun: list[_Begun] = []
        self._awaited: list[_Begun] = []

    def read(self) -> None:
        text, at, end = self.text, 0, len(self.text)
        while at < end:
            if blank := _BLANK.match(text, at):
                at = blank.end()
            elif text[at] == "#":
                at = _find(text, "\n", at, end)
            elif redirect := _REDIRECT.match(text, at):
                at = self._redirect(redirect)
            elif operator := _OPERATOR.match(text, at):
                self._end_command(operator[0])
                at = operator.end()
                if operator[0] == "\n":
                    at = self._documents(at)
            else:
                word = _word(text, at)
                self._words.append(word)
                at = word.end
        self._end_command("")

    def _redirect(self, redirect: re.Match[str]) -> int:
        at = redirect.end()
        if blank := _BLANK.match(self.text, at):
            at = blank.end()
        if at >= len(self.text) or _OPERATOR.match(self.text, at) or self.text[at] in "<>":
            return at
        target = _word(self.text, at)
        operator = redirect[0].lstrip("0123456789")
        if operator in ("<<", "<<-"):
            written = self.text[target.start : target.end]
            delimiter = _QUOTES.sub("", written)
            self._begun.append(_Begun(delimiter, operator == "<<-", delimiter != written))
        elif operator in (">", ">|", ">>") and redirect[0][0] in ">1":
            self._output = target, operator == ">>"
        return target.end

    def _documents(self, at: int) -> int:
        """Reads the here-documents that the line before `at` has begun, and returns where they end."""
        text = self.text
        for document in self._awaited:
            start = at
            end, at = _closed(text, at, document)
            if document.command is not None:
                read = Document(start, end, document.indented, document.quoted)
                self.commands[document.command] = self.commands[document.command]._replace(document=read)
        self._awaited.clear()
        return min(at, len(text))

    def _end_command(self, operator: str) -> None:
        words, self._words = self._words, []
        output, self._output = self._output, None
        begun, self._begun = self._begun, []
        index = len(self.commands)
        reads = self._append(words, operator, output)
        self._awaited += [document._replace(command=index if reads else None) for document in begun]

    def _append(self, words: list[ShellWord], operator: str, output: tuple[ShellWord, bool] | None) -> bool:
        """Keeps the command that these words are; False where they are none."""
        conditional = self._joined == "||" or (self._joined == "&&" and self._after_test)
        self._joined = operator or ""
        for index, word in enumerate(words):
            keyword = self._bare(word)
            if keyword in _OPENS:
                self._depth += 1
            elif keyword in _OPENS_WITHOUT_COMMAND:
                self._depth += 1
                name = self._bare(words[index + 1]) if keyword != "case" and index + 1 < len(words) else ""
                self.commands.append(Command((), conditional=True, loops=name))
                return False
            elif keyword in _CLOSES:
                self._depth = max(self._depth - 1, 0)
            elif keyword == "function":
                return False
            elif keyword not in _BEFORE_COMMAND:
                self._after_test = keyword in _TESTS
                conditional = conditional or self._depth > 0
                written, appends = output or (None, False)
                command = Command(tuple(words[index:]), conditional, "", None, written, appends, operator == "|")
                self.commands.append(command)
                return True
        return False

    def _bare(self, word: ShellWord) -> str:
        """The text of a word without quotes or expansions; empty for any other."""
        return self.text[word.start : word.end] if word.plain else ""


def _word(text: str, start: int) -> ShellWord:
    parts: list[Part] = []
    at, end = start, len(text)
    assignment = _ASSIGNMENT.match(text, start)
    while at < end:
        character = text[at]
        if plain := _PLAIN.match(text, at):
            parts.append(Literal(at, plain.end()))
            at = plain.end()
        elif character == "'":
            closing = text.find("'", at + 1)
            if closing < 0:
                raise _BrokenOff
            parts.append(Literal(at + 1, closing))
            at = closing + 1
        elif character == '"':
            at = _double_quoted(text, at + 1, end, parts, 0) + 1
            if at > end:
                raise _BrokenOff
        elif character == "\\":
            if text[at + 1 : at + 2] not in ("", "\n"):
                parts.append(Literal(at + 1, at + 2))
            at += 2
        elif character in "$`":
            part, at = _expansion(text, at, end, 0, quoted=False)
            parts.append(part)
        elif character == "(" and assignment and at == assignment.end():
            elements, at = _array(text, at + 1)
            return ShellWord((), start, at, assignment[1], bool(assignment[2]), (), elements)
        else:
            break
    at = min(at, end)
    if not assignment:
        return ShellWord(tuple(parts), start, at, plain=parts == [Literal(start, at)])
    first = parts[0]
    assert isinstance(first, Literal)
    value = (Literal(assignment.end(), first.end), *parts[1:])
    return ShellWord(tuple(parts), start, at, assignment[1], bool(assignment[2]), value)


def content(text: str, document: Document) -> tuple[Part, ...] | None:
    """The parts of a here-document; None where a substitution in it breaks off."""
    stretches = [(document.start, document.end)]
    if document.indented:
        stretches = [line.span(1) for line in _INDENTED.finditer(text, document.start, document.end)]
    if document.quoted:
        return tuple(Literal(*stretch) for stretch in stretches)
    parts: list[Part] = []
    try:
        for start, end in stretches:
            _double_quoted(text, start, end, parts, 0, quote="")
    except _BrokenOff:
        return None
    return tuple(parts)


def _closed(text: str, at: int, document: _Begun) -> tuple[int, int]:
    """Where the text of a here-document that begins at `at` ends, and where what follows it begins."""
    delimiter = document.delimiter
    start = at - 1
    while True:
        if document.indented:
            start = _find(text, "\n", start, len(text))
            begin = start + 1
            while text[begin : begin + 1] == "\t":
                begin += 1
            found = text.startswith(delimiter, begin)
        else:
            start = _find(text, f"\n{delimiter}", start, len(text))
            begin, found = start + 1, True
        if start >= len(text):
            raise _BrokenOff
        end = begin + len(delimiter)
        if found and (end == len(text) or text[end] == "\n"):
            return start + 1, min(end + 1, len(text))
        start += 1


def _double_quoted(text: str, at: int, end: int, parts: list[Part], depth: int, quote: str = '"') -> int:
    """Reads up to the closing quote, or to `end`, and returns where that is. In a here-document there is no such quote:
    it is a character like any other."""
    parts.append(Literal(at, at))  # an empty string is a word too
    while at < end and text[at] != quote:
        if plain := _QUOTED_PLAIN.match(text, at, end):
            parts.append(Literal(at, plain.end()))
            at = plain.end()
        elif text[at] == '"':
            parts.append(Literal(at, at + 1))
            at += 1
        elif text[at] == "\\":
            escaped = text[at + 1 : at + 2]
            if escaped != "\n":
                parts.append(Literal(at + 1 if escaped in ("$", "`", "\\", quote) else at, min(at + 2, end)))
            at += 2
        else:
            part, at = _expansion(text, at, end, depth, quoted=True)
            parts.append(part)
    return at


def _expansion(text: str, at: int, end: int, depth: int, *, quoted: bool) -> tuple[Part, int]:
    if text[at] == "`":
        ticked = _BACKTICKS.match(text, at, end)
        if ticked is None:
            raise _BrokenOff
        return Opaque(), ticked.end()
    following = text[at + 1 : at + 2]
    if following == "(":
        return Opaque(), _closing(text, at + 1, end, "()")
    if following == "{":
        closing = _closing(text, at + 1, end, "{}")
        return _braced(text, at + 2, closing - 1, depth, quoted=quoted), closing
    if following == "'" and not quoted:
        ansi = _ANSI_QUOTED.match(text, at + 1, end)
        if ansi is None:
            raise _BrokenOff
        return Opaque() if "\\" in ansi[1] else Literal(*ansi.span(1)), ansi.end()
    if name := _NAME.match(text, at + 1, end):
        return Variable(name[0], quoted, each=name[0] in "@*"), name.end()
    if following and following in "#?!$-":
        return Opaque(), at + 2
    return Literal(at, at + 1), at + 1


def _braced(text: str, at: int, end: int, depth: int, *, quoted: bool) -> Part:
    found = _BRACED.match(text, at, end)
    if found is None:
        return Opaque()
    name, each = found[1], bool(found[2]) or found[1] in "@*"
    if found.end() == end and not found[3]:
        return Variable(name, quoted, each)
    if not found[3] or depth >= _DEEPEST_DEFAULT:
        return Opaque()
    default: list[Part] = []
    # Quotes inside a default are seldom, and read as the word's own: `${X:-"8"}`.
    start = found.end()
    if text[start:end].startswith(("'", '"')) and text[start:end].endswith(text[start]) and end - start > 1:
        start, end = start + 1, end - 1
    if _double_quoted(text, start, end, default, depth + 1) != end:
        return Opaque()
    return Variable(name, quoted, each, tuple(default), found[3][0] == ":")


def _array(text: str, at: int) -> tuple[tuple[ShellWord, ...], int]:
    elements: list[ShellWord] = []
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif text[at] == "\n":
            at += 1
        elif text[at] == "#":
            at = _find(text, "\n", at, len(text))
        elif text[at] == ")":
            return tuple(elements), at + 1
        elif _OPERATOR.match(text, at) or _REDIRECT.match(text, at):
            break
        else:
            element = _word(text, at)
            elements.append(element)
            at = element.end
    raise _BrokenOff


def _closing(text: str, at: int, end: int, pair: str) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for token in _NESTED.finditer(text, at, end):
        if token[0] == pair[0]:
            depth += 1
        elif token[0] == pair[1]:
            depth -= 1
            if depth == 0:
                return token.end()
    raise _BrokenOff


def _find(text: str, what: str, at: int, otherwise: int) -> int:
    position = text.find(what, at)
    return otherwise if position < 0 else position
