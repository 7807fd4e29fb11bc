"""Launchers, wrappers and flags: which words of a command line mean nodes, processes and batch (launchers.yaml)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from webhook.catalog.flags import Meaning, Means, Spelling, once, spelled
from webhook.catalog.trainers import (
    OWN,
    Assignment,
    Format,
    Parser,
    Remedies,
    Settings,
    Trainer,
    Trainers,
    counts,
    meanings,
    read_config_files,
    read_formats,
    read_remedies,
    read_settings,
    read_trainers,
)
from webhook.model.job import Coupling

_CONFIG = ConfigDict(alias_generator=to_camel, extra="forbid")
_Names = tuple[Annotated[str, Field(min_length=1)], ...]
_NO = frozenset({"", "0", "1", "false", "no", "none", "off"})
_Programs = Annotated[_Names, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that runs another program, which follows its options and operands."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    programs: _Programs
    subcommand: str = ""
    takes: frozenset[str] = frozenset()
    operands: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True)
class Launcher:
    """A program that starts the processes of a job."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    programs: _Programs
    others: Literal[0, 1]
    source: str
    subcommand: str = ""
    modules: _Names = ()
    spelling: Spelling = Spelling.EXACT
    nodes: _Names = ()
    per_node: _Names = ()
    total: _Names = ()
    one_node: _Names = ()
    elsewhere: _Names = ()
    switches: _Names = ()
    takes: _Names = ()
    takes_two: _Names = ()
    accumulation: _Names = ()
    per_process: bool = False
    implies: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    config_files: Mapping[str, Assignment] = field(default_factory=dict)
    holds: Mapping[str, str] = field(default_factory=dict)
    remedies: Remedies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """A launcher's options, ready to look up: what a flag's value means, and how many values a flag has. `per_process`:
    it starts a process for each device; `holds` is what the files that flags name hold."""

    name: str
    subcommand: str
    means: Mapping[str, Means]
    values: Mapping[str, int]
    others: int
    one_node: frozenset[str]
    elsewhere: frozenset[str]
    per_process: bool
    holds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Environment variables from which processes learn of one another."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    nodes: _Names
    per_node: _Names
    total: _Names
    address: _Names
    local: frozenset[str]
    source: str


