"""Which trainer a program is, and the configurations that it is told of."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from webhook.catalog.launchers import launchers
from webhook.catalog.trainers import OWN, Parser
from webhook.intake.configurations import Configuration, opened
from webhook.intake.words import Word, Words

if TYPE_CHECKING:
    from webhook.intake.commands import Invocation

_CONFIG_FILE = "configFile"
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_MOST_FILES = 4


class Value(NamedTuple):
    """A value on a command line: from `offset` on in the word at `at`."""

    at: int
    offset: int = 0

    def word(self, words: Words) -> Word:
        """The value."""
        word = words.word(self.at)
        return word.behind(self.offset) if self.offset else word


class Trainer(NamedTuple):
    """The parser of a program's flags, and what shows it: the program, or two flags. `implied` is what the program says
    by its name; its arguments begin at `at`."""

    parser: Parser
    known_by: str
    implied: Mapping[str, str]
    at: int
    by_program: bool


def trainer_of(invocation: "Invocation") -> Trainer | None:
    """The trainer that a program is; None where nothing shows it."""
    texts, at = invocation.words.texts, invocation.start
    # Of `python train.py` the arguments begin with the script.
    if at < len(texts) and texts[at].rsplit("/", 1)[-1] == invocation.program:
        at += 1
    started_by, name = launchers().trainers.started_by, invocation.program
    found = started_by.get(name)
    if found is None and at < len(texts) and texts[at][:1] != "-":
        name = f"{invocation.program} {texts[at]}"
        found = started_by.get(name)
        at += found is not None
    if found is not None:
        parser, implied = found
        return Trainer(parser, name, implied, at, by_program=True)
    return _by_flags(invocation, at)


def configurations(invocation: "Invocation", trainer: Trainer | None) -> Mapping[Value, Sequence[Configuration]]:
    """What can be read of the files, and of the values in their place, that a program is told of. Those whose keys are
    flags come first: what others say of the same outranks them."""
    words, start = invocation.words, trainer.at if trainer else invocation.start
    found: dict[Value, Sequence[Configuration]] = {}
    holds = trainer.parser.holds if trainer else launchers().holds
    named = [(_value(invocation, flag), holds[flag]) for flag in holds.keys() & invocation.flags.keys()]
    if trainer is None or not trainer.by_program:
        named += [(place, OWN) for place in _candidates(invocation, start)]
    elif trainer.parser.operand == _CONFIG_FILE and start < len(words.texts):
        named.append((Value(start), OWN))
    for place, what in sorted(named, key=lambda one: (one[1] != OWN, one[0])):
        if place.at < len(words.texts) and (read := opened(invocation.files, place.word(words), what)):
            found[place] = read
    return found


def launched_with(invocation: "Invocation") -> Mapping[Value, Sequence[Configuration]]:
    """What can be read of the files that its launchers are told of."""
    words = invocation.words
    found: dict[Value, Sequence[Configuration]] = {}
    for launch in invocation.launches:
        parser = launchers().launcher_settings.get(launch.name)
        if parser is None or not parser.holds:
            continue
        for flag, place in _named(words, invocation.start, parser.holds):
            what = parser.holds[flag]
            if place.at < invocation.start and (read := opened(invocation.files, place.word(words), what)):
                found[place] = read
    return found


def _value(invocation: "Invocation", flag: str) -> Value:
    number = invocation.number(flag)
    return Value(number.at, number.start)


def _named(words: Words, end: int, holds: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    """Where the values of these flags stand, up to a word."""
    texts = words.texts
    for index in range(end):
        flag, equals, _ = texts[index].partition("=")
        if flag in holds:
            yield flag, Value(index, len(flag) + 1) if equals else Value(index + 1)


def _candidates(invocation: "Invocation", start: int) -> list[Value]:
    """Words that name a file in view which may hold flags of a program whose own ways nobody knows."""
    found: list[Value] = []
    if not invocation.files:
        return found
    texts, holds = invocation.words.texts, launchers().holds
    for index in range(start, len(texts)):
        text = texts[index]
        if not text.endswith(_SUFFIXES) or texts[index - 1] in holds:
            continue
        flag, equals, value = text.partition("=")
        if flag not in holds and len(found) < _MOST_FILES and invocation.files.find(value if equals else text):
            found.append(Value(index, len(flag) + 1 if equals else 0))
    return found


def _by_flags(invocation: "Invocation", at: int) -> Trainer | None:
    """The trainer whose own flags stand here, or in a file that is named here: at least two and none of another's."""
    trainers = launchers().trainers
    known = trainers.known_by
    found = {flag: known[flag] for flag in invocation.flags if flag in known}
    for place in _candidates(invocation, at):
        for one in opened(invocation.files, place.word(invocation.words), OWN):
            if one.parser is None:
                found.update((key, known[flag]) for key, _ in one.values if (flag := f"--{key}") in known)
    if len(found) < 2:
        return None
    families = {trainers.families[owner] for owner in found.values()}
    if len(families) > 1:
        return None
    # What extends the family is the more special.
    special = [owner for owner in found.values() if owner not in families]
    name = special[0] if special else families.pop()
    return Trainer(trainers.parsers[name], " and ".join(list(found)[:2]), {}, at, by_program=False)
