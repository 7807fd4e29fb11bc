"""Rules out of folders that may hold fleets and jobs beside them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.model.rules import Rules
from webhook.policy.documents import Fault
from webhook.policy.load import Read, files_in, load
from webhook.policy.objects import Key, rules_of


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """The rules of some files, the Accelerator objects beside them, and what of it cannot be read."""

    rules: Rules
    accelerators: tuple[Mapping[str, Any], ...]
    faults: tuple[Fault, ...]


def rule_files(paths: Iterable[Path], besides: Iterable[Path]) -> RuleFiles:
    """What files and folders say. What is `besides` is left out of folders unread: a fleet may be larger than policies
    may. Of two objects of one kind and name the first counts, and the other is a fault."""
    left_out = {one.resolve() for one in besides}
    read: dict[Key, Read] = {}
    accelerators: list[Mapping[str, Any]] = []
    faults: list[Fault] = []
    for path in paths:
        before = len(read) + len(faults)
        for file in _files(path, faults):
            if path.is_dir() and file.resolve() in left_out:
                continue
            loaded = load(file)
            faults += loaded.faults
            accelerators += loaded.accelerators
            for key, one in loaded.read.items():
                if key in read and read[key].source.file != one.source.file:
                    told = f"{key} is in {read[key].source.file} as well"
                    faults += one.source.faults([(("metadata", "name"), told)])
                read.setdefault(key, one)
        if len(read) + len(faults) == before:
            faults.append(Fault(str(path), 0, 0, "", "no policy is in there"))
    return RuleFiles(rules_of(one.good for one in read.values()), tuple(accelerators), tuple(faults))


def _files(path: Path, faults: list[Fault]) -> list[Path]:
    try:
        return list(files_in(path))
    except OSError as error:
        faults.append(Fault(str(path), 0, 0, "", error.strerror or "cannot be read"))
        return []
