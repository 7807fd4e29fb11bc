"""`samestep test`: what is expected, what is found, and what cannot be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from controlplane.nodes import RTX_5090, Card, gpu_node
from tests.samples import Json, demo_nodes, job, pod, pytorchjob
from tests.unit.cli.folders import case, exception, policy, policy_test, pool, write
from tests.unit.cli.test_check import asked
from tests.unit.intake.runtimes import node as runtime_node
from tests.unit.intake.runtimes import runtime, train_job
from webhook.cli import main

PINNED = pytorchjob(memory_per_device="44Gi")
DENIED = pytorchjob(name="too-big", memory_per_device="120Gi")
SINGLE = job(pod(gpus=1), pods=1, name="single")
LARGE = "RTX-PRO-6000-Blackwell-Server"

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in a folder with the demo fleet, one policy, one job, and these files beside them."""
    monkeypatch.chdir(tmp_path)

    def run(*cases: Json, options: tuple[str, ...] = (), spec: Json | None = None, **files: Any) -> Result:  # noqa: ANN401
        given = {"fleet": demo_nodes(), "policy": policy(), "job": PINNED} | files
        if cases:
            given["a.test"] = policy_test(*cases, **(spec or {}))
        write(tmp_path, {f"{name}.yaml": held for name, held in given.items()})
        return CliRunner().invoke(main, ["test", *options], catch_exceptions=False)

    return run


def differences(result: Result) -> dict[str, tuple[str, str]]:
    """Of the one job of the one case, by field: expected and found."""
    ((one,),) = (found["jobs"] for found in json.loads(result.stdout)["cases"])
    return {each["field"]: (each["expected"], each["found"]) for each in one["differences"]}


def failing(run: Run, expect: Json, **more: Any) -> dict[str, tuple[str, str]]:  # noqa: ANN401
    result = run(case(expect=expect, **more), options=("-o", "json"))
    assert result.exit_code == 1, result.output
    return differences(result)


def passing(run: Run, expect: Json, **more: Any) -> bool:  # noqa: ANN401
    return run(case(expect=expect, **more.pop("of_case", {})), **more).exit_code == 0


def test_what_is_as_expected_passes(run: Run) -> None:
    expect = {
        "verdict": "Pin",
        "models": [LARGE],
        "policy": "one",
        "codes": ["SST301"],
        "notCodes": ["SST201"],
        "message": "^SST301 pinned to RTX-PRO",
    }
    result = run(case(expect=expect))
    assert (result.exit_code, result.stdout) == (0, "ok    a.test.yaml:9  a job\n1 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ({"verdict": "Deny"}, {"verdict": ("Deny", "Pin (Synchronous: PyTorchJob with 4 pods)")}),
        ({"models": []}, {"models": ("none", LARGE)}),
        ({"models": [LARGE, "H100"]}, {"models": (f"H100, {LARGE}", LARGE)}),
        ({"policy": "two"}, {"policy": ("two", "one")}),
        ({"codes": ["SST301", "SST201"]}, {"codes": ("SST201", "SST301, SST204")}),
        ({"notCodes": ["SST201", "SST301"]}, {"notCodes": ("no SST301", "SST301, SST204")}),
        ({"message": "denied"}, {"message": ("denied", f"SST301 pinned to {LARGE} (nvidia.com/gpu.product)")}),
        ({"pool": "gold"}, {"pool": ("gold", "none")}),
    ],
    ids=lambda value: next(iter(value)),
)
def test_what_is_not_as_expected_is_told_beside_what_was_found(
    run: Run, expect: Json, found: dict[str, tuple[str, str]]
) -> None:
    assert failing(run, expect) == found


def test_models_may_be_called_by_their_products(run: Run) -> None:
    assert passing(run, {"models": ["NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"]})


def test_a_denial_leaves_no_models_and_its_whole_message_is_searched(run: Run) -> None:
    assert passing(run, {"verdict": "Deny", "models": [], "codes": ["SST201"], "message": "RTX-5090 +31.8"}, job=DENIED)


def test_both_webhooks_are_asked(run: Run) -> None:
    # Under a policy that only records, the first would have pinned the job, and the second misses the pin.
    recording = policy(validationActions=["Audit"])
    assert passing(run, {"verdict": "Admit", "codes": ["SST301", "SST302"]}, policy=recording)
    assert passing(run, {"verdict": "Pin", "notCodes": ["SST302"]})


def test_every_job_of_a_case_is_to_meet_it(run: Run, snapshot: SnapshotAssertion) -> None:
    result = run(
        case("large jobs"),
        case("none is left alone", jobs="jobs.yaml", expect={"verdict": "Pin", "message": "pinned"}),
        jobs=[PINNED, SINGLE, DENIED],
    )
    assert result.exit_code == 1
    assert result.output == snapshot


