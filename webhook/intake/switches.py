"""How a trainer can be told to need less memory: which words of its command line, of its launcher's or of a file in the
object would have to be others, and which flags are missing. What there is to tell stands in the catalog (`remedies`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from webhook.catalog.launchers import launchers
from webhook.catalog.trainers import ABSENT, Parser, Turn
from webhook.intake.commands import Invocation, flags_of
from webhook.intake.configurations import by_key
from webhook.intake.trainer import Trainer, launched_with
from webhook.intake.words import UNREAD, Number
from webhook.model.job import Edit, Remedy, Switch, Told
from webhook.model.placement import Pointer

_SWITCHED = {"t": "true", "yes": "true", "y": "true", "1": "true", "f": "false", "no": "false", "n": "false"}


class Trained(NamedTuple):
    """A trainer that runs in a container, and what it is told. `moved_to`: the same runs again, below the second path
    as it does below the first."""

    invocation: Invocation
    trainer: Trainer
    told: Told
    moved_to: tuple[Pointer, Pointer] | None = None

    def placed(self, number: Number) -> Number:
        """A number of its command line, where that stands for this role."""
        return number.moved(*self.moved_to) if self.moved_to else number


def read_switches(seen: Sequence[Trained]) -> tuple[Switch, ...]:
    """Every way to tell the job's trainers otherwise, the least change of each remedy first; none of a remedy that one
    of them cannot take, or where a patch cannot reach it."""
    training = [one for one in seen if one.told.trains]
    found: list[Switch] = []
    for remedy in Remedy if training else ():
        for ways in zip(*(_ways(one, remedy) for one in training), strict=False):
            first = ways[0]
            edits = {(edit.path, len(edit.prefix), edit.flag): (edit, word) for way in ways for edit, word in way.edits}
            whole = all(edit.path is not None for edit, _ in edits.values())
            if whole and all(way.says == first.says for way in ways):
                found.append(Switch(remedy, first.change, tuple(edits.values()), first.says))
    return tuple(found)


class _Way(NamedTuple):
    change: str
    edits: tuple[tuple[Edit, str], ...]
    says: tuple[tuple[str, str], ...]


def _ways(one: Trained, remedy: Remedy) -> Iterator[_Way]:
    """The ways of one trainer: by its own flags, by those of its launchers, by configurations in the object."""
    invocation, parser = one.invocation, one.trainer.parser
    yield from _by_own_flags(one, parser.remedies.get(remedy, ()))
    for launch in invocation.launches:
        options = launchers().launcher_settings.get(launch.name)
        for turn in options.remedies.get(remedy, ()) if options else ():
            assert options is not None
            flags = flags_of(invocation.words, 0, invocation.start)
            if (name := _last(flags, turn.flags, 0)) is not None:
                yield from _other_words(one, options, turn, _number(invocation, name, flags[name]))
    read = [*invocation.configurations.values(), *launched_with(invocation).values()]
    for configuration in (one for found in read for one in found if one.parser is not None):
        assert configuration.parser is not None
        for turn in configuration.parser.remedies.get(remedy, ()):
            for key, value in configuration.values:
                if key in turn.flags:
                    yield from _other_words(one, configuration.parser, turn, configuration.number(key, value))


def _by_own_flags(one: Trained, turns: Sequence[Turn]) -> Iterator[_Way]:
    """The first flag is given another word, or put in; those that it needs beside it are put in where they are not."""
    if not turns:
        return
    invocation, parser, at = one.invocation, one.trainer.parser, one.trainer.at
    first, *beside = turns
    name = _last(invocation.flags, _names(first, parser), at)
    if name is not None:
        ways = _other_words(one, parser, first, invocation.number(name))
    else:
        in_file = _in_file(one, first)
        elsewhere = {setting for word in first.words.values() for setting, _ in _says(parser, first, word[0])}
        if in_file is None and not elsewhere.isdisjoint(one.told.settings):
            # Something else says it: a launcher, a file, another flag. Two of them contradict each other.
            return
        ways = (_put_in(one, first, word) for word in first.words.get(in_file or ABSENT, ()))
    more = [
        _put_in(one, turn, turn.words[ABSENT][0])
        for turn in beside
        if ABSENT in turn.words and _last(invocation.flags, _names(turn, parser), at) is None
    ]
    for way in ways:
        yield _Way(
            " ".join([way.change, *(other.change for other in more)]),
            (*way.edits, *(edit for other in more for edit in other.edits)),
            way.says,
        )


def _other_words(one: Trained, parser: Parser, turn: Turn, number: Number) -> Iterator[_Way]:
    """The flag that stands there, with another word in its value."""
    value = number.text
    if not value or value.startswith("--") or UNREAD in value:
        return
    now = next((word for word in value.replace(",", " ").split() if _known_as(word, turn.words) in turn.words), None)
    if now is None:
        return
    edit = one.placed(number).edit()
    for word in turn.words[_known_as(now, turn.words)]:
        written = value.replace(now, word, 1)
        yield _Way(_spelled(edit, written), ((edit, written),), _says(parser, turn, written))


def _put_in(one: Trained, turn: Turn, word: str) -> _Way:
    """The flag behind the last word of the command line that a patch can reach."""
    invocation, parser = one.invocation, one.trainer.parser
    flag = turn.flags[0]
    if _has_operand(one):
        if not parser.key_value:
            return _Way(flag, ((Edit(flag, None), word),), ())
        flag = f"{flag.removeprefix('--')}="
    edit = Edit(flag, None)
    for index in range(len(invocation.words.texts) - 1, one.trainer.at - 1, -1):
        edit = one.placed(Number(flag, invocation.words, index, 0)).insertion(flag)
        if edit.path is not None:
            break
    if not word:  # a switch without a value
        prefix = edit.prefix.rstrip(" =")
        edit = edit._replace(prefix=prefix, added=edit.added - len(edit.prefix) + len(prefix))
    # A list item is one word as it is; in a script, a backslash outlives any number of quotes around it.
    written = word if edit.inserts else word.replace(" ", "\\ ")
    return _Way(_spelled(edit, word), ((edit, written),), _says(parser, turn, word))


def _has_operand(one: Trained) -> bool:
    """Whether the first argument is a configuration file; most parsers then take no flags beside it."""
    texts, at = one.invocation.words.texts, one.trainer.at
    return one.trainer.parser.operand == "configFile" and at < len(texts) and not texts[at].startswith("-")


def _in_file(one: Trained, turn: Turn) -> str | None:
    """The word that a file of the trainer's own flags gives the flag, as the table knows it; None where none does. What
    stands on the command line outranks it."""
    for found in one.invocation.configurations.values():
        for configuration in found:
            for key, value in configuration.values if configuration.parser is None else ():
                if by_key(dict.fromkeys(turn.flags, True), key):
                    return _known_as(value, turn.words)
    return None


def _names(turn: Turn, parser: Parser) -> tuple[str, ...]:
    keys = tuple(f"{flag[2:]}=" for flag in turn.flags if flag.startswith("--")) if parser.key_value else ()
    return turn.flags + keys


def _last(flags: Mapping[str, int], names: Sequence[str], start: int) -> str | None:
    """Of these names the one that stands last."""
    there = [name for name in names if flags.get(name, -1) >= start]
    return max(there, key=flags.__getitem__, default=None)


def _number(invocation: Invocation, name: str, index: int) -> Number:
    text = invocation.words.texts[index]
    if "=" in text:
        return Number(name, invocation.words, index, text.index("=") + 1)
    return Number(name, invocation.words, index + 1, 0)


def _known_as(word: str, table: Mapping[str, object]) -> str:
    """How the table writes this word: "True", "yes" and "1" are all "true", unless 1 is a word of its own."""
    if word in table:
        return word
    folded = word.casefold()
    return _SWITCHED.get(folded, folded)


def _says(parser: Parser, turn: Turn, value: str) -> tuple[tuple[str, str], ...]:
    """What the flag says with this value."""
    says = by_key(parser.says, turn.flags[0].removeprefix("--")) or {}
    if isinstance(says, str):
        return ((says, value),)
    words = value.replace(",", " ").split() or ["true"]
    assigned = (says.get(_known_as(word, says)) for word in words)
    return tuple(one for one in assigned if one is not None)


def _spelled(edit: Edit, value: str) -> str:
    if not value:
        return edit.flag
    return f'{edit.flag}{edit.sign}"{value}"' if " " in value else f"{edit.flag}{edit.sign}{value}"
