"""What a trainer is told of the settings that memory depends on, by its flags and by those of its launcher."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter

from webhook.catalog.launchers import launchers
from webhook.catalog.trainers import Assigned, Parser, Says
from webhook.intake.commands import Invocation, flags_of
from webhook.intake.configurations import Configuration, by_key
from webhook.intake.trainer import Trainer, Value, launched_with
from webhook.intake.words import UNREAD, Words
from webhook.model.job import Said, Told
from webhook.model.paths import dotted
from webhook.model.placement import Pointer

# As transformers' HfArgumentParser takes them (string_to_bool).
_TRUE = frozenset({"", "true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})
_LONGEST = 200
_MOST_UNREAD = 16


class Trainers:
    """The trainers among the programs of one container, and what they are told: read when somebody asks, and once."""

    def __init__(self, found: Sequence[Invocation], container: Pointer) -> None:
        self._found = found
        self._container = container

    @cached_property
    def told(self) -> Sequence[tuple[Invocation, Told]]:
        """Those that there are."""
        return trainers_told(self._found, self._container)


def trainers_told(found: Sequence[Invocation], container: Pointer) -> list[tuple[Invocation, Told]]:
    """The trainers among the programs of one container, and what they are told. Where a launcher starts some programs,
    the others are preparation."""
    launched = [one for one in found if one.launches] or found
    return [(one, read) for one in launched if (read := _told(one, container)) is not None]


def read_told(seen: Sequence[Told]) -> Told | None:
    """What the job as a whole is told: the first that trains. Where another is told something else, it is not known
    which of them needs more."""
    training = [one for one in seen if one.trains]
    if not training:
        return seen[0] if seen else None
    first, *others = training
    for other in others:
        if _values(other) != _values(first):
            differing = Said(other.trainer, "containers that are told different things", "")
            return replace(first, unread=(*first.unread, differing))
    return first


def _values(one: Told) -> tuple[object, ...]:
    settings = {name: said.value for name, said in one.settings.items()}
    return one.trainer, settings, one.launched, [(said.name, said.value) for said in one.unread]


def _told(invocation: Invocation, container: Pointer) -> Told | None:
    if invocation.program in launchers().evaluation:
        return Told(invocation.program, invocation.program, trains=False)
    trainer = invocation.trainer
    return _Reader(invocation, trainer, container).read() if trainer else None


class _Reader:
    """Reads what one program is told, as its trainer's parser would."""

    def __init__(self, invocation: Invocation, trainer: Trainer, container: Pointer) -> None:
        self._invocation = invocation
        self._trainer = trainer
        self._parser = trainer.parser
        self._container = container
        self._settings: dict[str, Said] = {}
        self._unread: list[Said] = []

    def read(self) -> Told:
        """All of it; what a flag says outranks what a file says, that what the program, and that what its launcher."""
        invocation, trainer, parser = self._invocation, self._trainer, self._parser
        words, texts, at = invocation.words, invocation.words.texts, trainer.at
        launched_by = launched_with(invocation)
        for launch in invocation.launches:
            options = launchers().launcher_settings.get(launch.name)
            if options is not None:
                self._imply(launch.name, options.implies)
                self._configure(launched_by)
                self._scan(flags_of(words, 0, invocation.start), options, launched_by, 0, invocation.start)
        self._imply(trainer.known_by, trainer.implied)
        read = invocation.configurations
        keys = self._configure(read)
        if at < len(texts) and texts[at][:1] not in ("-", "", UNREAD) and parser.operand:
            if Value(at) not in read:
                self._take(parser.operand, self._said("the argument", texts[at], at))
            at += 1
        flags = self._scan(invocation.flags, parser, read, at, len(texts)) | keys
        self._look_for_partial(at)
        if invocation.environment.sets_any(parser.variables):
            names = sorted(name for name in parser.variables if name in invocation.environment)
            self._unread += [Said("", name, dotted(self._container)) for name in names]
            self._assign(("parallel", "elsewhere"), self._unread[-1])
        evaluates = not flags.isdisjoint(parser.evaluation) and flags.isdisjoint(parser.train)
        trains = not evaluates and (trainer.by_program or not flags.isdisjoint(parser.training))
        launched = trainer.by_program or bool(invocation.launches)
        unread = tuple(self._unread[:_MOST_UNREAD])
        return Told(parser.name, trainer.known_by, trains, self._settings, unread, launched)

    def _configure(self, read: Mapping[Value, Sequence[Configuration]]) -> set[str]:
        """Take every value of these files; the flags that their keys stand for and that are not switched off."""
        flags: set[str] = set()
        every = [one for found in read.values() for one in found]
        opened = {one.under for one in every}
        for one in every:
            parser = one.parser or self._parser
            if one.parser is not None:
                self._imply(one.file.name, one.parser.implies, one.file.where)
            for key, value in one.values:
                said = Said(_clean(value), _clean(f"{one.prefix}{key}"), one.file.where)
                if one.parser is None and value.casefold() not in _FALSE:
                    flags.add(f"--{key}")
                says, leaves_open = by_key(parser.says, key), by_key(parser.config_files, key)
                if says is not None:
                    self._says(says, value, said)
                elif leaves_open is not None and key not in opened:
                    self._unread.append(said)
                    self._assign(leaves_open, said)
        return flags

    def _scan(
        self,
        flags: Mapping[str, int],
        parser: Parser,
        read: Mapping[Value, Sequence[Configuration]],
        start: int,
        end: int,
    ) -> set[str]:
        """Take every flag between two words; those that stand there and are not switched off."""
        words, texts = self._invocation.words, self._invocation.words.texts
        on: set[str] = set()
        for name, index in sorted(flags.items(), key=itemgetter(1)):
            flag = name if name[:2] == "--" else _key(name, parser)
            if not flag or index < start:
                continue
            text, at, offset, value = texts[index], index, 0, ""
            if "=" in text:
                offset = text.index("=") + 1
                value = text[offset:]
            elif index + 1 < end and texts[index + 1][:2] != "--":
                at = index + 1
                value = texts[at]
            is_on = value.casefold() not in _FALSE
            if is_on:
                on.add(flag)
            if flag in parser.says:
                self._says(parser.says[flag], value, self._said(flag.removesuffix("="), value, at))
            elif flag in parser.config_files and is_on and Value(at, offset) not in read:
                said = self._said(flag.removesuffix("="), value if UNREAD not in value else "", at)
                self._unread.append(said)
                self._assign(parser.config_files[flag], said)
        if UNREAD in "".join(flags):
            self._look_for_unread(words, start, end)
        return on

    def _look_for_unread(self, words: Words, start: int, end: int) -> None:
        """Words that cannot be read and may be flags; behind a flag they are its value."""
        texts = words.texts
        for index in range(start, end):
            text = texts[index]
            behind = index > start and texts[index - 1][:2] == "--" and "=" not in texts[index - 1]
            if UNREAD in text.partition("=")[0] and (text[:2] == "--" or (text[0] == UNREAD and not behind)):
                self._unread.append(self._said("words of the command line", "", index))

    def _says(self, says: Says, value: str, said: Said) -> None:
        if UNREAD in value or len(value) > _LONGEST:
            self._unread.append(Said("", said.name, said.field))
        elif isinstance(says, str):
            self._take(says, said)
        else:
            for word in _words(value, says):
                if word in says:
                    self._assign(says[word], said)
                elif "*" in says:
                    self._assign(says["*"], said)
                elif word != "false" or "true" not in says:
                    self._unread.append(said)

    def _imply(self, name: str, implied: Mapping[str, str], where: str = "") -> None:
        for setting, value in implied.items():
            self._settings[setting] = Said(value, name, where or dotted(self._container))

    def _assign(self, assigned: Assigned, said: Said) -> None:
        if assigned is not None:
            setting, value = assigned
            self._settings[setting] = Said(value, said.name, said.field)

    def _take(self, setting: str, said: Said) -> None:
        if setting == "configFile":
            self._unread.append(said)
        else:
            self._settings[setting] = said

    def _look_for_partial(self, start: int) -> None:
        """A word that may mean that only a part of the parameters is trained, where one stands here; the flags that are
        read as such say it themselves."""
        program, parser, texts = self._invocation.program, self._parser, self._invocation.words.texts
        words = (program, *texts[start:])
        whole = " ".join(words).casefold()
        parts = [part for part in parser.partial if part in whole]
        if not parts:
            return
        for index, text in enumerate(words, start - 1):
            name = text.partition("=")[0]
            folded = text.casefold()
            if name not in parser.says and (part := next((part for part in parts if part in folded), "")):
                self._settings["partial"] = self._said(name, part, index)
                return

    def _said(self, name: str, value: str, index: int) -> Said:
        words = self._invocation.words
        pieces = words.word(index).pieces if 0 <= index < len(words.texts) else ()
        origin = next((piece.origin for piece in pieces if piece.origin is not None), None)
        return Said(_clean(value), _clean(name), dotted(origin.path if origin else self._container))


def _key(name: str, parser: Parser) -> str:
    """The flag that a key= is read as; empty where it is none."""
    if name in parser.says or name in parser.config_files:
        return name
    flag = f"--{name[:-1]}" if parser.key_value else ""
    return flag if flag in parser.says or flag in parser.config_files else ""


def _clean(text: str) -> str:
    """The text as a message may show it."""
    text = text[:_LONGEST]
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)


def _words(value: str, says: Mapping[str, Assigned]) -> Iterator[str]:
    """The words of a value; a switch that stands alone is on."""
    folded = value.casefold()
    if "true" in says or "false" in says:
        if folded in _TRUE:
            yield "true"
            return
        if folded in _FALSE:
            yield "false"
            return
    words = [value] if value in says else value.replace(",", " ").split()
    if "true" in says and says.keys().isdisjoint(words):
        # A switch, and behind it an argument that is not its own.
        words = ["true"]
    yield from words or ["true"]
