"""`PolicyTest` files: what they can say, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.samples import Json
from webhook.model.verdict import Verdict
from webhook.policy.parts import epoch, faults
from webhook.policy.policy_test import PolicyTest

CASE: Json = {"name": "a large job is pinned", "jobs": ["job.yaml"], "expect": {"verdict": "Pin"}}


def document(**spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    head = {"apiVersion": "samestep.dev/v1alpha1", "kind": "PolicyTest", "metadata": {"name": "one"}}
    return {**head, "spec": {"fleet": ["fleet.yaml"], "cases": [CASE]} | spec}


def refused(**spec: Any) -> list[str]:  # noqa: ANN401 - fields of a spec
    with pytest.raises(ValidationError) as caught:
        PolicyTest.model_validate(document(**spec))
    return faults(caught.value)


def test_a_test_that_says_little_takes_the_policies_beside_it_and_a_day_of_its_own() -> None:
    spec = PolicyTest.model_validate(document()).spec
    (case,) = spec.cases
    assert (spec.fleet, spec.policies, epoch(spec.now)) == (("fleet.yaml",), (".",), 1798761600)
    assert (case.operation, case.old_jobs, case.namespace, case.user) == ("CREATE", (), None, None)
    assert (case.expect.verdict, case.expect.models, case.expect.codes) == (Verdict.PIN, None, ())


def test_everything_that_a_case_can_say_arrives() -> None:
    written = {
        "name": "a change that no card can hold is denied",
        "jobs": ["after.yaml"],
        "operation": "UPDATE",
        "oldJobs": ["../jobs/before.yaml"],
        "namespace": "team-a",
        "user": {"name": "ann", "groups": ["research"]},
        "expect": {
            "verdict": "Deny",
            "models": [],
            "policy": "strict",
            "pool": "gold",
            "codes": ["SST201"],
            "notCodes": ["SST301"],
            "message": "out of memory: .* 44",
            "notMessage": "RTX-5090",
        },
    }
    case = PolicyTest.model_validate(document(cases=[written])).spec.cases[0]
    assert case.model_dump(mode="json", by_alias=True) == written


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"expect": {}}, ".expect: give at least one thing"),
        ({"expect": {"codes": [], "notCodes": []}}, ".expect: give at least one thing"),
        ({"expect": {"verdict": "Pinned"}}, ".expect.verdict: Input should be 'Admit', 'Pin' or 'Deny'"),
        ({"expect": {"codes": ["SST999"]}}, ".expect.codes.0: expected a code"),
        (
            {"expect": {"codes": ["SST201"], "notCodes": ["SST301", "SST201"]}},
            ".expect.notCodes: SST201 is",
        ),
        ({"expect": {"message": "("}}, ".expect.message: not a regular expression: missing )"),
        ({"expect": {"models": "H100"}}, ".expect.models: Input should be a list"),
        ({"expect": {"verdicts": "Pin"}}, ".expect.verdicts: Extra inputs"),
        ({"jobs": []}, ".jobs: Tuple should have at least 1 item"),
        ({"jobs": ["/etc/passwd"]}, ".jobs.0: expected a path from the folder of this file"),
        ({"jobs": [""]}, ".jobs.0: "),
        ({"operation": "DELETE"}, ".operation: Input should be 'CREATE' or 'UPDATE'"),
        ({"operation": "UPDATE"}, ": oldJobs: goes with operation: UPDATE"),
        ({"oldJobs": ["before.yaml"]}, ": oldJobs: goes with operation: UPDATE"),
        ({"namespace": "Team A"}, ".namespace: String should match"),
        ({"user": {"groups": ["a"]}}, ".user.name: Field required"),
        ({"name": ""}, ".name: "),
    ],
)
def test_a_bad_case_is_refused_by_its_place(case: Json, said: str) -> None:
    assert refused(cases=[CASE, CASE | {"name": "another"} | case])[0].startswith(f"spec.cases.1{said}")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"cases": []}, "spec.cases: "),
        ({"cases": [CASE, CASE]}, "spec.cases: name: 'a large job is pinned' comes twice"),
        ({"fleet": []}, "spec.fleet: "),
        ({"fleet": "fleet.yaml"}, "spec.fleet: Input should be a list"),
        ({"policies": []}, "spec.policies: "),
        ({"now": "today"}, "spec.now: "),
        ({"nows": "2027-01-01T00:00:00Z"}, "spec.nows: Extra inputs"),
    ],
)
def test_a_bad_test_is_refused_by_its_place(spec: Json, said: str) -> None:
    assert refused(**spec)[0].startswith(said)
