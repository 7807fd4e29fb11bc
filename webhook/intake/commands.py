"""What a container runs: its command line, seen through shells, wrappers, interpreters and launchers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from webhook.catalog.flags import Means
from webhook.catalog.launchers import Launchers, Options, Wrapper, launchers
from webhook.intake.config_files import File, Files
from webhook.intake.configurations import Configuration, opened
from webhook.intake.environment import Argv, Environment
from webhook.intake.script import Exported, Script
from webhook.intake.trainer import Trainer, Value, configurations, trainer_of
from webhook.intake.words import UNREAD, Budget, Number, Origin, Piece, Place, Word, Words
from webhook.model.placement import Pointer
from webhook.model.request import Object

_SHELL = re.compile(r"(?:ba|da|a|z|k|mk)?sh\Z")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
_SHEBANG = re.compile(r"#![^\n]*sh\b")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_PYTHON_TAKES = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_SHELL_TAKES = frozenset({"--rcfile", "--init-file"})
_DEEPEST = 4
_MOST_PROGRAMS = 32

Variables: TypeAlias = Environment | Exported


class Launch(NamedTuple):
    """One use of a launcher, with the numbers it is given, of one meaning the last. `hidden`: an option or a file that
    cannot be read may say how many nodes there are. `per_process`: it starts a process for each device."""

    name: str
    given: tuple[tuple[Means, Number], ...]
    one_node: bool
    hidden: bool
    per_process: bool


class Invocation:
    """A program that a container runs: its arguments are words from `start` on. `program` is its base name or what
    follows `python -m`; `launches` are the launchers that start it, outermost first; `files` are those in view.

    `flags` gives where each word stands last, by its flag (`--flag`, `--flag=value`) or key (`key=`, without Hydra's
    "+"), in the order in which they stand first.
    """

    __slots__ = ("_recognized", "environment", "files", "flags", "launches", "program", "start", "words")

    def __init__(
        self,
        words: Words,
        start: int,
        program: str,
        launches: tuple[Launch, ...],
        environment: Variables,
        files: Files,
    ) -> None:
        self.words = words
        self.start = start
        self.program = program
        self.launches = launches
        self.environment = environment
        self.files = files
        self.flags = flags_of(words, start, len(words.texts))
        self._recognized: tuple[Trainer | None, Mapping[Value, Sequence[Configuration]]] | None = None

    def number(self, flag: str) -> Number:
        """The value of a flag or key that stands here."""
        index = self.flags[flag]
        text = self.words.texts[index]
        if "=" in text:
            return Number(flag, self.words, index, text.index("=") + 1)
        return Number(flag, self.words, index + 1, 0)

    @property
    def trainer(self) -> Trainer | None:
        """The trainer that it is; None where nothing shows it."""
        return self._known()[0]

    @property
    def configurations(self) -> Mapping[Value, Sequence[Configuration]]:
        """What can be read of the files that it is told of, or of values in their place, which are JSON."""
        if not self.files and "{" not in "".join(self.words.texts):
            return {}
        return self._known()[1]

    def _known(self) -> tuple[Trainer | None, Mapping[Value, Sequence[Configuration]]]:
        """Read once, and only of programs that somebody asks about: a script may run hundreds."""
        if self._recognized is None:
            trainer = trainer_of(self)
            self._recognized = trainer, configurations(self, trainer)
        return self._recognized


def flags_of(words: Words, start: int, end: int) -> Mapping[str, int]:
    """Where each flag or key stands last between two words, in the order in which they stand first."""
    found: dict[str, int] = {}
    texts = words.texts
    for index in range(start, end):
        text = texts[index]
        if "=" in text:
            name = text[: text.index("=")]
            text = name if text[0] == "-" else f"{name.lstrip('+')}="
        found[text] = index
    return found


def invocations(
    container: Object, at: Pointer, environment: Environment, budget: Budget, files: Files | None = None
) -> list[Invocation]:
    """Every program that the container's command line runs, as far as it can be read; `files` are those that are there
    before it starts. Raises Unreadable."""
    argv = Argv(container, at, environment)
    return list(_programs(argv, 0, environment, (), _Limits(launchers(), Files(budget) if files is None else files)))


def scripted(
    text: str, at: Pointer, environment: Environment, budget: Budget, files: Files | None = None
) -> list[Invocation]:
    """Every program that a command line outside the pods runs (a RayJob's entrypoint); the string stands at `at`."""
    origin = Origin(at, text)
    word = Word(text, (Piece(text, origin),), text, Place(origin, len(text)))
    return list(_script(word, (), environment, (), _Limits(launchers(), Files(budget) if files is None else files)))


class _Limits(NamedTuple):
    """What is known where a command runs, and how deep in scripts; `input` gives the here-document that it reads."""

    known: Launchers
    files: Files
    depth: int = 0
    input: Callable[[], Word | None] = lambda: None


def _programs(
    words: Words, at: int, environment: Variables, launches: tuple[Launch, ...], limits: _Limits
) -> Iterator[Invocation]:
    """The programs that the words from `at` on start: one, or those of a script."""
    known, texts, files = limits.known, words.texts, limits.files
    for _ in range(_MOST_PROGRAMS):
        if at >= len(texts):
            return
        name = texts[at].rsplit("/", 1)[-1]
        options, wrapper = known.programs.get(name), known.wrappers.get(name)
        if _PYTHON.match(name):
            module, at = _python(texts, at + 1)
            options = known.modules.get(module)
            if options is None:
                yield Invocation(words, at, module or _base_name(texts, at), launches, environment, files)
                return
        elif options is not None and _follows(texts, at, options.subcommand):
            at += 1 + bool(options.subcommand)
        elif wrapper is not None and _follows(texts, at, wrapper.subcommand):
            at, environment = _wrapped(words, at + 1 + bool(wrapper.subcommand), wrapper, environment)
            continue
        elif _SHELL.match(name):
            is_script, at = _shell(texts, at + 1)
            if limits.depth >= _DEEPEST:
                return
            if is_script:
                if at < len(texts):
                    yield from _script(words.word(at), _from(words, at + 1), environment, launches, limits)
            elif at < len(texts):
                # A file that is not in view may still be named like a program whose flags are known.
                if file := files.find(texts[at]):
                    yield from _script(file.word, _from(words, at), environment, launches, limits)
                    return
                continue
            elif read := limits.input():
                yield from _script(read, (), environment, launches, limits)
            return
        elif (file := _shell_script(texts[at], files)) and limits.depth < _DEEPEST:
            yield from _script(file.word, _from(words, at), environment, launches, limits)
            return
        else:
            yield Invocation(words, at + 1, name, launches, environment, files)
            return
        launch, at, unread = _launch(words, at, options, files)
        launches = (*launches, launch)
        if unread is not None:
            # It may be options or the program itself: whatever flags follow are read as the program's.
            yield Invocation(words, unread + 1, _base_name(texts, at), launches, environment, files)
            return


def _script(
    text: Word, positional: Sequence[Word], environment: Variables, launches: tuple[Launch, ...], limits: _Limits
) -> Iterator[Invocation]:
    script = Script(text, environment, positional, limits.files)
    for ran in script.commands():
        inside = _Limits(limits.known, ran.files, limits.depth + 1, ran.document)
        yield from _programs(ran.line, 0, ran.environment, launches, inside)


def _shell_script(path: str, files: Files) -> File | None:
    """The file that is run by its name, where it is a shell's."""
    file = files.find(path) if files else None
    return file if file and (path.endswith(".sh") or _SHEBANG.match(file.word.text)) else None


def _from(words: Words, start: int) -> Sequence[Word]:
    return [words.word(index) for index in range(start, len(words.texts))]


def _launch(words: Words, at: int, options: Options, files: Files) -> tuple[Launch, int, int | None]:
    """A launcher's use, where the program that it starts stands, and the first word that cannot be read, if any."""
    texts = words.texts
    given: list[tuple[Means, Number]] = []
    one_node = hidden = False
    unread: int | None = None
    while at < len(texts):
        text = texts[at]
        if text.startswith(UNREAD):
            unread, hidden = at if unread is None else unread, True
            at += 1
            continue
        if text == "--":
            at += 1
            break
        if not text.startswith("-"):
            break
        flag, equals, _ = text.partition("=")
        means = options.means.get(flag)
        if means is not None and (equals or at + 1 < len(texts)):
            number = Number(flag, words, at, len(flag) + 1) if equals else Number(flag, words, at + 1, 0)
            given.append((means, number))
        one_node = one_node or flag in options.one_node
        if flag in options.elsewhere:
            value = words.word(at).behind(len(flag) + 1) if equals else words.word(min(at + 1, len(texts) - 1))
            read = opened(files, value, options.holds[flag]) if flag in options.holds else []
            hidden = hidden or not read
            # What stands on the command line goes before what a file says.
            given[:0] = [count for one in read for count in one.counts()]
        at += 1 if equals else 1 + options.values.get(flag, options.others)
    return Launch(options.name, tuple(given), one_node, hidden, options.per_process), min(at, len(texts)), unread


def _wrapped(words: Words, at: int, wrapper: Wrapper, environment: Variables) -> tuple[int, Variables]:
    """Where the wrapped program stands, and its environment (`env NAME=value program`)."""
    texts = words.texts
    changed = {}
    while at < len(texts):
        text = texts[at]
        if text == "--":
            at += 1
            break
        if text.startswith("-") and len(text) > 1:
            at += 2 if text in wrapper.takes else 1
        elif assignment := _ASSIGNMENT.match(text):
            changed[assignment[1]] = words.word(at).behind(assignment.end())
            at += 1
        else:
            break
    return at + wrapper.operands, Exported(environment, changed) if changed else environment


def _shell(texts: Sequence[str], at: int) -> tuple[bool, int]:
    """Whether a shell is given a script on its command line (`-c`, `-lc`, `-euo pipefail -c`), and where it stands;
    else where the file of the script stands."""
    is_script = False
    while at < len(texts):
        text = texts[at]
        if text in ("-", "--"):
            return is_script, at + 1
        if text[:1] not in ("-", "+"):
            break
        if text.startswith("--"):
            at += 2 if text in _SHELL_TAKES else 1
            continue
        is_script = is_script or (text[0] == "-" and "c" in text)
        at += 2 if "o" in text or "O" in text else 1
    return is_script, at


def _python(texts: Sequence[str], at: int) -> tuple[str, int]:
    """The module that Python runs, if one, and where its arguments begin; else where its script stands."""
    while at < len(texts):
        text = texts[at]
        if text == "-m":
            return (texts[at + 1] if at + 1 < len(texts) else ""), at + 2
        if text == "-c":
            return "", at + 2
        if not text.startswith("-") or text == "-":
            break
        at += 2 if text in _PYTHON_TAKES else 1
    return "", at


def _follows(texts: Sequence[str], at: int, subcommand: str) -> bool:
    return not subcommand or (at + 1 < len(texts) and texts[at + 1] == subcommand)


def _base_name(texts: Sequence[str], at: int) -> str:
    return texts[at].rsplit("/", 1)[-1] if at < len(texts) else ""
