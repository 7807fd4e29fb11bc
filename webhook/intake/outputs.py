"""What commands of a script write, as far as it is copied from what stands there."""

from collections.abc import Iterator, Sequence
from typing import Final

from webhook.intake.config_files import LONGEST, Files
from webhook.intake.words import UNREAD, Line, Piece, Word

_COPIES = frozenset({"cp", "mv", "ln"})
_CHANGES = frozenset({"sed", "perl", "yq", "patch", "ed", "dd", "truncate", "rm", "rsync", "install"})
TOUCHES: Final = _COPIES | _CHANGES | {"cd", "pushd", "tee"}
"""Commands that change files, or the folder, without a redirection."""

_NEWLINE = Word("\n", (Piece("\n", None),), "\n")


def output_of(line: Line, read: Word | None, files: Files) -> Word | None:
    """What a command writes to its standard output, where it reads this from its standard input; None where nobody
    knows."""
    name, *arguments = line.texts
    match name, arguments:
        case "cat", [] | ["-"]:
            return read
        case "cat", _:
            found = [files.find(path) for path in arguments]
            known = all(found) and sum(len(file.word.text) for file in found if file) <= LONGEST
            return _joined([file.word for file in found if file]) if known else None
        case "tee", _:
            return read
        case "echo", _:
            return _echoed(line)
        case "printf", [pattern]:
            return None if "%" in pattern or "\\" in pattern else line.word(1)
        case "printf", ["%s" | "%s\\n", _]:
            return line.word(2)
    return None


def touched(line: Line, content: Word | None, files: Files) -> Iterator[tuple[str, Word | None, bool]]:
    """The files that a command writes by their names, what is in them then, and whether it comes behind what was."""
    name, *arguments = line.texts
    paths = [text for text in arguments if not text.startswith("-")]
    if name == "tee":
        appends = "-a" in arguments or "--append" in arguments
        yield from ((path, content, appends) for path in paths)
    elif name in _CHANGES:
        yield from ((path, None, False) for path in paths)
    elif name in _COPIES and len(paths) == 2:
        source, target = paths
        file = files.find(source)
        if name == "mv":
            yield source, None, False
        # The target may be the file or its folder.
        for path in (target, f"{target}/{source.rsplit('/', 1)[-1]}"):
            yield path, file.word if file else None, False


def _echoed(line: Line) -> Word | None:
    start, texts = 1, line.texts
    while start < len(texts) and texts[start] in ("-n", "-e", "-E", "-ne", "-en"):
        start += 1
    words = [line.word(index) for index in range(start, len(texts))]
    escapes = any("e" in text for text in texts[1:start])
    if any(UNREAD in word.text or (escapes and "\\" in word.text) for word in words):
        return None
    space = Word(" ", (Piece(" ", None),), " ")
    spaced = [part for word in words for part in (space, word)][1:]
    return _joined([*spaced, *([] if any("n" in text for text in texts[1:start]) else [_NEWLINE])])


def _joined(words: Sequence[Word]) -> Word:
    text = "".join(word.text for word in words)
    return Word(text, tuple(piece for word in words for piece in word.pieces), text)
