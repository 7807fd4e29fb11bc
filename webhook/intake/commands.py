"""What a container runs: its command line, seen through shells, wrappers, interpreters and launchers."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from webhook.catalog.launchers import Launchers, Means, Options, Wrapper, launchers
from webhook.intake.environment import Argv, Environment
from webhook.intake.script import Exported, Script
from webhook.intake.words import UNREAD, Budget, Listed, Number, Origin, Piece, Place, Word, Words
from webhook.model.placement import Pointer
from webhook.model.request import Object

_SHELL = re.compile(r"(?:ba|da|a|z|k|mk)?sh\Z")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_PYTHON_TAKES = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_SHELL_TAKES = frozenset({"--rcfile", "--init-file"})
_DEEPEST = 4
_MOST_PROGRAMS = 32

Variables: TypeAlias = Environment | Exported


class Launch(NamedTuple):
    """One use of a launcher, with the numbers it is given. `hidden`: an option that cannot be read, or a file, may say
    how many nodes there are."""

    name: str
    given: tuple[tuple[Means, Number], ...]
    one_node: bool
    hidden: bool


class Invocation(NamedTuple):
    """A program that a container runs: its arguments are words from `start` on. `program` is its base name or what
    follows `python -m`; `launches` are the launchers that start it, outermost first."""

    words: Words
    start: int
    program: str
    launches: tuple[Launch, ...]
    environment: Variables


def invocations(container: Object, at: Pointer, environment: Environment, budget: Budget) -> list[Invocation]:
    """Every program that the container's command line runs, as far as it can be read. Raises Unreadable."""
    argv = Argv(container, at, environment)
    return list(_programs(argv, 0, environment, (), _Limits(launchers(), budget)))


def scripted(text: str, at: Pointer, environment: Environment, budget: Budget) -> list[Invocation]:
    """Every program that a command line outside the pods runs (a RayJob's entrypoint); the string stands at `at`."""
    origin = Origin(at, text)
    word = Word(text, (Piece(text, origin),), text, Place(origin, len(text)))
    return list(_script(Listed([word]), 0, environment, (), _Limits(launchers(), budget)))


class _Limits(NamedTuple):
    known: Launchers
    budget: Budget
    depth: int = 0


def _programs(
    words: Words, at: int, environment: Variables, launches: tuple[Launch, ...], limits: _Limits
) -> Iterator[Invocation]:
    """The programs that the words from `at` on start: one, or those of a script."""
    known, texts = limits.known, words.texts
    for _ in range(_MOST_PROGRAMS):
        if at >= len(texts):
            return
        name = texts[at].rsplit("/", 1)[-1]
        options, wrapper = known.programs.get(name), known.wrappers.get(name)
        if _PYTHON.match(name):
            module, at = _python(texts, at + 1)
            options = known.modules.get(module)
            if options is None:
                yield Invocation(words, at, module or _base_name(texts, at), launches, environment)
                return
        elif options is not None and _follows(texts, at, options.subcommand):
            at += 1 + bool(options.subcommand)
        elif wrapper is not None and _follows(texts, at, wrapper.subcommand):
            at, environment = _wrapped(words, at + 1 + bool(wrapper.subcommand), wrapper, environment)
            continue
        elif _SHELL.match(name):
            is_script, at = _shell(texts, at + 1)
            if not is_script:
                continue
            if at < len(texts) and limits.depth < _DEEPEST:
                yield from _script(words, at, environment, launches, limits)
            return
        else:
            yield Invocation(words, at + 1, name, launches, environment)
            return
        launch, at, unread = _launch(words, at, options)
        launches = (*launches, launch)
        if unread is not None:
            # It may be options or the program itself: whatever flags follow are read as the program's.
            yield Invocation(words, unread + 1, _base_name(texts, at), launches, environment)
            return


def _script(
    words: Words, at: int, environment: Variables, launches: tuple[Launch, ...], limits: _Limits
) -> Iterator[Invocation]:
    positional = [words.word(index) for index in range(at + 1, len(words.texts))]
    script = Script(words.word(at), environment, positional, limits.budget)
    for line, variables in script.commands():
        yield from _programs(line, 0, variables, launches, limits._replace(depth=limits.depth + 1))


def _launch(words: Words, at: int, options: Options) -> tuple[Launch, int, int | None]:
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
        hidden = hidden or flag in options.elsewhere
        at += 1 if equals else 1 + options.values.get(flag, options.others)
    return Launch(options.name, tuple(given), one_node, hidden), min(at, len(texts)), unread


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
