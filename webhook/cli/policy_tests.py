"""PolicyTest files: what they hold, and what comes of their cases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from webhook.cli.documents import Document, Unreadable, parse_all
from webhook.cli.expected import Difference, differences
from webhook.cli.outcomes import Outcome, outcome
from webhook.cli.requests import request_of
from webhook.cli.rule_files import rule_files
from webhook.cli.surroundings import LOOKED_UP, surroundings_from
from webhook.cli.worlds import world_from
from webhook.intake.admission import NotAReview
from webhook.model.request import Object, Request, User
from webhook.model.world import World
from webhook.policy.documents import LARGEST, Fault, Source, documents_of
from webhook.policy.parts import epoch, problems
from webhook.policy.policy_test import Case, PolicyTest

ENDING = ".test.yaml"
"""How the names of the files end."""
_REVIEW = "AdmissionReview"


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of one job. `source` is the document that it was read from."""

    source: str
    request: Request
    outcome: Outcome
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of the jobs of one case, which begins in `line` of `file`; `test` is the name of its PolicyTest."""

    file: str
    line: int
    test: str
    name: str
    jobs: tuple[JobResult, ...]

    @property
    def passed(self) -> bool:
        return not any(one.differences for one in self.jobs)


@dataclass(frozen=True, slots=True)
class Written:
    """A PolicyTest as it was read. Paths in it are from the folder of its file."""

    test: PolicyTest
    source: Source

    def path(self, name: str) -> Path:
        return Path(self.source.file).parent / name


def tests_in(path: Path) -> list[Path]:
    """The file itself, or the PolicyTest files in a folder and those below it. Hidden folders (a repository's own, a
    virtual environment) are left out."""
    if not path.is_dir():
        return [path]
    found = path.rglob(f"*{ENDING}")
    return sorted(one for one in found if not any(part.startswith(".") for part in one.relative_to(path).parts))


def read_tests(file: Path) -> Iterator[Written | Fault]:
    """The PolicyTests of a file, and what of it is none."""
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        yield Fault(str(file), 0, 0, "", error.strerror or "cannot be read")
        return
    if len(data) > LARGEST:
        yield Fault(str(file), 0, 0, "", f"larger than {LARGEST >> 20} MiB")
        return
    empty = True
    for one in documents_of(str(file), data):
        empty = False
        if isinstance(one, Fault):
            yield one
            continue
        try:
            yield Written(PolicyTest.model_validate(one.object), one.source)
        except ValidationError as error:
            yield from one.source.faults(list(problems(error)))
    if empty:
        yield Fault(str(file), 0, 0, "", "expected a PolicyTest, found nothing")


def run(written: Written) -> Iterator[CaseResult | Fault]:
    """Its cases, each as soon as it is decided, beside what could not be read."""
    cases = written.test.spec.cases
    stage = _Stage(written)
    yield from stage.faults
    if stage.faults:
        return
    places = written.source.places([("spec", "cases", index) for index in range(len(cases))])
    for case, (line, column) in zip(cases, places, strict=True):
        found = list(_jobs(case, stage))
        jobs = [one for one in found if isinstance(one, JobResult)]
        unreadable = [one for one in found if isinstance(one, Unreadable)]
        if unreadable:
            yield from (Fault(written.source.file, line, column, "", str(one)) for one in unreadable)
        else:
            yield CaseResult(written.source.file, line, written.test.metadata.name, case.name, tuple(jobs))


class _Stage:
    """The fleet and the policies of one PolicyTest."""

    def __init__(self, written: Written) -> None:
        spec = written.test.spec
        self.path = written.path
        self.now = epoch(spec.now)
        self._fleets = [written.path(one) for one in spec.fleet]
        jobs = (written.path(name) for case in spec.cases for name in (*case.jobs, *case.old_jobs))
        self._rules = rule_files([written.path(one) for one in spec.policies], [*self._fleets, *jobs])
        self._documents, _ = parse_all(self._fleets)  # what cannot be read the world tells
        self._world, unreadable = self._made([])
        (place,) = written.source.places([("spec", "fleet")])
        self.faults = [
            *self._rules.faults,
            *(Fault(written.source.file, *place, "spec.fleet", str(one)) for one in unreadable),
        ]

    def world(self, documents: Sequence[Document]) -> tuple[World, list[Unreadable]]:
        """The world, with what the jobs of a case bring along."""
        if any(one.object["kind"] in LOOKED_UP for one in documents):
            return self._made(documents)
        return self._with(self._world, documents), []

    def _made(self, documents: Sequence[Document]) -> tuple[World, list[Unreadable]]:
        added = [Document(f"Accelerator {one['metadata']['name']}", dict(one)) for one in self._rules.accelerators]
        world, unreadable = world_from([*added, *documents], self._fleets, self._rules.rules)
        return self._with(world, documents), unreadable

    def _with(self, world: World, documents: Sequence[Document]) -> World:
        return replace(world, surroundings=surroundings_from([*self._documents, *documents]))


def _jobs(case: Case, stage: _Stage) -> Iterator[JobResult | Unreadable]:
    documents, unreadable = parse_all(map(stage.path, case.jobs))
    old, more = parse_all(map(stage.path, case.old_jobs))
    world, still_more = stage.world(documents)
    yield from (*unreadable, *more, *still_more)
    before = {_reference(one.object, case): one.object for one in old}
    jobs = [one for one in documents if one.object["kind"] not in LOOKED_UP]
    if not jobs:
        yield Unreadable(", ".join(case.jobs), "no job is in there")
    for one in jobs:
        try:
            request = _request(one, case, before, stage.now)
        except NotAReview as error:
            field, _, fault = str(error).partition(": ")
            yield Unreadable(one.source, fault, field)
        except KeyError:
            yield Unreadable(one.source, "is in none of oldJobs: they are found by kind, namespace and name")
        else:
            found = outcome(request, world)
            yield JobResult(one.source, request, found, tuple(differences(case.expect, found)))


def _request(one: Document, case: Case, before: Mapping[tuple[str, str, str], Object], now: float) -> Request:
    """Raises NotAReview, and KeyError where an UPDATE has no object from before."""
    request = replace(request_of(one), now=now)
    if one.object["kind"] == _REVIEW:
        return request
    if case.namespace and request.namespace and not _own(one.object, "namespace"):
        request = replace(request, namespace=case.namespace)
    if case.user:
        request = replace(request, user=User(case.user.name, case.user.groups))
    if case.operation == "UPDATE":
        request = replace(request, operation="UPDATE", old_object=before[_reference(one.object, case)])
    return request


def _reference(obj: Object, case: Case) -> tuple[str, str, str]:
    return str(obj["kind"]), _own(obj, "namespace") or case.namespace or "default", _own(obj, "name")


def _own(obj: Object, field: str) -> str:
    metadata = obj.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
