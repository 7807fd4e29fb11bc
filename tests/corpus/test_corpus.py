"""Every case of the corpus, through `review()` as the webhook calls it and through `samestep check`."""

import json
import time
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonpatch
import orjson
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from tests.corpus.cases import (
    NOW,
    Case,
    Expectation,
    Expected,
    Read,
    cases,
    documents,
    fleet,
    profiles,
    queues,
    request,
    reviews,
    surroundings,
    unreadable,
)
from webhook.answer.message import message
from webhook.answer.response import patch
from webhook.answer.warnings import warnings
from webhook.cli import main
from webhook.intake.admission import read_request
from webhook.model.policy import Policy
from webhook.model.request import Request, Stage
from webhook.model.verdict import Review, Verdict
from webhook.model.world import World
from webhook.review import review

_RECORD = ("/metadata/annotations", "/metadata/annotations/samestep.dev~1pinned")

each_review = pytest.mark.parametrize(
    ("case", "expected"), [pytest.param(case, one, id=name) for name, case, one in reviews()]
)
each_case = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
# What earlier runs showed grows old by the clock, which is the machine's own where nothing else is said.
each_case_that_stays = pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in cases() if not profiles(case)]
)


@each_review
def test_a_review_gives_what_the_case_expects(case: Case, expected: Expected) -> None:
    outcome = answered(case, expected)
    codes = {one.code for one in outcome.decision.findings}
    read_by_submitter = told(outcome)
    assert (outcome.verdict, set(expected.codes) - codes, set(expected.not_codes) & codes) == (
        expected.verdict,
        set(),
        set(),
    ), read_by_submitter
    if expected.models is not None:
        assert [model.product for model in outcome.decision.models] == expected.models
    assert [one["path"] for one in patch(outcome) if one["path"] not in _RECORD] == expected.patch
    stored = applied(outcome)
    assert {path: jsonpatch.JsonPointer(path).resolve(stored, None) for path in expected.after} == expected.after
    assert [words for words in expected.says if words not in read_by_submitter] == [], read_by_submitter
    assert [words for words in expected.never_says if words in read_by_submitter] == [], read_by_submitter
    if expected.read is not None:
        assert read(outcome, expected.read) == expected.read


@each_review
def test_an_object_is_only_ever_added_to(case: Case, expected: Expected) -> None:
    outcome = answered(case, expected)
    before = deepcopy(outcome.request.object)
    stored = applied(outcome)
    assert outcome.request.object == before
    assert holds_all_of(stored, before)


@each_review
def test_our_own_answer_is_left_alone_when_it_comes_back(case: Case, expected: Expected) -> None:
    outcome = answered(case, expected)
    if outcome.verdict is not Verdict.PIN:
        assert patch(outcome) == []
        return
    for stage in (Stage.MUTATE, Stage.VALIDATE):
        again = review(replace(outcome.request, object=applied(outcome), stage=stage), world(case))
        assert again.verdict is Verdict.ADMIT
        assert outcome.decision.models in ((), again.decision.models)


@each_review
def test_a_dry_run_gets_the_same_answer(case: Case, expected: Expected) -> None:
    outcome = answered(case, expected)
    rehearsed = review(replace(outcome.request, dry_run=not outcome.request.dry_run), world(case))
    assert (rehearsed.decision, rehearsed.suggestions) == (outcome.decision, outcome.suggestions)


@each_review
def test_what_is_said_fits_where_it_is_read(case: Case, expected: Expected) -> None:
    outcome = answered(case, expected)
    said = warnings(outcome)
    assert len(said) <= 3
    assert [line for line in said if len(line) > 120 or "…" in line or not line.isprintable()] == []
    if outcome.verdict is Verdict.DENY:
        assert len(message(outcome)) < 1000
        assert len(message(outcome).splitlines()[0]) < 250


@each_review
def test_every_suggestion_is_admitted_when_applied(case: Case, expected: Expected) -> None:
    outcome = answered(case, expected)
    for one in outcome.suggestions:
        changed = jsonpatch.apply_patch(outcome.request.object, one.operations)
        accepted = review(replace(outcome.request, object=changed), world(case))
        assert accepted.verdict is not Verdict.DENY
        assert accepted.decision.models[0] == one.model


@each_case
def test_every_document_of_a_case_is_expected(case: Case) -> None:
    assert {one.of for one in case.expectation.reviews} == set(documents(case))