def test_junit_has_a_suite_for_each_file_and_an_error_for_what_cannot_be_read(
    run: Run, snapshot: SnapshotAssertion
) -> None:
    result = run(
        case(), case("two", expect={"verdict": "Deny"}), options=("-o", "junit"), **{"b.test": "kind: Nothing"}
    )
    assert result.exit_code == 2
    assert result.stdout == snapshot
    suites = {suite.get("name"): suite for suite in ET.fromstring(result.stdout)}
    assert {key: suites["a.test.yaml"].get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }
    assert suites["unreadable"].get("errors") == "1"


def test_json_has_every_case_with_its_place(run: Run) -> None:
    report = json.loads(run(case(), case("two", expect={"verdict": "Deny"}), options=("-o", "json")).stdout)
    assert (report["kind"], report["passed"], report["failed"], report["errors"]) == ("PolicyTestReport", 1, 1, [])
    assert [(one["file"], one["line"], one["name"], one["passed"]) for one in report["cases"]] == [
        ("a.test.yaml", 9, "a job", True),
        ("a.test.yaml", 14, "two", False),
    ]
    assert report["cases"][0]["jobs"][0]["object"] == "PyTorchJob team-a/ddp"


def test_an_update_is_of_what_the_job_was_before(run: Run) -> None:
    update = {"operation": "UPDATE", "oldJobs": ["old.yaml"]}
    assert passing(run, {"verdict": "Admit"}, of_case=update, old=PINNED)
    assert passing(run, {"verdict": "Pin"}, of_case=update, old=pytorchjob(memory_per_device="44Gi", workers=2))


def test_an_update_without_what_was_before_cannot_be_run(run: Run) -> None:
    result = run(case(operation="UPDATE", oldJobs=["old.yaml"]), old=pytorchjob(name="another"))
    assert result.exit_code == 2
    assert result.stderr == (
        "unreadable: a.test.yaml:9:5: job.yaml#0: is in none of oldJobs: they are found by kind, namespace and name\n"
    )


def test_labels_of_namespaces_stand_in_the_fleets_files(run: Run) -> None:
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b", "labels": {"tier": "gold"}}}
    gold = policy("gold", match={"namespaceSelector": {"matchLabels": {"tier": "gold"}}})
    unnamed = pytorchjob(memory_per_device="44Gi")
    del unnamed["metadata"]["namespace"]
    files = {"policy": gold, "fleet": [*demo_nodes(), team], "job": unnamed}
    assert passing(run, {"policy": "gold"}, of_case={"namespace": "team-b"}, **files)
    assert not passing(run, {"policy": "gold"}, of_case={"namespace": "team-c"}, **files)


def test_who_submits_counts_where_conditions_ask(run: Run) -> None:
    ask = {
        "name": "research",
        "expression": "'research' in request.userInfo.groups && request.userInfo.username == 'ann'",
    }
    files = {"policy": policy(match={"matchConditions": [ask]})}
    assert passing(run, {"policy": "one"}, of_case={"user": {"name": "ann", "groups": ["research"]}}, **files)
    assert not passing(run, {"policy": "one"}, of_case={"user": {"name": "ann"}}, **files)


def test_the_pool_that_a_job_is_given_is_compared(run: Run) -> None:
    gold = pool("gold", allowed={"groups": ["research"]})
    files = {"policy": [policy(), gold, pool("iron", order=10)]}
    assert passing(run, {"pool": "gold"}, of_case={"user": {"name": "ann", "groups": ["research"]}}, **files)
    assert passing(run, {"pool": "iron"}, of_case={"user": {"name": "ann"}}, **files)


def test_exceptions_end_by_the_time_of_the_test(run: Run) -> None:
    rules = [policy(exceptions="Allowed"), exception(codes=["SST201"], until="2027-06-01T00:00:00Z")]
    files = {"policy": rules, "job": DENIED}
    assert passing(run, {"verdict": "Admit"}, spec={"now": "2027-05-31T00:00:00Z"}, **files)
    assert passing(run, {"verdict": "Deny"}, spec={"now": "2027-06-02T00:00:00Z"}, **files)


def test_an_admission_review_counts_as_it_is(run: Run) -> None:
    assert passing(run, {"verdict": "Pin"}, job=asked(PINNED))
    result = run(case(), job=asked(PINNED) | {"request": {}})
    assert (result.exit_code, "request.operation" in result.stderr) == (2, True)


def test_what_jobs_refer_to_may_stand_in_the_fleet_or_beside_them(run: Run) -> None:
    held, refers = runtime(runtime_node(gpus=2), nodes=4), train_job()
    not_in_view = {"codes": ["SST104"]}
    assert passing(run, not_in_view, job=refers)
    assert not passing(run, not_in_view, job=refers, fleet=[*demo_nodes(), held])
    result = run(case(expect=not_in_view), job=[held, refers], options=("-o", "json"))
    codes = {job["object"]: job["differences"] for job in json.loads(result.stdout)["cases"][0]["jobs"]}
    assert codes["TrainJob team-a/tj"]