@dataclass(frozen=True, slots=True)
class Strategy:
    """Flags and variables that say how ranks work together: by one of `values`, or a longer one, or by any."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    coupling: Coupling
    source: str
    flags: _Names = ()
    variables: _Names = ()
    values: _Names = ()

    def is_meant_by(self, value: str) -> bool:
        """Whether this value of a flag means it."""
        return value.startswith(self.values) if self.values else value.casefold() not in _NO


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Programs that do not train."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    programs: frozenset[str]
    source: str


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment variables whose name says what they hold; `uncertain` ones hold a micro-batch or a global one."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    micro_batch: _Names
    uncertain: _Names
    accumulation: _Names
    global_batch: _Names
    source: str


@dataclass(frozen=True, slots=True)
class Launchers:
    """The catalog, ready to look up.

    `wrappers` and `programs` are keyed by a program's base name, `modules` by what follows `python -m`. `flags` are
    those of any program, `flags_of` those of one program, module or launcher together with any program's, `flags_where`
    those that count where this flag stands beside them; `counts` and `counts_of` are flags of nodes and processes.
    `formats` are configuration files by name, `holds` the flags of any program that name one.
    `environment` keeps the order in which variables count. The two sets are the names of all variables, to see at once
    that none of them is set. `launcher_settings` is what a launcher of that name says of memory; `evaluation` are
    programs that do not train; `strategies` are by flag and by variable.
    """

    wrappers: Mapping[str, Wrapper]
    programs: Mapping[str, Options]
    modules: Mapping[str, Options]
    rendezvous: Rendezvous
    flags: Mapping[str, Meaning]
    flags_of: Mapping[str, Mapping[str, Meaning]]
    flags_where: Mapping[str, Mapping[str, Meaning]]
    counts: Mapping[str, Means]
    counts_of: Mapping[str, Mapping[str, Means]]
    formats: Mapping[str, Parser]
    holds: Mapping[str, str]
    environment: Mapping[str, Meaning]
    environment_names: frozenset[str]
    rendezvous_names: frozenset[str]
    trainers: Trainers
    launcher_settings: Mapping[str, Parser]
    evaluation: frozenset[str]
    strategies: Mapping[str, Sequence[Strategy]]
    strategy_variables: Mapping[str, Strategy]


def read_launchers(text: str, configs: str = "[]") -> Launchers:
    """The catalog written in this YAML, and that of configuration files. Raises pydantic's ValidationError, or
    ValueError where two entries claim one program or flag, or a file holds a format that is not there."""
    file = TypeAdapter(_File).validate_python(yaml.safe_load(text))
    formats = read_formats(TypeAdapter(list[Format]).validate_python(yaml.safe_load(configs)))
    options = [(one, _options(one)) for one in file.launchers]
    everybody = [one for one in file.trainers if not one.own]
    common, common_counts = meanings(everybody), _counts(everybody)
    own = once((program, one) for one in file.trainers for program in one.programs)
    told = once((flag, one) for one in file.trainers for flag in spelled(one.where, one.spelling))
    rendezvous = file.rendezvous
    environment = once(_variables(file.environment))
    return Launchers(
        wrappers=once((program, one) for one in file.wrappers for program in one.programs),
        programs=once((program, ready) for one, ready in options for program in one.programs),
        modules=once((module, ready) for one, ready in options for module in one.modules),
        rendezvous=rendezvous,
        flags=common,
        flags_of=once((program, {**common, **meanings([one])}) for program, one in own.items()),
        flags_where=once((flag, {**common, **meanings([one])}) for flag, one in told.items()),
        counts=common_counts,
        counts_of=once((program, {**common_counts, **_counts([one])}) for program, one in own.items()),
        formats=formats,
        holds=_held(file, formats),
        environment=environment,
        environment_names=frozenset(environment),
        rendezvous_names=frozenset(rendezvous.nodes + rendezvous.per_node + rendezvous.total + rendezvous.address),
        trainers=read_trainers(file.trainers),
        launcher_settings={
            one.name: Parser(
                one.name,
                read_settings(one.settings, one.spelling),
                read_config_files(one.config_files, one.spelling),
                one.implies,
                _spelled(one.holds, one.spelling),
                remedies=read_remedies(one.remedies, one.spelling),
            )
            for one in file.launchers
            if one.settings or one.config_files or one.implies
        },
        evaluation=file.evaluation.programs if file.evaluation else frozenset(),
        strategies=_strategies(file.strategies),
        strategy_variables=once((name, one) for one in file.strategies for name in one.variables),
    )


@cache
def launchers() -> Launchers:
    """The catalog that comes with the package."""
    here = files(__package__)
    return read_launchers(
        here.joinpath("launchers.yaml").read_text(encoding="utf-8"),
        here.joinpath("configs.yaml").read_text(encoding="utf-8"),
    )


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    wrappers: tuple[Wrapper, ...]
    launchers: tuple[Launcher, ...]
    rendezvous: Rendezvous
    trainers: tuple[Trainer, ...]
    environment: Environment
    evaluation: Evaluation | None = None
    strategies: tuple[Strategy, ...] = ()


def _options(one: Launcher) -> Options:
    means = {
        Means.NODES: one.nodes,
        Means.PER_NODE: one.per_node,
        Means.TOTAL: one.total,
        Means.ACCUMULATION: one.accumulation,
    }
    taken = {0: one.one_node + one.switches, 1: one.takes, 2: one.takes_two}
    return Options(
        name=one.name,
        subcommand=one.subcommand,
        means=once((flag, what) for what, flags in means.items() for flag in spelled(flags, one.spelling)),
        values=once(
            [(flag, count) for count, flags in taken.items() for flag in spelled(flags, one.spelling)]
            + [(flag, 1) for flags in (*means.values(), one.elsewhere) for flag in spelled(flags, one.spelling)]
        ),
        others=one.others,
        one_node=frozenset(spelled(one.one_node, one.spelling)),
        elsewhere=frozenset(spelled(one.elsewhere, one.spelling)),
        per_process=one.per_process,
        holds=_spelled(one.holds, one.spelling),
    )


def _strategies(strategies: Iterable[Strategy]) -> Mapping[str, Sequence[Strategy]]:
    found: dict[str, list[Strategy]] = {}
    for one in strategies:
        for flag in spelled(one.flags, Spelling.BOTH):
            found.setdefault(flag, []).append(one)
    return found


def _counts(trainers: Iterable[Trainer]) -> Mapping[str, Means]:
    """Flags of nodes and processes; families may share one."""
    return {flag: means for one in trainers for flag, means in counts(one, one.spelling).items()}


def _spelled(named: Mapping[str, str], spelling: Spelling) -> Mapping[str, str]:
    return once((flag, what) for key, what in named.items() for flag in spelled([key], spelling))


def _held(file: _File, formats: Mapping[str, Parser]) -> Mapping[str, str]:
    """Flags of trainers that name a file of a format, whatever program takes them. Raises ValueError where a file holds
    what is not there, or two families say different things of one flag."""
    every = [one.holds for one in file.trainers] + [one.holds for one in file.launchers]
    for holds in (*every, *(one.holds for one in formats.values())):
        for flag, what in holds.items():
            if what != OWN and what not in formats:
                raise ValueError(f"{flag}: there is no format {what!r}")
    found: dict[str, str] = {}
    for trainer in file.trainers:
        for flag, what in _spelled(trainer.holds, trainer.spelling).items():
            if what != OWN and found.setdefault(flag, what) != what:
                raise ValueError(f"{flag}: holds {what!r} and {found[flag]!r}")
    return found


def _variables(known: Environment) -> Iterator[tuple[str, Meaning]]:
    yield from ((name, Meaning(Means.MICRO_BATCH)) for name in known.micro_batch)
    yield from ((name, Meaning(Means.MICRO_BATCH, certain=False)) for name in known.uncertain)
    yield from ((name, Meaning(Means.ACCUMULATION)) for name in known.accumulation)
    yield from ((name, Meaning(Means.GLOBAL_BATCH)) for name in known.global_batch)
