"""Micro-batch and gradient accumulation, as flags and environment variables say them."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from webhook.catalog.flags import Meaning, Means
from webhook.catalog.launchers import launchers
from webhook.intake.commands import Invocation, Variables
from webhook.intake.trainer import launched_with
from webhook.intake.words import Listed, Number
from webhook.model.finding import Facts, Finding
from webhook.model.job import Batch, Edit, Reading, Told
from webhook.model.paths import dotted
from webhook.model.placement import Pointer

_NUMBER = re.compile(r"0{0,9}[1-9]\d{0,9}\Z", re.ASCII)
_LARGEST = 1 << 31
_MODEL_PARALLEL = ("tensorParallel", "pipelineParallel", "contextParallel")


class Seen(NamedTuple):
    """A number as a flag, a variable or a configuration file gives it; of a micro-batch that is the share of a global
    one, `share_of` is that one."""

    meaning: Meaning
    number: Number
    value: int
    share_of: int = 0

    def reading(self, container: Pointer, edit: Callable[[], Edit | None]) -> Reading:
        """The number with its place; `container` stands in where the number is in no string of the object."""
        at = self.number.at_path
        where = dotted(at) if at else self.number.where or dotted(container)
        return Reading(self.value, where, self.number.name, self.meaning.certain, edit, self.share_of)

    def moved(self, here: Pointer, there: Pointer) -> "Seen":
        """The same, told a second time: below `there` as it is below `here`."""
        return self._replace(number=self.number.moved(here, there))

    def edit(self, *, also: tuple[Edit, ...] = ()) -> Edit:
        """How to change the number; a share is not written anywhere."""
        return Edit(self.number.name, None) if self.share_of else self.number.edit(also=also)


class Sighting(NamedTuple):
    """What one program of one container is told; `micro` None: only a global batch."""

    container: Pointer
    micro: Seen | None
    accumulation: Seen | None
    total: Seen | None

    def moved(self, here: Pointer, there: Pointer) -> "Sighting":
        """The same, told a second time: below `there` as it is below `here`."""
        return Sighting(
            (*there, *self.container[len(here) :]),
            self.micro and self.micro.moved(here, there),
            self.accumulation and self.accumulation.moved(here, there),
            self.total and self.total.moved(here, there),
        )


class _Told(NamedTuple):
    """A sighting whose micro-batch is known."""

    container: Pointer
    micro: Seen
    accumulation: Seen | None
    total: Seen | None


def sightings(found: Sequence[Invocation], environment: Variables, container: Pointer) -> list[Sighting]:
    """What the programs of one container are told of the batch.

    Where a launcher starts some of them, the others are preparation; and a flag that is per device for certain is worth
    more than one that may not be.
    """
    launched = [one for one in found if one.launches] or found
    told = [(_told(one), one.environment) for one in launched] or [({}, environment)]
    seen: list[Sighting] = []
    for flags, variables in told:
        known = _with_variables(flags, variables)
        micro, total = known.get(Means.MICRO_BATCH), known.get(Means.GLOBAL_BATCH)
        if micro or (total and total.meaning.shared):
            seen.append(Sighting(container, micro, known.get(Means.ACCUMULATION), total))
    return [one for one in seen if one.micro is None or one.micro.meaning.certain] or seen


def read_batch(
    seen: Sequence[Sighting],
    declared: Reading | None,
    told: Callable[[], Told | None] = lambda: None,
    devices: int = 0,
) -> tuple[Batch, tuple[Finding, ...]]:
    """The batch of the whole job: the largest micro-batch where containers differ, with a change that reaches all.

    `devices` of the job and what its trainer is told of tensor, pipeline and context parallelism give the share that a
    device takes of a global batch, where no micro-batch is told; with 0 devices none is computed, and nobody asks
    `told`.
    """
    known = [
        _Told(one.container, read, one.accumulation, one.total)
        for one in seen
        if (read := one.micro or _share(one, told, devices))
    ]
    if not known:
        return Batch(declared=declared), ()
    first = max(known, key=lambda one: (one.micro.value, one.micro.meaning.certain))
    others = [one for one in known if one is not first]
    edit, accumulation_edit = partial(_edit, first, others), partial(_accumulation_edit, first, others)
    micro = first.micro.reading(first.container, edit)
    accumulation = first.accumulation and first.accumulation.reading(first.container, accumulation_edit)
    if declared is not None:
        declared = replace(declared, edit=partial(_declared_edit, declared, edit))
    batch = Batch(
        declared=declared,
        micro=micro,
        accumulation=accumulation,
        accumulation_flag=accumulation.name if accumulation else first.micro.meaning.accumulation_flag.rstrip("="),
        accumulation_edit=accumulation_edit,
        total=first.total and first.total.reading(first.container, first.total.edit),
    )
    return batch, tuple(_disagreements(known, micro, declared))


def _share(one: Sighting, told: Callable[[], Told | None], devices: int) -> Seen | None:
    """What each device takes of a global batch in one pass, rounded up."""
    if one.total is None or not one.total.meaning.shared or not devices:
        return None
    trainer = told()
    settings = trainer.settings if trainer else {}
    sizes = [_number(settings[name].value) or 1 for name in _MODEL_PARALLEL if name in settings]
    replicas = max(devices // math.prod(sizes), 1)
    passes = one.accumulation.value if one.accumulation else 1
    meaning = replace(one.total.meaning, means=Means.MICRO_BATCH)
    return Seen(meaning, one.total.number, -(-one.total.value // (replicas * passes)), one.total.value)


def _told(invocation: Invocation) -> dict[Means, Seen | None]:
    """The flags of one program, and what they do not say from the configuration files that it is told of, and from its
    launchers."""
    table = _table(invocation)
    found = _flags(invocation, table)
    for read in (*invocation.configurations.values(), *launched_with(invocation).values()):
        for one in read:
            for meaning, number in one.numbers(one.parser.batch if one.parser else table):
                if meaning.means not in found and (seen := _seen(meaning, number, invocation)):
                    found[meaning.means] = seen
    for launch in invocation.launches:
        for means, number in launch.given:
            if means is Means.ACCUMULATION and means not in found:
                found[means] = _seen(Meaning(means), number, invocation)
    return found


def _table(invocation: Invocation) -> Mapping[str, Meaning]:
    """What flags mean to this program."""
    known = launchers()
    table = known.flags_of.get(invocation.program, known.flags)
    for launch in invocation.launches:
        table = known.flags_of.get(launch.name, table)
    own = known.flags_where.keys() & invocation.flags.keys() if table is known.flags else ()
    return known.flags_where[min(own)] if own else table


def _flags(invocation: Invocation, table: Mapping[str, Meaning]) -> dict[Means, Seen | None]:
    """The flags of one program; None for one whose value is no number. Where one is there twice the last counts, as in
    argparse."""
    last: dict[Means, tuple[Meaning, Number]] = {}
    for flag in sorted(table.keys() & invocation.flags.keys(), key=invocation.flags.__getitem__):
        meaning = table[flag]
        before = last.get(meaning.means)
        if before is None or meaning.certain or not before[0].certain:
            last[meaning.means] = (meaning, invocation.number(flag))
    return {means: _seen(meaning, number, invocation) for means, (meaning, number) in last.items()}


def _seen(meaning: Meaning, number: Number, invocation: Invocation) -> Seen | None:
    """The number, where it is one; a launcher that starts a process for each device settles what it counts."""
    value = _number(number.text)
    if value is None:
        return None
    if meaning.by_launcher and any(launch.per_process for launch in invocation.launches):
        meaning = replace(meaning, certain=True)
    return Seen(meaning, number, value)


def _with_variables(flags: Mapping[Means, Seen | None], variables: Variables) -> Mapping[Means, Seen | None]:
    """The flags, and from the environment what they do not say; of variables the first in the catalog counts."""
    if not variables.sets_any(launchers().environment_names):
        return flags
    found = dict(flags)
    for name, meaning in launchers().environment.items():
        if meaning.means not in found and (word := variables.get(name)) and (value := _number(word.text)):
            found[meaning.means] = Seen(meaning, Number(f"{name}=", Listed([word]), 0, 0), value)
    return found


def _number(text: str) -> int | None:
    """A whole number above zero; None for "auto", for a huge one, and for anything else."""
    value = int(text) if _NUMBER.match(text) else 0
    return value if 0 < value <= _LARGEST else None


def _edit(first: _Told, others: Sequence[_Told]) -> Edit:
    """What sets the micro-batch everywhere."""
    return _with_others(first.micro.edit, [one.micro.edit() for one in others])


def _declared_edit(declared: Reading, told: Callable[[], Edit]) -> Edit | None:
    """What is declared has to say what the program is told: neither is changed without the other."""
    own, edit = declared.edit(), told()
    if own is None or edit.path is None:
        return own and Edit(own.flag, None)
    return own._replace(also=(edit._replace(also=()), *edit.also))


def _accumulation_edit(first: _Told, others: Sequence[_Told]) -> Edit | None:
    """What sets accumulation everywhere: the flags that are there, or new ones behind each micro-batch."""
    numbers = [one.accumulation.number for one in others if one.accumulation is not None]
    if first.accumulation is not None:
        whole = len(numbers) == len(others)
        return _with_others(first.accumulation.number.edit, [one.edit() for one in numbers]) if whole else None
    if numbers or not all(one.micro.meaning.accumulation_flag for one in (first, *others)):
        return None
    return _with_others(
        partial(first.micro.number.insertion, first.micro.meaning.accumulation_flag),
        [one.micro.number.insertion(one.micro.meaning.accumulation_flag) for one in others],
    )


def _with_others(edit: Callable[..., Edit], others: Sequence[Edit]) -> Edit:
    """An edit with others as its companions, each place once; one that no patch can reach takes the whole its place."""
    places = {(one.path, len(one.prefix)): one for one in others}
    whole = edit(also=tuple(places.values()))
    if any(one.path is None for one in others):
        return Edit(whole.flag, None, sign=whole.sign)
    if places.pop((whole.path, len(whole.prefix)), None):
        whole = whole._replace(also=tuple(places.values()))
    return whole


def _disagreements(seen: Sequence[_Told], micro: Reading, declared: Reading | None) -> Iterator[Finding]:
    values = sorted({one.micro.value for one in seen}, reverse=True) if len(seen) > 1 else ()
    if len(values) > 1:
        told = ", ".join(map(str, values[:5]))
        facts: Facts = {"field": micro.field, "told": told, "taken": micro.value}
        yield Finding("SST103", micro.field, facts, "batches")
    if declared is None and not micro.certain:
        yield Finding("SST103", micro.field, {"name": micro.name, "taken": micro.value}, "batch-of-all")
    if declared is not None and micro.certain and declared.value != micro.value:
        said: Facts = {"one": declared.name, "first": declared.value, "other": micro.name, "second": micro.value}
        yield Finding("SST103", declared.field, said, "declared")
