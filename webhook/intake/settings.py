"""What a trainer is told of the settings that memory depends on, by its flags and by those of its launcher."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import orjson

from webhook.catalog.launchers import launchers
from webhook.catalog.trainers import Assigned, Parser
from webhook.intake.commands import Invocation
from webhook.intake.words import UNREAD, Words
from webhook.model.job import Said, Told
from webhook.model.paths import dotted
from webhook.model.placement import Pointer

# As transformers' HfArgumentParser takes them (string_to_bool).
_TRUE = frozenset({"", "true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})
_STAGES = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}
_LONGEST = 200
_MOST_UNREAD = 16


def trainers_told(found: Sequence[Invocation], container: Pointer) -> list[Told]:
    """What the trainers among the programs of one container are told. Where a launcher starts some programs, the others
    are preparation."""
    launched = [one for one in found if one.launches] or found
    return [read for one in launched if (read := _told(one, container)) is not None]


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
    known, texts = launchers(), invocation.words.texts
    if invocation.program in known.evaluation:
        return Told(invocation.program, invocation.program, trains=False)
    at = invocation.start
    # Of `python train.py` the arguments begin with the script.
    if at < len(texts) and texts[at].rsplit("/", 1)[-1] == invocation.program:
        at += 1
    started_by, name = known.trainers.started_by, invocation.program
    found = started_by.get(name)
    if found is None and at < len(texts) and texts[at][:1] != "-":
        name = f"{invocation.program} {texts[at]}"
        found = started_by.get(name)
        at += found is not None
    if found is None:
        parser, name = _by_flags(texts, at)
        if parser is None:
            return None
        return _Reader(invocation, parser, container).read(at, name, {}, by_program=False)
    parser, implied = found
    return _Reader(invocation, parser, container).read(at, name, implied, by_program=True)


def _by_flags(texts: Sequence[str], at: int) -> tuple[Parser | None, str]:
    """The trainer whose own flags stand here, at least two and none of another's, and these flags."""
    trainers = launchers().trainers
    found: dict[str, str] = {}
    for index in range(at, len(texts)):
        text = texts[index]
        if text[:2] == "--":
            flag = text if "=" not in text else text[: text.index("=")]
            owner = trainers.known_by.get(flag)
            if owner is not None:
                found[flag] = owner
    families = {trainers.families[owner] for owner in found.values()}
    if len(found) < 2 or len(families) > 1:
        return None, ""
    # What extends the family is the more special.
    special = [owner for owner in found.values() if owner not in families]
    name = special[0] if special else families.pop()
    return trainers.parsers[name], " and ".join(list(found)[:2])