def test_nodes_beside_the_jobs_are_nodes_too(run: Run) -> None:
    assert passing(run, {"verdict": "Admit", "codes": ["SST403"]}, fleet=[])
    assert passing(run, {"verdict": "Pin"}, fleet=[], job=[*demo_nodes(), PINNED])


def test_policies_are_those_of_the_files_alone(run: Run) -> None:
    strict = policy("strict", memory={"onUnknown": "Deny"})
    unknown = pytorchjob()
    assert passing(
        run, {"verdict": "Deny", "policy": "strict"}, spec={"policies": ["strict.yaml"]}, strict=strict, job=unknown
    )
    assert passing(
        run, {"verdict": "Pin", "policy": "one"}, spec={"policies": ["policy.yaml"]}, strict=strict, job=unknown
    )


def test_accelerators_beside_the_policies_count(run: Run) -> None:
    card = gpu_node("own", Card("ACME-1", 0, "", (1, 0)))
    del card["metadata"]["labels"]["nvidia.com/gpu.memory"]
    spec = {"product": "ACME-1", "vendor": "NVIDIA", "memory": "96Gi", "source": "measured"}
    added = {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": "acme"}, "spec": spec}
    files = {"fleet": [gpu_node("desk", RTX_5090), card], "job": pytorchjob(memory_per_device="44Gi", workers=2)}
    assert passing(run, {"models": ["ACME-1"]}, accelerators=added, **files)
    assert not passing(run, {"models": ["ACME-1"]}, accelerators="", **files)


def test_a_fleet_larger_than_policies_may_be_stands_beside_them(run: Run) -> None:
    padding = "# " + "x" * (1 << 20)
    assert run(case(), fleet=f"{padding}\n{yaml.safe_dump_all(demo_nodes())}").exit_code == 0


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.test": policy_test(case(jobz=1))}, "a.test.yaml:14:5: spec.cases.0.jobz: "),
        ({"a.test": policy_test(case(expect={"models": 3}))}, "a.test.yaml:13:7: spec.cases.0.expect.models: "),
        ({"a.test": "{"}, "a.test.yaml:2:1: "),
        ({"a.test": ""}, "a.test.yaml: expected a PolicyTest, found nothing"),
        ({"a.test": policy()}, "a.test.yaml:2:1: kind: "),
        ({"a.test": policy_test(case()), "job": "- 1"}, "a.test.yaml:9:5: job.yaml#0: expected a Kubernetes object"),
        ({"a.test": policy_test(case()), "job": demo_nodes()}, "a.test.yaml:9:5: job.yaml: no job is in there"),
        ({"a.test": policy_test(case(jobs="no.yaml"))}, "a.test.yaml:9:5: no.yaml: No such file or directory"),
        ({"a.test": policy_test(case(), fleet=["no.yaml"])}, "spec.fleet: no.yaml: No such file or directory"),
        ({"a.test": policy_test(case(), policies=["no"])}, "no: No such file or directory"),
        ({"a.test": policy_test(case(), policies=["fleet.yaml"])}, "fleet.yaml: no policy is in there"),
        ({"a.test": policy_test(case()), "policy": policy(prio=1)}, "policy.yaml:6:3: spec.prio: "),
        ({"a.test": policy_test(case()), "again": policy()}, "TrainingPolicy one is in again.yaml as well"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(run: Run, files: dict[str, Any], told: str) -> None:
    result = run(**files)
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
    assert "0 passed" in result.stdout


def test_a_bad_file_costs_only_itself(run: Run) -> None:
    result = run(case(), **{"b.test": "{"})
    assert (result.exit_code, result.stdout) == (2, "ok    a.test.yaml:9  a job\n1 passed, 0 failed\n")


def test_tests_are_found_in_folders_below_and_not_in_hidden_ones(run: Run) -> None:
    below = {
        "policies/team/of-a.test": policy_test(case(), fleet=["../../fleet.yaml"], policies=["../../policy.yaml"]),
        "policies/team/job": PINNED,
        "policies/.cache/b.test": "{",
    }
    assert run(**below).stdout == "ok    policies/team/of-a.test.yaml:9  a job\n1 passed, 0 failed\n"


def test_a_folder_without_tests_is_told(run: Run) -> None:
    result = run()
    assert (result.exit_code, result.stderr) == (2, "unreadable: .: no file there ends in .test.yaml\n")


def test_a_file_may_be_named_whatever_it_is_called(run: Run) -> None:
    assert run(options=("some.yaml",), some=policy_test(case())).exit_code == 0
    assert run(options=("no.yaml",)).stderr == "unreadable: no.yaml: No such file or directory\n"
