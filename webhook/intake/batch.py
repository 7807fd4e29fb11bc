"""Micro-batch and gradient accumulation, as flags and environment variables say them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from webhook.catalog.launchers import Meaning, Means, launchers
from webhook.intake.commands import Invocation, Variables
from webhook.intake.words import Listed, Number
from webhook.model.finding import Finding
from webhook.model.job import Batch, Edit, Reading
from webhook.model.paths import dotted
from webhook.model.placement import Pointer

_NUMBER = re.compile(r"0{0,9}[1-9]\d{0,9}\Z", re.ASCII)
_LARGEST = 1 << 31


class Seen(NamedTuple):
    """A number as a flag or variable gives it."""

    meaning: Meaning
    number: Number
    value: int

    def reading(self, container: Pointer, edit: Edit) -> Reading:
        """The number with its place; `container` stands in where the number is in no string of the object."""
        where = dotted(self.number.at_path or container)
        return Reading(self.value, where, self.number.name, self.meaning.certain, edit)


class Sighting(NamedTuple):
    """What one program of one container is told."""

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
    told = [_flags(one) for one in launched] or [{}]
    variables = [one.environment for one in launched] or [environment]
    seen = [
        Sighting(container, micro, known.get(Means.ACCUMULATION), known.get(Means.GLOBAL_BATCH))
        for flags, variable in zip(told, variables, strict=True)
        if (known := _with_variables(flags, variable)) and (micro := known.get(Means.MICRO_BATCH))
    ]
    return [one for one in seen if one.micro.meaning.certain] or seen


def read_batch(seen: Sequence[Sighting], declared: Reading | None) -> tuple[Batch, tuple[Finding, ...]]:
    """The batch of the whole job: the largest micro-batch where containers differ, with a change that reaches all."""
    if not seen:
        return Batch(declared=declared), ()
    first = max(seen, key=lambda one: (one.micro.value, one.micro.meaning.certain))
    others = [one for one in seen if one is not first]
    edit = _with_others(first.micro.number.edit, [one.micro.number.edit() for one in others])
    micro = first.micro.reading(first.container, edit)
    accumulation, accumulation_edit = None, _accumulation_edit(first, others)
    if first.accumulation is not None:
        change = accumulation_edit or Edit(first.accumulation.number.name, None)
        accumulation = first.accumulation.reading(first.container, change)
    if declared is not None and declared.edit is not None:
        # What is declared has to say what the program is told: neither is changed without the other.
        also = (replace(edit, also=()), *edit.also)
        own = Edit(declared.edit.flag, None) if edit.path is None else replace(declared.edit, also=also)
        declared = replace(declared, edit=own)
    batch = Batch(
        declared=declared,
        micro=micro,
        accumulation=accumulation,
        accumulation_flag=accumulation.name if accumulation else first.micro.meaning.accumulation_flag.rstrip("="),
        accumulation_edit=accumulation_edit,
        total=first.total.reading(first.container, first.total.number.edit()) if first.total else None,
    )
    return batch, tuple(_disagreements(seen, micro, declared))


def _flags(invocation: Invocation) -> dict[Means, Seen | None]:
    """The flags of one program; None for one whose value is no number. Where one is there twice the last counts, as in
    argparse."""
    known = launchers()
    table: Mapping[str, Meaning] = known.flags
    for name in (invocation.program, *(launch.name for launch in invocation.launches)):
        table = known.flags_of.get(name, table)
    last: dict[Means, tuple[Meaning, Number]] = {}
    words = invocation.words
    texts = words.texts
    for index in range(invocation.start, len(texts)):
        text = texts[index]
        meaning = table.get(text)
        if meaning is not None and text[-1] != "=":
            number = Number(text, words, index + 1, 0)
        elif "=" in text:
            flag = text[: text.index("=") + 1]
            # Hydra's "+" and "++" add a key or override it.
            name = flag[:-1] if text[0] == "-" else flag.lstrip("+")
            meaning = table.get(name)
            if meaning is None:
                continue
            number = Number(name, words, index, len(flag))
        else:
            continue
        before = last.get(meaning.means)
        if before is None or meaning.certain or not before[0].certain:
            last[meaning.means] = (meaning, number)
    return {means: _seen(meaning, number) for means, (meaning, number) in last.items()}


def _seen(meaning: Meaning, number: Number) -> Seen | None:
    value = _number(number.text) if number.at < len(number.words.texts) else None
    return None if value is None else Seen(meaning, number, value)


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


def _accumulation_edit(first: Sighting, others: Sequence[Sighting]) -> Edit | None:
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
        whole = replace(whole, also=tuple(places.values()))
    return whole


def _disagreements(seen: Sequence[Sighting], micro: Reading, declared: Reading | None) -> Iterator[Finding]:
    values = sorted({one.micro.value for one in seen}, reverse=True)
    if len(values) > 1:
        told = ", ".join(map(str, values[:5]))
        problem = f"{micro.field}: micro-batches differ: {told}; {micro.value} is taken"
        yield Finding("SST103", micro.field, {"problem": problem, "values": told, "taken": micro.value})
    if declared is not None and micro.certain and declared.value != micro.value:
        problem = f"{declared.name} says {declared.value}, {micro.name} says {micro.value}"
        yield Finding("SST103", declared.field, {"problem": problem, "values": f"{declared.value}, {micro.value}"})