class _Reader:
    """Reads the words of one program with one parser."""

    def __init__(self, invocation: Invocation, parser: Parser, container: Pointer) -> None:
        self._invocation = invocation
        self._parser = parser
        self._container = container
        self._settings: dict[str, Said] = {}
        self._unread: list[Said] = []

    def read(self, at: int, known_by: str, implied: Mapping[str, str], *, by_program: bool) -> Told:
        """All of it; what a flag says outranks what the program, and that what its launcher says."""
        invocation, parser = self._invocation, self._parser
        words, texts = invocation.words, invocation.words.texts
        for launch in invocation.launches:
            options = launchers().launcher_settings.get(launch.name)
            if options is not None:
                self._imply(launch.name, options.implies)
                self._scan(words, 0, invocation.start, options)
        self._imply(known_by, implied)
        if at < len(texts) and texts[at][:1] not in ("-", "", UNREAD) and parser.operand:
            self._take(parser.operand, self._said("the argument", texts[at], at))
            at += 1
        flags = self._scan(words, at, len(texts), parser)
        self._look_for_partial(at)
        if invocation.environment.sets_any(parser.variables):
            names = sorted(name for name in parser.variables if name in invocation.environment)
            self._unread += [Said("", name, dotted(self._container)) for name in names]
            self._assign(("parallel", "elsewhere"), self._unread[-1])
        evaluates = not flags.isdisjoint(parser.evaluation) and flags.isdisjoint(parser.train)
        trains = not evaluates and (by_program or not flags.isdisjoint(parser.training))
        launched = by_program or bool(invocation.launches)
        return Told(parser.name, known_by, trains, self._settings, tuple(self._unread[:_MOST_UNREAD]), launched)

    def _scan(self, words: Words, start: int, end: int, parser: Parser) -> set[str]:
        """Take every flag; those that stand here and are not switched off."""
        texts, flags = words.texts, set()
        last: dict[str, tuple[str, int]] = {}
        for index in range(start, min(end, len(texts))):
            text = texts[index]
            if text[:2] != "--":
                # Behind a flag it is its value; else it may be a flag itself.
                if text.startswith(UNREAD) and (index == start or texts[index - 1][:2] != "--"):
                    self._unread.append(self._said("words of the command line", "", index))
                continue
            flag, equals, value = text.partition("=")
            place = index
            if not equals and index + 1 < end and texts[index + 1][:2] != "--":
                value, place = texts[index + 1], index + 1
            last.pop(flag, None)
            last[flag] = (value, place)
        for flag, (value, place) in last.items():
            if value.casefold() not in _FALSE:
                flags.add(flag)
            if flag in parser.says:
                self._says(flag, value, place, parser)
            elif flag in parser.config_files and value.casefold() not in _FALSE:
                self._file(flag, value, place, parser.config_files[flag])
            elif UNREAD in flag:
                self._unread.append(self._said("words of the command line", "", place))
        return flags

    def _says(self, flag: str, value: str, place: int, parser: Parser) -> None:
        says = parser.says[flag]
        said = self._said(flag, value, place)
        if UNREAD in value or len(value) > _LONGEST:
            self._unread.append(replace(said, value=""))
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

    def _file(self, flag: str, value: str, place: int, leaves_open: Assigned) -> None:
        if value.startswith("{") and leaves_open is not None:
            inline = list(_deepspeed(value))
            if inline:
                for assigned in inline:
                    self._assign(assigned, self._said(flag, "", place))
                return
        said = self._said(flag, value if UNREAD not in value else "", place)
        self._unread.append(said)
        self._assign(leaves_open, said)

    def _imply(self, name: str, implied: Mapping[str, str]) -> None:
        for setting, value in implied.items():
            self._settings[setting] = Said(value, name, dotted(self._container))

    def _assign(self, assigned: Assigned, said: Said) -> None:
        if assigned is not None:
            setting, value = assigned
            self._settings[setting] = replace(said, value=value)

    def _take(self, setting: str, said: Said) -> None:
        if setting == "configFile":
            self._unread.append(said)
        else:
            self._settings[setting] = said

    def _look_for_partial(self, start: int) -> None:
        """A word that may mean that only a part of the parameters is trained, where one stands here; the flags that are
        read as such say it themselves."""
        parts = self._parser.partial
        if not parts:
            return
        texts = self._invocation.words.texts
        whole = " ".join((self._invocation.program, *texts[start:])).casefold()
        if not any(part in whole for part in parts):
            return
        for index, text in enumerate((self._invocation.program, *texts[start:]), start - 1):
            name = text.partition("=")[0]
            folded = text.casefold()
            if name not in self._parser.says and (part := next((part for part in parts if part in folded), "")):
                self._settings["partial"] = self._said(name, part, index)
                return

    def _said(self, name: str, value: str, index: int) -> Said:
        words = self._invocation.words
        pieces = words.word(index).pieces if 0 <= index < len(words.texts) else ()
        origin = next((piece.origin for piece in pieces if piece.origin is not None), None)
        return Said(_clean(value), _clean(name), dotted(origin.path if origin else self._container))


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


def _deepspeed(text: str) -> Iterator[Assigned]:
    """What an inline DeepSpeed configuration says of sharding; nothing where it has an optimizer of its own, or cannot
    be read (docs/_pages/config-json.md)."""
    try:
        config = orjson.loads(text)
    except ValueError:
        return
    match config:
        case {"optimizer": _}:
            return
        case {"zero_optimization": {"stage": int(stage), **zero}} if stage in _STAGES:
            yield ("parallel", _STAGES[stage])
            for key, offload in (("offload_optimizer", "optimizer"), ("offload_param", "all")):
                # The last one counts, and weights on the host mean all of it.
                if key in zero:
                    yield ("offload", offload)
