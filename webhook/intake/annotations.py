"""The `samestep.dev/` annotations of a submitter."""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple, TypeVar

import orjson

from webhook.intake.fields import mapping, shown
from webhook.model.finding import Facts, Finding, Phrase
from webhook.model.frozen import frozen
from webhook.model.job import Coupling, DeclaredMemory, Edit, PinRecord, Reading, Wishes
from webhook.model.paths import dotted, printable
from webhook.model.quantity import KIBI, MEBI, QuantityError, units
from webhook.model.request import Object

PREFIX = "samestep.dev/"

_WISHES = frozenset({"model", "pool", "sized-for", "ignore", "allow-mixed"})
_KEYS = _WISHES | {"memory-per-device", "memory-fixed", "memory-per-sample", "micro-batch", "coupling", "pinned"}
_COUPLINGS = {
    one.value: one
    for one in (
        Coupling.SYNCHRONOUS,
        Coupling.INDEPENDENT,
        Coupling.ASYNCHRONOUS,
        Coupling.HETEROGENEITY_AWARE,
    )
}
_A_SIZE = Phrase("quantity_with_unit")
_A_COUPLING = Phrase("one_of", {"values": ", ".join(_COUPLINGS)})
_A_REASON = Phrase("reason")
# A label value, with the spaces that people write between the words of a product.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?\Z", re.ASCII)
_NUMBER = re.compile(r"0{0,9}[1-9]\d{0,9}\Z", re.ASCII)
_LARGEST = 1 << 31
_A_BATCH = Phrase("number", {"low": 1, "high": _LARGEST})
_LONGEST_RECORD = 4096
_LONGEST_REASON = 256
_MOST_UNKNOWN = 3
_UNDECLARED = DeclaredMemory()
_NO_WISHES = Wishes()
_Value = TypeVar("_Value")


@frozen
class Annotations:
    """What they say, and findings for those that cannot be read."""

    declared: DeclaredMemory = _UNDECLARED
    micro_batch: Reading | None = None
    coupling: Coupling | None = None
    wishes: Wishes = _NO_WISHES
    record: PinRecord | None = None
    given: str = ""
    are_a_map: bool = False
    findings: tuple[Finding, ...] = ()


def read_annotations(metadata: Object) -> Annotations:
    """Ours among metadata.annotations: SST106 for each that cannot be read, SST101 for keys that we do not know, SST103
    where two say the same. Raises Unreadable where annotations are no map."""
    present: Mapping[Any, object] = mapping(metadata, "annotations", ("metadata",))
    ours = {
        key.removeprefix(PREFIX): value
        for key, value in present.items()
        if isinstance(key, str) and key.startswith(PREFIX)
    }
    are_a_map = isinstance(metadata.get("annotations"), dict)
    if not ours:
        return Annotations(are_a_map=are_a_map)
    reader = _Reader(ours)
    memory = DeclaredMemory(
        reader.read("memory-per-device", _mebibytes, _A_SIZE),
        reader.read("memory-fixed", _mebibytes, _A_SIZE),
        reader.read("memory-per-sample", _mebibytes_per_sample, _A_SIZE),
    )
    batch = reader.read("micro-batch", _number, _A_BATCH)
    coupling = reader.read("coupling", _COUPLINGS.get, _A_COUPLING)
    wishes = _NO_WISHES if _WISHES.isdisjoint(ours) else _wishes(reader)
    recorded = _recorded(ours.get("pinned"))
    return Annotations(
        declared=memory,
        micro_batch=None if batch is None else _reading(str(ours["micro-batch"]), batch),
        coupling=coupling,
        wishes=wishes,
        record=_record(recorded),
        given=_given(recorded),
        are_a_map=are_a_map,
        findings=(*reader.findings, *_contradiction(memory), *_unknown(ours)),
    )


def _wishes(reader: "_Reader") -> Wishes:
    sized_for = reader.read("sized-for", _model_or_memory, Phrase("model_or_memory"))
    return Wishes(
        model=reader.read("model", _name, Phrase("model")) or "",
        pool=reader.read("pool", _name, Phrase("pool")) or "",
        sized_for=sized_for.value if sized_for else None,
        ignore=reader.read("ignore", _reason, _A_REASON) or "",
        allow_mixed=reader.read("allow-mixed", _reason, _A_REASON) or "",
    )


