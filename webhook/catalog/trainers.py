"""Trainers: the flags of each family, what their values say of memory, and how a trainer is known (launchers.yaml)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.catalog.flags import Meaning, Means, Spelling, once, spelled
from webhook.model.job import Remedy

_CONFIG = ConfigDict(alias_generator=to_camel, extra="forbid")
_Names = tuple[Annotated[str, Field(min_length=1)], ...]
_SomeNames = Annotated[_Names, Field(min_length=1)]
Assignment = Annotated[str, Field(pattern=r"^([A-Za-z]+=\S+)?$")]
"""setting=value, or an empty text."""
Settings: TypeAlias = Mapping[str, str | Mapping[str, Assignment]]
"""What flags say, as it is written."""

_Words = str | Annotated[tuple[str, ...], Field(min_length=1)]
_Turns = Annotated[Mapping[str, Annotated[Mapping[str, _Words], Field(min_length=1)]], Field(min_length=1)]
Remedies: TypeAlias = Mapping[Remedy, _Turns]
"""What makes a run smaller, as it is written."""

Assigned: TypeAlias = tuple[str, str] | None
"""A setting and its value; None for a word that says nothing of memory."""
Says: TypeAlias = str | Mapping[str, Assigned]
"""The setting whose value a flag gives, or what each word of its value assigns."""

ABSENT: Final = ""
"""Stands for the word of a flag that is not there."""


class Turn(NamedTuple):
    """A flag or key, in every way that the parser takes it, the first as it is documented; and, by the word that stands
    there now (ABSENT: the flag does not), the words that may stand there, the least change first."""

    flags: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]


OWN: Final = "Flags"
"""What a file holds whose keys are the trainer's own flags."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """A family of flags that one parser takes; launchers.yaml says what each field is."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    source: str
    extends: str = ""
    micro_batch: _SomeNames = ()
    programs: _Names = ()
    accumulation: _Names = ()
    global_batch: _Names = ()
    shared_batch: _Names = ()
    nodes: _Names = ()
    per_node: _Names = ()
    total: _Names = ()
    where: _Names = ()
    spelling: Spelling = Spelling.EXACT
    certain: bool = True
    by_launcher: bool = False
    key_value: bool = False
    trains: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    known_by: _Names = ()
    training: _Names = ()
    train: _Names = ()
    evaluation: _Names = ()
    operand: str = ""
    partial: _Names = ()
    variables: _Names = ()
    settings: Settings = field(default_factory=dict)
    config_files: Mapping[str, Assignment] = field(default_factory=dict)
    holds: Mapping[str, str] = field(default_factory=dict)
    remedies: Remedies = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether its flags count only for its own programs, or beside flags that tell it."""
        return bool(self.programs or self.where)


@dataclass(frozen=True, slots=True)
class Format:
    """A configuration file whose keys are no flags; configs.yaml says what each field is."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    source: str
    micro_batch: _Names = ()
    accumulation: _Names = ()
    global_batch: _Names = ()
    shared_batch: _Names = ()
    nodes: _Names = ()
    total: _Names = ()
    implies: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    holds: Mapping[str, str] = field(default_factory=dict)
    remedies: Remedies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parser:
    """A trainer's flags, those of a launcher that say something of memory, or the keys of a configuration file, ready
    to look up. `holds` is what the files that flags name hold: OWN, or the name of a format. `batch` and `counts` are
    a format's; those of flags are in tables for all trainers at once. `key_value`: flags are also given as key=value.
    `remedies` are what makes a run smaller: the flag that does it, and those that it needs beside it.
    """

    name: str
    says: Mapping[str, Says]
    config_files: Mapping[str, Assigned]
    implies: Mapping[str, str]
    holds: Mapping[str, str] = field(default_factory=dict)
    batch: Mapping[str, Meaning] = field(default_factory=dict)
    counts: Mapping[str, Means] = field(default_factory=dict)
    key_value: bool = False
    operand: str = ""
    training: frozenset[str] = frozenset()
    train: frozenset[str] = frozenset()
    evaluation: frozenset[str] = frozenset()
    partial: tuple[str, ...] = ()
    variables: frozenset[str] = frozenset()
    remedies: Mapping[Remedy, Sequence[Turn]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trainers:
    """The parsers by name; `started_by` those of a program, module or script (with its subcommand), and what that
    implies; `known_by` the trainer that a flag tells, of each the family that it extends, or itself."""

    parsers: Mapping[str, Parser]
    started_by: Mapping[str, tuple[Parser, Mapping[str, str]]]
    known_by: Mapping[str, str]
    families: Mapping[str, str]
    defaults: Mapping[str, Mapping[str, str]]


def read_trainers(entries: Sequence[Trainer]) -> Trainers:
    """The entries, ready to look up. Raises ValueError where two claim one program, a flag by which one is known is
    another's too, or an entry extends none that is there."""
    by_name = once((one.name, one) for one in entries)
    for one in entries:
        if one.extends and one.extends not in by_name:
            raise ValueError(f"{one.name}: there is no {one.extends!r} to extend")
    parsers = {one.name: _parser(one, by_name.get(one.extends)) for one in entries}
    families = {one.name: one.extends or one.name for one in entries}
    known = once((flag, one.name) for one in entries for flag in spelled(one.known_by, _spelling(one, by_name)))
    for one in entries:
        for flag in _flags(one, by_name):
            if flag in known and families[known[flag]] != families[one.name]:
                raise ValueError(f"{flag}: {known[flag]} is not known by it, {one.name} has it too")
    return Trainers(
        parsers=parsers,
        started_by=once(
            (program, (parsers[one.name], implied)) for one in entries for program, implied in one.trains.items()
        ),
        known_by=known,
        families=families,
        defaults={one.name: one.defaults for one in entries},
    )


def read_formats(entries: Sequence[Format]) -> Mapping[str, Parser]:
    """The entries by name, ready to look up."""
    return once(
        (
            one.name,
            Parser(
                one.name,
                read_settings(one.settings, Spelling.EXACT),
                {},
                one.implies,
                one.holds,
                batch=meanings([one]),
                counts=counts(one, Spelling.EXACT),
                remedies=read_remedies(one.remedies, Spelling.EXACT),
            ),
        )
        for one in entries
    )


def meanings(entries: Iterable[Trainer | Format]) -> Mapping[str, Meaning]:
    """What numbers of a batch mean, by flag or key. Several families may share their accumulation flag, and none its
    micro-batch flag."""
    batches: list[tuple[str, Meaning]] = []
    others: dict[str, Meaning] = {}
    for one in entries:
        beside = one.accumulation[0] if one.accumulation and isinstance(one, Trainer) else ""
        batch = Meaning(Means.MICRO_BATCH, accumulation_flag=beside)
        spelling = Spelling.EXACT
        if isinstance(one, Trainer):
            batch = replace(batch, certain=one.certain, by_launcher=one.by_launcher)
            spelling = one.spelling
        batches.extend((flag, batch) for flag in spelled(one.micro_batch, spelling))
        for meaning, flags in (
            (Meaning(Means.ACCUMULATION), one.accumulation),
            (Meaning(Means.GLOBAL_BATCH), one.global_batch),
            (Meaning(Means.GLOBAL_BATCH, shared=True), one.shared_batch),
        ):
            others.update((flag, meaning) for flag in spelled(flags, spelling))
    return once([*batches, *others.items()])


def counts(one: Trainer | Format, spelling: Spelling) -> Mapping[str, Means]:
    """What numbers of nodes and processes mean, by flag or key."""
    per_node = one.per_node if isinstance(one, Trainer) else ()
    named = {Means.NODES: one.nodes, Means.PER_NODE: per_node, Means.TOTAL: one.total}
    return once((flag, means) for means, flags in named.items() for flag in spelled(flags, spelling))


def read_settings(settings: Settings, spelling: Spelling) -> Mapping[str, Says]:
    """What each flag says. Raises ValueError where two are one flag."""
    return once((flag, _says(text)) for key, text in settings.items() for flag in spelled([key], spelling))


def read_config_files(named: Mapping[str, str], spelling: Spelling) -> Mapping[str, Assigned]:
    """What a file that is not read leaves open, by the flag that names it."""
    return once((flag, _assigned(text)) for key, text in named.items() for flag in spelled([key], spelling))


def read_remedies(remedies: Remedies, spelling: Spelling) -> Mapping[Remedy, Sequence[Turn]]:
    """The remedies, ready to look up."""
    return {
        remedy: tuple(
            Turn(
                tuple(spelled([flag], spelling)),
                {now: (then,) if isinstance(then, str) else then for now, then in words.items()},
            )
            for flag, words in turns.items()
        )
        for remedy, turns in remedies.items()
    }


def _parser(one: Trainer, base: Trainer | None) -> Parser:
    spelling = one.spelling if base is None else base.spelling
    family = [base, one] if base else [one]
    says: dict[str, Says] = {}
    config_files: dict[str, Assigned] = {}
    holds: dict[str, str] = {}
    for entry in family:
        holds.update((flag, what) for key, what in entry.holds.items() for flag in spelled([key], spelling))
        says.update(read_settings(entry.settings, spelling))
        config_files.update(read_config_files(entry.config_files, spelling))

    def every(flags: Iterable[str]) -> frozenset[str]:
        return frozenset(spelled(flags, spelling))

    return Parser(
        name=one.name,
        says=says,
        config_files=config_files,
        implies={},
        holds=holds,
        key_value=any(entry.key_value for entry in family),
        operand=one.operand or (base.operand if base else ""),
        training=every(flag for entry in family for flag in (*_batch(entry), *entry.training)),
        train=every(flag for entry in family for flag in entry.train),
        evaluation=every(flag for entry in family for flag in entry.evaluation),
        partial=tuple(text for entry in family for text in entry.partial),
        variables=frozenset(name for entry in family for name in entry.variables),
        remedies={key: turns for entry in family for key, turns in read_remedies(entry.remedies, spelling).items()},
    )


def _flags(one: Trainer, by_name: Mapping[str, Trainer]) -> Iterable[str]:
    yield from spelled((*_batch(one), *one.settings, *one.config_files), _spelling(one, by_name))


def _batch(one: Trainer) -> Iterator[str]:
    yield from (*one.micro_batch, *one.accumulation, *one.global_batch, *one.shared_batch)


def _spelling(one: Trainer, by_name: Mapping[str, Trainer]) -> Spelling:
    return by_name[one.extends].spelling if one.extends else one.spelling


def _says(text: str | Mapping[str, str]) -> Says:
    return text if isinstance(text, str) else {word: _assigned(assigned) for word, assigned in text.items()}


def _assigned(text: str) -> Assigned:
    setting, _, value = text.partition("=")
    return (setting, value) if setting else None
