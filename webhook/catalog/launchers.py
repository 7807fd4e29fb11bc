"""Launchers, wrappers and flags: which words of a command line mean nodes, processes and batch (launchers.yaml)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from webhook.catalog.flags import Spelling, once, spelled
from webhook.catalog.trainers import (
    Assignment,
    Parser,
    Settings,
    Trainer,
    Trainers,
    read_config_files,
    read_settings,
    read_trainers,
)

_CONFIG = ConfigDict(alias_generator=to_camel, extra="forbid")
_Names = tuple[Annotated[str, Field(min_length=1)], ...]
_Programs = Annotated[_Names, Field(min_length=1)]


class Means(StrEnum):
    """What a number on a command line is."""

    NODES = "nodes"
    PER_NODE = "perNode"
    TOTAL = "total"
    MICRO_BATCH = "microBatch"
    ACCUMULATION = "accumulation"
    GLOBAL_BATCH = "globalBatch"


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
    implies: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    config_files: Mapping[str, Assignment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """A launcher's options, ready to look up: what a flag's value means, and how many values a flag has."""

    name: str
    subcommand: str
    means: Mapping[str, Means]
    values: Mapping[str, int]
    others: int
    one_node: frozenset[str]
    elsewhere: frozenset[str]


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
class Evaluation:
    """Programs that do not train."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    programs: frozenset[str]
    source: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a flag or variable says; `accumulation_flag` is how accumulation is spelled beside it, empty if unknown."""

    means: Means
    certain: bool = True
    accumulation_flag: str = ""


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
    those of any program, `flags_of` those of one program, module or launcher together with any program's.
    `environment` keeps the order in which variables count. The two sets are the names of all variables, to see at once
    that none of them is set. `launcher_settings` is what a launcher of that name says of memory; `evaluation` are
    programs that do not train.
    """

    wrappers: Mapping[str, Wrapper]
    programs: Mapping[str, Options]
    modules: Mapping[str, Options]
    rendezvous: Rendezvous
    flags: Mapping[str, Meaning]
    flags_of: Mapping[str, Mapping[str, Meaning]]
    environment: Mapping[str, Meaning]
    environment_names: frozenset[str]
    rendezvous_names: frozenset[str]
    trainers: Trainers
    launcher_settings: Mapping[str, Parser]
    evaluation: frozenset[str]


def read_launchers(text: str) -> Launchers:
    """The catalog written in this YAML. Raises pydantic's ValidationError, or ValueError where two entries claim one
    program or flag."""
    file = TypeAdapter(_File).validate_python(yaml.safe_load(text))
    options = [(one, _options(one)) for one in file.launchers]
    common = _meanings(one for one in file.trainers if not one.programs)
    own = once((program, one) for one in file.trainers for program in one.programs)
    rendezvous = file.rendezvous
    environment = once(_variables(file.environment))
    return Launchers(
        wrappers=once((program, one) for one in file.wrappers for program in one.programs),
        programs=once((program, ready) for one, ready in options for program in one.programs),
        modules=once((module, ready) for one, ready in options for module in one.modules),
        rendezvous=rendezvous,
        flags=common,
        flags_of=once((program, {**common, **_meanings([one])}) for program, one in own.items()),
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
            )
            for one in file.launchers
            if one.settings or one.config_files or one.implies
        },
        evaluation=file.evaluation.programs if file.evaluation else frozenset(),
    )


@cache
def launchers() -> Launchers:
    """The catalog that comes with the package."""
    return read_launchers(files(__package__).joinpath("launchers.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    wrappers: tuple[Wrapper, ...]
    launchers: tuple[Launcher, ...]
    rendezvous: Rendezvous
    trainers: tuple[Trainer, ...]
    environment: Environment
    evaluation: Evaluation | None = None


def _options(one: Launcher) -> Options:
    means = {Means.NODES: one.nodes, Means.PER_NODE: one.per_node, Means.TOTAL: one.total}
    counts = {0: one.one_node + one.switches, 1: one.takes, 2: one.takes_two}
    return Options(
        name=one.name,
        subcommand=one.subcommand,
        means=once((flag, what) for what, flags in means.items() for flag in spelled(flags, one.spelling)),
        values=once(
            [(flag, count) for count, flags in counts.items() for flag in spelled(flags, one.spelling)]
            + [(flag, 1) for flag in spelled(one.nodes + one.per_node + one.total + one.elsewhere, one.spelling)]
        ),
        others=one.others,
        one_node=frozenset(spelled(one.one_node, one.spelling)),
        elsewhere=frozenset(spelled(one.elsewhere, one.spelling)),
    )


def _meanings(trainers: Iterable[Trainer]) -> Mapping[str, Meaning]:
    """Flags with their meaning. Several families may share their accumulation flag, and none its micro-batch flag."""
    batches: list[tuple[str, Meaning]] = []
    others: dict[str, Meaning] = {}
    for one in trainers:
        beside = one.accumulation[0] if one.accumulation else ""
        batch = Meaning(Means.MICRO_BATCH, certain=one.certain, accumulation_flag=beside)
        batches.extend((flag, batch) for flag in spelled(one.micro_batch, one.spelling))
        for means, flags in ((Means.ACCUMULATION, one.accumulation), (Means.GLOBAL_BATCH, one.global_batch)):
            others.update((flag, Meaning(means)) for flag in spelled(flags, one.spelling))
    return once([*batches, *others.items()])


def _variables(known: Environment) -> Iterator[tuple[str, Meaning]]:
    yield from ((name, Meaning(Means.MICRO_BATCH)) for name in known.micro_batch)
    yield from ((name, Meaning(Means.MICRO_BATCH, certain=False)) for name in known.uncertain)
    yield from ((name, Meaning(Means.ACCUMULATION)) for name in known.accumulation)
    yield from ((name, Meaning(Means.GLOBAL_BATCH)) for name in known.global_batch)
