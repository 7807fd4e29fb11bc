"""The recipe of a training: what two submissions of it have in common, and what decides its memory."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from functools import cache, lru_cache
from hashlib import sha256
from operator import itemgetter

from webhook.catalog.allocators import Framework, frameworks, frameworks_in
from webhook.catalog.flags import Means
from webhook.catalog.launchers import launchers
from webhook.catalog.volatile import flag_name, is_among, steady, volatile
from webhook.model.job import Program, Reading, TrainingJob
from webhook.model.policy import Evidence
from webhook.model.profile import Allocator, Recipe

# What is hashed, and how: another form is another recipe, so that profiles of the old one are not taken for it.
_FORM = 1
_DIGITS = 20
_MASK = "~"
_LONGEST = 128
_KEY_VALUE = re.compile(r"[+~]{0,2}[A-Za-z_][A-Za-z0-9_.@/-]{0,127}=")
_NUMBER = re.compile(r"-?[0-9]")
_BATCH = frozenset({Means.MICRO_BATCH, Means.ACCUMULATION, Means.GLOBAL_BATCH})


def recipe_of(job: TrainingJob, evidence: Evidence) -> Recipe:
    """The recipe of a job. Names, labels, annotations and the placement of its pods are no part of it, nor are files
    that it reads in its image; the same object gives the same recipe in a file, at admission and while it runs.

    Of a role whose number of pods may change, the least counts: what is shared among ranks is largest then, and the
    number itself is moved by whoever scales it. Pods without devices do not count, nor do devices that hold no rank.
    """
    batch = job.batch
    micro, *others = batch.micro, batch.total, batch.accumulation
    # How often a batch is gone through before a step changes memory only by whether gradients are kept meanwhile.
    known = micro is not None and micro.certain and not micro.share_of
    moves = _names(others) if known else _NONE
    batch_flags = moves | _names([micro, *others])
    programs = dict.fromkeys(_training(job.programs))
    # A variable may hold several arguments (ARGS), so each is taken for a command line of its own.
    told = [(name, Program("", line=tuple(value.split()))) for name, value in sorted(job.memory_settings.items())]
    lines = [(_image(one.image, without_tag=evidence.ignore_image_tag), one) for one in programs]
    read = [(name, _Line(one, moves, batch_flags)) for name, one in (*lines, *told)]
    common = (
        _FORM,
        str(job.kind),
        sorted(_roles(job)),
        sorted((name, steady(said.value)) for name, said in job.told.settings.items()) if job.told else (),
    )
    value = micro.value if micro is not None else None
    gradients_kept = batch.accumulation is not None and batch.accumulation.value > 1
    whole = sorted((name, line.whole) for name, line in read)
    family = sorted((name, line.family) for name, line in read)
    return Recipe(
        digest=_digest((*common, whole, value, gradients_kept)),
        family=_digest((*common, family)),
        micro_batch=value,
        allocator=_allocator(job),
    )


_NONE: frozenset[str] = frozenset()


def _names(readings: Iterable[Reading | None]) -> frozenset[str]:
    return frozenset(flag_name(one.name) for one in readings if one is not None)


def _roles(job: TrainingJob) -> Iterator[tuple[str, str, int, int, str, int]]:
    for one in job.device_roles:
        part = one.requests.get(one.fraction, 0) if one.fraction else 0
        yield one.name, one.device, one.devices, one.gang, one.fraction, part


def _training(programs: Sequence[Program]) -> list[Program]:
    """Those that may train: what launchers start, where there are such; else all but what only prepares."""
    some = [one for one in programs if one.launched]
    if not some:
        preparing = volatile().preparing
        some = [one for one in programs if not one.line or one.line[0].rpartition("/")[2] not in preparing]
    return some or list(programs)


class _Line:
    """The words of a command line without what is volatile: those that belong to no flag, and flags by name, each with
    its value. The `whole` is without the flags in `moves`, the `family` without any that says a batch, these among
    them."""

    __slots__ = ("family", "whole")

    def __init__(self, program: Program, moves: frozenset[str], batch: frozenset[str]) -> None:
        telling = volatile().telling
        line, variable, at = program.line, program.batch, 0
        words: list[str] = []
        family_words: list[str] = []
        flags: list[tuple[str, str]] = []
        family_flags: list[tuple[str, str]] = []
        while at < len(line):
            word, here = line[at], at
            at += 1
            if not _is_flag(word) and not ("=" in word and _KEY_VALUE.match(word)):
                word = steady(word)
                words.append(word)
                family_words.append(_MASK if here in variable else word)
                continue
            flag, equals, value = word.partition("=")
            name, meaning = _meaning(flag) if len(flag) <= _LONGEST else (flag, _Flag.OTHER)
            if meaning is _Flag.SWITCH:
                continue
            if not equals and word[0] == "-" and at < len(line) and not _is_flag(line[at]):
                equals, value, here = " ", line[at], at
            if meaning is _Flag.VOLATILE or name in moves:
                # Behind a flag that has no value, a file is the program's own argument.
                at += equals == " " and not value.endswith(telling)
                continue
            said = (name, steady(value))
            flags.append(said)
            if name not in batch and not (meaning is _Flag.BATCH and (value.isdecimal() or here in variable)):
                family_flags.append((name, _MASK) if here in variable else said)
            at += equals == " "
        # Of one name the order stays: the last counts, or all do.
        flags.sort(key=_BY_NAME)
        family_flags.sort(key=_BY_NAME)
        self.whole = words, flags
        self.family = family_words, family_flags


_BY_NAME = itemgetter(0)


def _is_flag(word: str) -> bool:
    return word[:1] == "-" and len(word) > 1 and not _NUMBER.match(word)


class _Flag(Enum):
    """What is known of a flag: SWITCH and VOLATILE are no part of a recipe, with or without a value of their own."""

    SWITCH = auto()
    VOLATILE = auto()
    BATCH = auto()
    OTHER = auto()


@lru_cache(4096)
def _meaning(flag: str) -> tuple[str, _Flag]:
    """The name by which it is known, and what it is."""
    name, known = flag_name(flag), volatile()
    if is_among(name, known.switches):
        return name, _Flag.SWITCH
    if is_among(name, known.flags):
        return name, _Flag.VOLATILE
    return name, _Flag.BATCH if is_among(name, _batch_flags()) else _Flag.OTHER


@cache
def _batch_flags() -> frozenset[str]:
    """Every flag of any program that says a batch."""
    known = launchers()
    tables = (known.flags, *known.flags_of.values(), *known.flags_where.values())
    return frozenset(
        flag_name(flag.rstrip("=")) for table in tables for flag, meaning in table.items() if meaning.means in _BATCH
    )


def _image(image: str, *, without_tag: bool) -> str:
    if not without_tag:
        return image
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _allocator(job: TrainingJob) -> Allocator:
    """How the job takes memory, where something shows its framework; of several the one that says least of a peak."""
    found = [_as_it_is_told(one, job) for one in _frameworks(job)]
    if Allocator.PREALLOCATING in found:
        return Allocator.PREALLOCATING
    return found[0] if found else Allocator.UNKNOWN


def _as_it_is_told(framework: Framework, job: TrainingJob) -> Allocator:
    told = job.memory_settings
    grows = any(told.get(name) in values for name, values in framework.grows.items())
    return Allocator.CACHING if grows else framework.takes


def _frameworks(job: TrainingJob) -> Iterable[Framework]:
    """What the kind says; where it says nothing, what images, programs and variables show."""
    kind = str(job.kind)
    if by_kind := [one for one in frameworks() if kind in one.kinds]:
        return by_kind
    shown = [one for program in job.programs for one in frameworks_in(program.image)]
    ran = {word.rpartition("/")[2] for program in job.programs for word in program.line[:8]}
    told = job.memory_settings.keys()
    others = (one for one in frameworks() if ran & one.programs or told & {*one.grows, *one.variables})
    return [*shown, *others]


def _digest(content: Sequence[object]) -> str:
    return sha256(_ENCODE(content).encode()).hexdigest()[:_DIGITS]


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
