"""PolicyTests that cannot be run."""

from collections.abc import Iterator
from pathlib import Path

from webhook.cli.lints.found import Found, Severity, invalid
from webhook.cli.policy_tests import Written, read_tests
from webhook.policy.documents import Fault
from webhook.policy.parts import Steps


def check_tests(files: list[Path]) -> Iterator[Found]:
    """What of these files is no PolicyTest, and files that they name and that are not there."""
    for file in files:
        for one in read_tests(file):
            if isinstance(one, Fault):
                yield invalid(one)
                continue
            missing = [(steps, f"there is no {name}") for steps, name in _named(one) if not one.path(name).exists()]
            for fault in one.source.faults(missing):
                yield Found(Severity.ERROR, "missing-file", f"PolicyTest {one.test.metadata.name}", fault)


def _named(one: Written) -> Iterator[tuple[Steps, str]]:
    spec = one.test.spec
    yield from _each(spec.fleet, "fleet")
    yield from _each(spec.policies, "policies")
    for index, case in enumerate(spec.cases):
        yield from _each(case.jobs, "cases", index, "jobs")
        yield from _each(case.old_jobs, "cases", index, "oldJobs")


def _each(names: tuple[str, ...], *steps: str | int) -> Iterator[tuple[Steps, str]]:
    for place, name in enumerate(names):
        yield ("spec", *steps, place), name
