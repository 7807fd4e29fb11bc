"""Whether the tests of the policy pack would notice if a field of one of its policies were another.

`python -m tests.mutation.policies` makes each change that there is, one at a time, and runs the pack's own PolicyTests
on it. A mutant that none of them fails on survives, and has to stand in survivors.yaml with the reason.
"""

import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tests.mutation.changes import Json, changes
from webhook.cli.policy_tests import Written, read_tests, run, tests_in
from webhook.model.policy import Likeness, Policy, Sameness
from webhook.policy.documents import Fault
from webhook.policy.objects import Good, ObjectError, Setting, read_object
from webhook.policy.parts import dotted

ROOT = Path(__file__).parents[2]
PACK = ROOT / "policies"
SURVIVORS = Path(__file__).with_name("survivors.yaml")
LEAST_PERCENT = 95
_FIXTURES = "cases"
"""A folder of this name holds what tests give beside the policies."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A policy file, from the pack's folder on, with one change; `documents` are all that it then holds."""

    file: str
    change: str
    documents: tuple[Json, ...]

    @property
    def name(self) -> str:
        return f"{self.file} {self.change}"


def main() -> None:
    found = list(mutants())
    survived = [one.name for one in _survivors(found)]
    of, lost = Counter(one.file for one in found), Counter(name.partition(" ")[0] for name in survived)
    for file, number in of.items():
        print(f"{file:<44}{number - lost[file]:>4} of {number:>3} killed")
    killed, reasons = len(found) - len(survived), accepted()
    percent = 100 * killed / len(found)
    print(f"{killed} of {len(found)} killed: {percent:.1f} %, and at least {LEAST_PERCENT} % have to be")
    for name in survived:
        print(f"survived: {name} ({reasons.get(name, f'no reason in {SURVIVORS.name}')})")
    gone = sorted(reasons.keys() - set(survived))
    for name in gone:
        print(f"stands in {SURVIVORS.name} and does not survive: {name}")
    sys.exit(bool(percent < LEAST_PERCENT or gone or set(survived) - reasons.keys()))


def mutants() -> Iterator[Mutant]:
    """Of every policy of the pack. A change that no API server would take is none, and neither is one that comes to
    what is there, or to what another change comes to."""
    for file in policy_files():
        whole = tuple(yaml.safe_load_all((PACK / file).read_text("utf-8")))
        for index, one in enumerate(whole):
            rest = (*whole[:index], *whole[index + 1 :])
            seen = [_effect(read_object(one))]
            for steps, how, changed in changes(one, rest):
                try:
                    effect = _effect(read_object(changed))
                except ObjectError:
                    continue
                if effect not in seen:
                    seen.append(effect)
                    told = f"{one['metadata']['name']} {dotted(steps)} {how}"
                    yield Mutant(file, told, (*whole[:index], changed, *whole[index + 1 :]))


def policy_files() -> list[str]:
    """The files with policies, pools and the like that tests of the pack name, from its folder on."""
    return sorted(one for one in _tests_of(PACK) if _FIXTURES not in Path(one).parts)


def accepted() -> dict[str, str]:
    """By name of mutant why it may survive."""
    entries = yaml.safe_load(SURVIVORS.read_text("utf-8"))
    return {name: entry["reason"] for entry in entries for name in entry["mutants"]}


def _effect(good: Good) -> Setting:
    """Its settings without those that another one turns off."""
    setting = good.setting
    if not isinstance(setting, Policy):
        return setting
    if setting.likeness is Likeness.MODEL:
        setting = replace(setting, compute_tolerance_percent=0, bandwidth_tolerance_percent=0)
    if not setting.fabric.labels:
        setting = replace(setting, fabric=Sameness())
    return setting


def _survivors(found: list[Mutant]) -> Iterator[Mutant]:
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / PACK.name
        shutil.copytree(PACK, pack)
        tests = _tests_of(pack)
        for one in found:
            file = pack / one.file
            good = file.read_bytes()
            file.write_text(yaml.safe_dump_all(one.documents, allow_unicode=True, sort_keys=False), "utf-8")
            if not any(map(_fails, tests[one.file])):
                yield one
            file.write_bytes(good)


def _tests_of(pack: Path) -> Mapping[str, list[Written]]:
    """By policy file, from the pack's folder on, the tests that name it."""
    named: dict[str, list[Written]] = defaultdict(list)
    for file in tests_in(pack):
        for written in read_tests(file):
            assert isinstance(written, Written), str(written)
            for name in written.test.spec.policies:
                named[written.path(name).resolve().relative_to(pack.resolve()).as_posix()].append(written)
    return named


def _fails(written: Written) -> bool:
    return any(isinstance(case, Fault) or not case.passed for case in run(written))


if __name__ == "__main__":
    main()
