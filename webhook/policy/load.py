"""Policies, pools, exceptions and accelerators from files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webhook.catalog.accelerators import accelerators
from webhook.catalog.additions import Accelerator, AdditionError, extended
from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.policy.documents import LARGEST, Document, Fault, Source, documents_of
from webhook.policy.objects import Good, Key, ObjectError, is_ours, key_of, read_object, rules_of
from webhook.policy.parts import Steps

_MOST_FILES = 1_000
_MOST_DOCUMENTS = 5_000
_MOST_BYTES = 8 << 20
_MOST_PROBLEMS = 20
_POLICY = "TrainingPolicy"


class PolicyError(Exception):
    """Policy files that cannot be used: a line for each fault."""


@dataclass(frozen=True, slots=True)
class Read:
    """One object that counts, and where it stands."""

    good: Good
    source: Source
    object: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What files come to. `faults` are in the order of files and lines; `read` is what counts, by kind and name."""

    rules: Rules
    faults: tuple[Fault, ...] = ()
    read: Mapping[Key, Read] = field(default_factory=dict)

    @property
    def accelerators(self) -> tuple[Mapping[str, Any], ...]:
        """The Accelerator objects as they were written."""
        return tuple(one.object for _, one in sorted(self.read.items()) if isinstance(one.good.setting, Accelerator))


def load(path: Path, before: Loaded | None = None) -> Loaded:
    """All that counts in a file, or in a directory and the folders in it. Never raises.

    A document that is no good costs only itself, or counts as in `before`: of a file with a fault, what counted then
    and is not found now counts on. Of two objects of one kind and name the first counts. Hidden names are left out:
    a ConfigMap mount has what it shows in a hidden folder as well. So are tests of policies (`*.test.yaml`), and
    objects that are none of ours.
    """
    return _Loading(before.read if before else {}).of(path)


def load_rules(path: Path) -> Rules:
    """The rules there. Raises PolicyError for any fault, or where there is nothing."""
    loaded = load(path)
    if loaded.faults:
        raise PolicyError("\n".join(map(str, loaded.faults)))
    if not loaded.read:
        raise PolicyError(f"{path}: expected a TrainingPolicy, found none")
    return loaded.rules


def load_policy(path: Path) -> Policy:
    """The one TrainingPolicy there. Raises PolicyError where there is none, more than one, or any fault."""
    found = load_rules(path).policies
    if len(found) != 1:
        raise PolicyError(f"{path}: expected one TrainingPolicy, found {len(found)}")
    return found[0]


def files_in(path: Path) -> Iterator[Path]:
    """The files that `load` reads there, sorted: folders of folders too, each once, and by no hidden name."""
    if not path.is_dir() and path.exists():
        yield path
        return
    seen: set[str] = set()
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        # A mount has its folders as links, too, which may lead in a circle.
        if (real := os.path.realpath(folder)) in seen:
            continue
        seen.add(real)
        shown = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
        folders = [one for one in shown if one.is_dir()]
        yield from (one for one in shown if _is_policy_file(one.name) and one.is_file())
        waiting += reversed(folders)


def _is_policy_file(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    return ending in ("yaml", "yml", "json") and not stem.endswith(".test")


class _TooMuchError(Exception):
    """More than we read."""


class _Loading:
    def __init__(self, before: Mapping[Key, Read]) -> None:
        self._before = before
        self._read: dict[Key, Read] = {}
        self._faults: list[Fault] = []
        self._bad: list[tuple[str, Key | None]] = []
        self._is_whole = True
        self._bytes = self._documents = 0

    def of(self, path: Path) -> Loaded:
        try:
            for number, file in enumerate(files_in(path), 1):
                self._take_file(file)
                if number == _MOST_FILES or self._documents > _MOST_DOCUMENTS:
                    raise _TooMuchError
        except OSError as error:
            self._lack(Fault(str(path), 0, 0, "", error.strerror or "cannot be read"))
        except _TooMuchError:
            told = f"no more is read than {_MOST_FILES:,} files and {_MOST_DOCUMENTS:,} documents"
            self._lack(Fault(str(path), 0, 0, "", told))
        self._check_catalog()
        self._keep()
        rules = rules_of((one.good for one in self._read.values()), self._never_good())
        faults = sorted(self._faults, key=lambda one: (one.file, one.line, one.column))
        return Loaded(rules, tuple(faults), self._read)

    def _lack(self, fault: Fault) -> None:
        self._faults.append(fault)
        self._bad.append((fault.file, None))
        self._is_whole = False

    def _take_file(self, file: Path) -> None:
        for one in self._in(file):
            self._documents += 1
            if self._documents > _MOST_DOCUMENTS:
                return
            if isinstance(one, Fault):
                self._faults.append(one)
                self._bad.append((str(file), None))
            elif is_ours(one.object):
                self._take(one)

    def _in(self, file: Path) -> Iterable[Document | Fault]:
        name = str(file)
        try:
            with file.open("rb") as stream:
                data = stream.read(LARGEST + 1)
        except OSError as error:
            return [Fault(name, 0, 0, "", error.strerror or "cannot be read")]
        self._bytes += len(data)
        if len(data) > LARGEST:
            return [Fault(name, 0, 0, "", f"larger than {LARGEST >> 20} MiB")]
        if self._bytes > _MOST_BYTES:
            return [Fault(name, 0, 0, "", f"left out: with it, the files are larger than {_MOST_BYTES >> 20} MiB")]
        return documents_of(name, data)

    def _take(self, one: Document) -> None:
        try:
            good = read_object(one.object)
        except ObjectError as error:
            self._refuse(one, error.problems)
            return
        first = self._read.get(good.key)
        if first is None:
            self._read[good.key] = Read(good, one.source, one.object)
            return
        line, _ = first.source.place("metadata", "name")
        told = f"{good.key} comes twice: the first, at {first.source.file}:{line}, counts"
        self._faults += one.source.faults([(("metadata", "name"), told)])

    def _refuse(self, one: Document, problems: Sequence[tuple[Steps, str]]) -> None:
        self._faults += one.source.faults(problems[:_MOST_PROBLEMS])
        if more := len(problems[_MOST_PROBLEMS:]):
            self._faults += one.source.faults([((), f"and {more} problems more")])
        self._bad.append((one.source.file, key_of(one.object)))

    def _check_catalog(self) -> None:
        """What the catalog has to say to Accelerators, one after the other."""
        catalog = accelerators()
        for key, one in sorted(self._read.items(), key=lambda item: item[0]):
            if isinstance(one.good.setting, Accelerator):
                try:
                    catalog = extended(catalog, [one.object])
                except AdditionError as error:
                    field, _, told = str(error).partition(": ")
                    del self._read[key]
                    self._refuse(Document(one.source, dict(one.object)), [(tuple(field.split(".")), told)])

    def _keep(self) -> None:
        """What counted before, where there are faults now."""
        files = {file for file, _ in self._bad}
        for key, one in self._before.items():
            if key not in self._read and (not self._is_whole or one.source.file in files):
                self._read[key] = one

    def _never_good(self) -> Iterator[str]:
        """Policies that have not been good once; of what does not say what it is, the name of the file."""
        telling = {one.source.file for key, one in self._read.items() if key.kind == _POLICY}
        for file, key in self._bad:
            if key is None and file not in telling:
                yield Path(file).name
            elif key is not None and key.kind == _POLICY and key not in self._read:
                yield key.name