class _Reader:
    def __init__(self, ours: Object) -> None:
        self._ours = ours
        self.findings: list[Finding] = []

    def read(self, name: str, parse: Callable[[str], _Value | None], expected: Phrase) -> _Value | None:
        """The annotation of that name as `parse` has it, which gives nothing for what it cannot read."""
        written = self._ours.get(name)
        if written is None:
            return None
        value = parse(written) if isinstance(written, str) else None
        if not value:
            facts: Facts = {"annotation": f"{PREFIX}{name}", "expected": expected, "got": shown(written)}
            self.findings.append(Finding("SST106", _where(name), facts))
            return None
        return value


def _mebibytes(text: str) -> float | None:
    return _at_least(MEBI, text)


def _mebibytes_per_sample(text: str) -> float | None:
    return _at_least(KIBI, text)


def _at_least(least: int, text: str) -> float | None:
    """Less than that, in bytes, cannot be meant: who writes "44000" has read MiB off nvidia-smi."""
    try:
        size = units(text)
    except QuantityError:
        return None
    return size / MEBI if size >= least else None


def _name(text: str) -> str | None:
    name = text.strip()
    return name if _NAME.match(name) else None


class _Tuned(NamedTuple):
    value: str | float


def _model_or_memory(text: str) -> _Tuned | None:
    """A bare number ("4090") is no memory of a device but what people call one."""
    try:
        size = units(text)
    except QuantityError:
        size = 1
    if size >= MEBI:
        return _Tuned(size / MEBI)
    name = _name(text) if size > 0 else None
    return _Tuned(name) if name else None


def _reason(text: str) -> str | None:
    return text.strip()[:_LONGEST_REASON] or None


def _number(text: str) -> int | None:
    value = int(text) if _NUMBER.match(text) else 0
    return value if value <= _LARGEST else None


def _reading(written: str, value: int) -> Reading:
    key = f"{PREFIX}micro-batch"
    return Reading(value, _where("micro-batch"), key, edit=partial(_edit, key, written))


def _edit(key: str, written: str) -> Edit:
    return Edit(f"annotation {key}", ("metadata", "annotations", key), sign=": ", old=written)


def read_record(written: object) -> PinRecord | None:
    """The pin recorded earlier. It is only a memory: one that cannot be read is none."""
    return _record(_recorded(written))


def _record(recorded: object) -> PinRecord | None:
    match recorded:
        case {"key": str(key), "values": [str(), *_] as values, "policy": str(policy)}:
            if all(isinstance(value, str) for value in values):
                return PinRecord(key, tuple(values), policy)
    return None


def _given(recorded: object) -> str:
    """The pool that is recorded with a pin, or alone."""
    match recorded:
        case {"pool": str(pool)}:
            return pool
    return ""


def _recorded(written: object) -> object:
    if not isinstance(written, str) or len(written) > _LONGEST_RECORD:
        return None
    try:
        return orjson.loads(written)
    except ValueError:
        return None


def _contradiction(memory: DeclaredMemory) -> Iterator[Finding]:
    if memory.per_device_mib is not None and (memory.fixed_mib, memory.per_sample_mib) != (None, None):
        other = "memory-fixed" if memory.fixed_mib is not None else "memory-per-sample"
        facts = {"taken": f"{PREFIX}memory-per-device", "other": f"{PREFIX}{other}"}
        yield Finding("SST103", _where("memory-per-device"), facts, "beside")


def _unknown(ours: Object) -> Iterator[Finding]:
    unknown = [name for name in ours if name not in _KEYS]
    for name in unknown[:_MOST_UNKNOWN]:
        near = get_close_matches(name[:63], _KEYS, n=1)
        meant = f"{PREFIX}{near[0]}" if near else ""
        facts = {"annotation": printable(f"{PREFIX}{name}"), "meant": meant}
        yield Finding("SST101", _where(name), facts, "annotation-like" if meant else "annotation")


def _where(name: str) -> str:
    return dotted(("metadata", "annotations", f"{PREFIX}{name}"))
