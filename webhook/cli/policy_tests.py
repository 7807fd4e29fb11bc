"""PolicyTest files: what they hold, and what comes of their cases."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from webhook.catalog.strict_yaml import YamlError, load_all
from webhook.cli.check import verdict
from webhook.cli.documents import Document, Unreadable, parse_all
from webhook.cli.outcomes import Outcome, outcome
from webhook.cli.places import Places
from webhook.cli.requests import request_of
from webhook.cli.rule_files import RuleFiles, rule_files
from webhook.cli.surroundings import LOOKED_UP, surroundings_from
from webhook.cli.worlds import world_from
from webhook.intake.admission import NotAReview
from webhook.model.fleet import Model
from webhook.model.request import Object, Request, User
from webhook.model.world import World
from webhook.policy.parts import epoch, faults
from webhook.policy.policy_test import Case, ExpectPart, PolicyTest, Spec


@dataclass(frozen=True, slots=True)
class Difference:
    """One expectation that was not met."""

    field: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of one job. `source` is the document that it was read from."""

    source: str
    request: Request
    outcome: Outcome
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of the jobs of one case, which begins in `line` of `file`."""

    file: Path
    line: int
    test: str
    name: str
    jobs: tuple[JobResult, ...]

    @property
    def passed(self) -> bool:
        return not any(one.differences for one in self.jobs)


def run_file(file: Path) -> Iterator[CaseResult | Unreadable]:
    """The cases of the PolicyTests in a file, each as soon as it is decided, beside what could not be read."""
    try:
        text = file.read_text("utf-8")
        documents = list(load_all(text))
        places = Places(text)
    except OSError as error:
        yield Unreadable(str(file), error.strerror or "cannot be read")
        return
    except UnicodeDecodeError as error:
        yield Unreadable(str(file), f"not UTF-8 text (byte {error.start})")
        return
    except YamlError as error:
        yield Unreadable(str(file), str(error))
        return
    tests = [(index, loaded) for index, loaded in enumerate(documents) if loaded is not None]
    if not tests:
        yield Unreadable(str(file), "expected a PolicyTest, found nothing")
    for index, loaded in tests:
        try:
            test = PolicyTest.model_validate(loaded)
        except ValidationError as error:
            for one, told in zip(error.errors(), faults(error), strict=True):
                line, column = places.of(index, one["loc"])
                yield Unreadable(f"{file}:{line}:{column}", told)
            continue
        lines = [places.of(index, ("spec", "cases", number))[0] for number in range(len(test.spec.cases))]
        yield from _run(test, file, lines)


def _run(test: PolicyTest, file: Path, lines: Sequence[int]) -> Iterator[CaseResult | Unreadable]:
    spec, folder = test.spec, file.parent
    rules = rule_files(folder / one for one in spec.policies)
    stage = _Stage(spec, folder, rules)
    if stage.problems:
        yield from (_inside(file, one) for one in stage.problems)
        return
    for case, line in zip(spec.cases, lines, strict=True):
        jobs: list[JobResult] = []
        problems: list[Unreadable] = []
        for one in _jobs(case, stage):
            (problems if isinstance(one, Unreadable) else jobs).append(one)  # type: ignore[arg-type]
        if problems:
            yield from (Unreadable(f"{file}:{line}", str(one)) for one in problems)
        else:
            yield CaseResult(file, line, test.metadata.name, case.name, tuple(jobs))


def _inside(file: Path, problem: Unreadable) -> Unreadable:
    return Unreadable(str(file), str(problem))


class _Stage:
    """The fleet and the policies of one PolicyTest."""

    def __init__(self, spec: Spec, folder: Path, rules: RuleFiles) -> None:
        self.folder = folder
        self.now = epoch(spec.now)
        self._rules = rules
        self._fleets = [folder / one for one in spec.fleet]
        self._documents, _ = parse_all(self._fleets)  # what cannot be read is told by the world
        self._world, problems = self._made(())
        self.problems = [*rules.problems, *problems]

    def world(self, documents: Sequence[Document]) -> tuple[World, list[Unreadable]]:
        """The world, with what the jobs of a case bring along."""
        if any(one.object["kind"] in LOOKED_UP for one in documents):
            return self._made(documents)
        return replace(self._world, surroundings=surroundings_from([*self._documents, *documents])), []

    def _made(self, documents: Sequence[Document]) -> tuple[World, list[Unreadable]]:
        also = [*self._rules.accelerators, *documents]
        world, problems = world_from(also, self._fleets, self._rules.rules)
        return replace(world, surroundings=surroundings_from([*self._documents, *documents])), problems


def _jobs(case: Case, stage: _Stage) -> Iterator[JobResult | Unreadable]:
    documents, problems = parse_all(stage.folder / one for one in case.jobs)
    before, more = parse_all(stage.folder / one for one in case.old_jobs)
    world, faults_of_world = stage.world(documents)
    yield from (*problems, *more, *faults_of_world)
    jobs = [one for one in documents if one.object["kind"] not in LOOKED_UP]
    if not jobs:
        yield Unreadable(", ".join(case.jobs), "no job is in there")
    old = {_reference(one.object, case): one.object for one in before}
    for one in jobs:
        try:
            request = _request(one, case, stage.now)
        except NotAReview as error:
            field, _, fault = str(error).partition(": ")
            yield Unreadable(one.source, fault, field)
            continue
        if case.operation == "UPDATE" and one.object["kind"] != "AdmissionReview":
            reference = _reference(one.object, case)
            if reference not in old:
                kind, namespace, name = reference
                told = f"{kind} {namespace}/{name} is in none of oldJobs"
                yield Unreadable(one.source, told)
                continue
            request = replace(request, operation="UPDATE", old_object=old[reference])
        found = outcome(request, world)
        yield JobResult(one.source, request, found, tuple(_differences(case.expect, found)))


def _request(one: Document, case: Case, now: float) -> Request:
    request = replace(request_of(one), now=now)
    if one.object["kind"] == "AdmissionReview":
        return request
    if case.namespace and request.namespace and not _namespace(one.object):
        request = replace(request, namespace=case.namespace)
    if case.user:
        request = replace(request, user=User(case.user.name, case.user.groups))
    return request


def _reference(obj: Object, case: Case) -> tuple[str, str, str]:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return str(obj["kind"]), _namespace(obj) or case.namespace or "default", str(name or "")


def _namespace(obj: Object) -> str:
    metadata = obj.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) else ""


def _differences(expect: ExpectPart, found: Outcome) -> Iterator[Difference]:
    decided = found.decided
    if expect.verdict is not None and expect.verdict is not found.verdict:
        yield Difference("verdict", expect.verdict, verdict(found.denying or decided))
    models = () if found.denying else decided.decision.models
    if expect.models is not None and not _same(expect.models, models):
        yield Difference("models", _listed(sorted(expect.models)), _listed(sorted(one.name for one in models)))
    if expect.policy is not None and expect.policy != decided.policy.name:
        yield Difference("policy", expect.policy, decided.policy.name or "none")
    if expect.pool is not None:  # no decision gives a job a pool yet
        yield Difference("pool", expect.pool, "none")
    if missing := [code for code in expect.codes if code not in found.codes]:
        yield Difference("codes", _listed(missing), _listed(found.codes))
    if there := [code for code in expect.not_codes if code in found.codes]:
        yield Difference("notCodes", f"no {_listed(there)}", _listed(found.codes))
    if expect.message is not None and not any(re.search(expect.message, text) for text in found.texts):
        yield Difference("message", expect.message, "\n".join(found.texts) or "none")


def _same(expected: Sequence[str], models: Sequence[Model]) -> bool:
    """Whether each expected name is one of these models, and each of these is expected."""
    return all(any(one in (model.product, model.name) for model in models) for one in expected) and all(
        model.product in expected or model.name in expected for model in models
    )


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values)) or "none"