@each_case_that_stays
def test_check_says_the_same_offline(case: Case) -> None:
    expected = [one for one in case.expectation.reviews if one.stage is Stage.MUTATE]
    files = [word for path in case.files for word in ("-f", str(path))]
    result = CliRunner().invoke(main, ["check", *files, "--fleet", str(case.fleet_file), "-o", "json"])
    listed = json.loads(result.stdout)
    assert {one["source"].removesuffix("#0"): one["verdict"] for one in listed["items"]} == {
        one.of: one.verdict for one in expected
    }
    denied = any(one.verdict is Verdict.DENY for one in expected)
    assert result.exit_code == (2 if case.expectation.unreadable else 1 if denied else 0)


@each_case
def test_what_cannot_be_read_is_said_with_its_place(case: Case) -> None:
    faults = [(one.source, str(one)) for one in unreadable(case)]
    assert [source for source, _ in faults] == [one.source for one in case.expectation.unreadable]
    for (_, said), fault in zip(faults, case.expectation.unreadable, strict=True):
        assert fault.says in said


def test_an_update_of_nearly_three_megabytes_is_answered_within_a_second() -> None:
    # kubernetes-sigs/controller-runtime#2598: an UPDATE carries two objects, each near etcd's limit of 1.5 MB.
    environment = [{"name": f"P{index:05}", "value": "x" * 230} for index in range(5200)]
    container = {
        "name": "train",
        "image": "registry.example/train:1",
        "env": environment,
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}

    def huge(suspend: bool) -> dict[str, Any]:
        spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "suspend": suspend}
        metadata = {"name": "huge", "namespace": "team-a"}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**spec, "template": template}}

    kind = {"group": "batch", "version": "v1"}
    asked = {
        "uid": "00000000-0000-4000-8000-000000000003",
        "kind": {**kind, "kind": "Job"},
        "resource": {**kind, "resource": "jobs"},
        "namespace": "team-a",
        "operation": "UPDATE",
        "userInfo": {"username": "user@example.com"},
        "object": huge(suspend=False),
        "oldObject": huge(suspend=True),
    }
    body = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})
    assert len(body) > 2_500_000
    known = world(next(case for case in cases() if case.expectation.fleet == "a100-40-and-80"))
    began = time.perf_counter()
    outcome = review(read_request(orjson.loads(body), stage=Stage.MUTATE, now=NOW), known)
    took_s = time.perf_counter() - began
    assert (outcome.verdict, patch(outcome)) == (Verdict.ADMIT, [])
    assert took_s < 1


@pytest.mark.parametrize(
    "typo", [{"verdicts": "Admit"}, {"codes": "SST301"}, {"later": "one day"}, {"patch": ["/spec"]}]
)
def test_a_slip_in_an_expectation_is_an_error(typo: dict[str, object]) -> None:
    good: dict[str, object] = {"of": "job.yaml", "verdict": "Admit"}
    Expected.model_validate(good)
    with pytest.raises(ValidationError):
        Expected.model_validate(good | typo)
    with pytest.raises(ValidationError):
        Expectation.model_validate({"reports": [], "story": "", "fleet": "", "review": [good]})


def world(case: Case) -> World:
    return World(fleet(case.fleet_file), Policy(), surroundings(case), queues=queues(case), profiles=profiles(case))


def answered(case: Case, expected: Expected) -> Review:
    asked: Request = request(documents(case)[expected.of], expected.stage)
    return review(asked, world(case))


def applied(outcome: Review) -> dict[str, Any]:
    """The object as the API server would store it."""
    stored: dict[str, Any] = jsonpatch.apply_patch(outcome.request.object, patch(outcome))
    return stored


def told(outcome: Review) -> str:
    """All that the submitter gets to read."""
    return "\n".join([*([message(outcome)] if outcome.verdict is Verdict.DENY else []), *warnings(outcome)])


def read(outcome: Review, like: Read) -> Read:
    """What was read of the job, as far as `like` looks at it."""
    job = outcome.job
    assert job is not None
    batch = job.batch.declared or job.batch.micro
    found = Read(
        coupling=job.coupling,
        devices=sum(role.pods * role.devices for role in job.device_roles),
        microBatch=batch.value if batch else None,
        roles={role.name: role.pods for role in job.device_roles},
        name=job.name,
    )
    return found.model_copy(update={name: None for name in Read.model_fields if getattr(like, name) is None})


def holds_all_of(after: Any, before: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether nothing that was there is gone or changed; null stands for nothing, and a list may only grow, in its
    order."""
    if before is None:
        return True
    if isinstance(before, dict):
        return isinstance(after, dict) and all(holds_all_of(after.get(key), value) for key, value in before.items())
    if isinstance(before, list):
        left = iter(after) if isinstance(after, list) else iter(())
        return isinstance(after, list) and all(any(holds_all_of(one, item) for one in left) for item in before)
    return type(after) is type(before) and bool(after == before)
