"""`samestep lint`: each rule where it holds and where it does not, and what is printed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from tests.policy_examples import EXAMPLES, TAUGHT, Example
from tests.samples import Json, demo_nodes
from tests.unit.cli.folders import case, exception, policy, policy_test, pool, write
from webhook.cli import main
from webhook.policy.objects import KINDS

Lint = Callable[..., Result]
OF_SETTINGS = [one for one in EXAMPLES if one.kind in KINDS]
TEAM: Json = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
NEVER: Json = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
DENIES = [{"code": "SST107", "action": "Deny"}]
OTHER: Json = {"namespaceSelector": {"matchLabels": {"team": "b"}}}


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lint:
    """Runs the command on a file with these objects."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)

    def run(*objects: Json | str, options: tuple[str, ...] = ()) -> Result:
        write(tmp_path, {"all.yaml": objects[0] if isinstance(objects[0], str) else [*objects]})  # type: ignore[list-item]
        write(tmp_path, {"fleet/nodes.yaml": demo_nodes()})
        return CliRunner().invoke(main, ["lint", "all.yaml", *options], catch_exceptions=False)

    return run


@pytest.fixture
def told(lint: Lint) -> Callable[..., list[str]]:
    """Rules and fields of what is found in these objects."""

    def run(*objects: Json | str, fleet: bool = False) -> list[str]:
        fleets = ("--fleet", "fleet/nodes.yaml") if fleet else ()
        found = json.loads(lint(*objects, options=("-o", "json", *fleets)).stdout)["findings"]
        return [f"{one['severity']} {one['rule']} {one['field']}" for one in found]

    return run


Told = Callable[..., list[str]]


def conditioned(*expressions: str) -> Json:
    conditions = [{"name": f"c{index}", "expression": one} for index, one in enumerate(expressions)]
    return {"matchConditions": conditions}


def test_policies_that_are_well_are_told_nothing_of(lint: Lint) -> None:
    every = (
        policy(exceptions="Allowed", match=TEAM, pin={"strategy": "Ordered", "order": ["RTX-5090"]}),
        policy("two", match=OTHER | conditioned("has(job.batch) && request.operation == 'CREATE'"), memory={}),
        exception(codes=["SST201", "SST302"]),
        pool(nodeSelector={"matchLabels": {"nvidia.com/gpu.present": "true"}}),
    )
    result = lint(*every, options=("--strict", "--fleet", "fleet/nodes.yaml"))
    assert (result.exit_code, result.output) == (0, "0 errors, 0 warnings\n")


def test_warnings_count_where_they_are_to(lint: Lint) -> None:
    twice = (policy(), policy("two"))
    assert lint(*twice).exit_code == 0
    assert lint(*twice, options=("--strict",)).exit_code == 1


def test_a_field_that_is_not_known_is_an_error_with_its_place(lint: Lint) -> None:
    result = lint(policy(pin={"wen": "Always"}))
    assert result.exit_code == 1
    assert result.stdout.startswith("all.yaml:7:5: error: spec.pin.wen: ")


@pytest.mark.parametrize("text", ["{", "- 1", "a: b"])
def test_what_cannot_be_read_at_all_is_exit_status_2(lint: Lint, text: str) -> None:
    assert lint(text).exit_code == (1 if text == "a: b" else 2)


def test_a_path_or_fleet_that_is_not_there_is_exit_status_2(lint: Lint) -> None:
    assert lint(policy(), options=("no.yaml",)).exit_code == 2
    assert lint(policy(), options=("--fleet", "no.yaml")).exit_code == 2
    assert lint("").exit_code == 2


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ({"kinds": ["PytorchJob.kubeflow.org", "Job.batch"]}, ["warning unknown-kind spec.match.kinds.0"]),
        (
            {"kinds": ["TrainingRun.ml.example.com"]},
            ["error unreachable spec.match.kinds", "warning unknown-kind spec.match.kinds.0"],
        ),
        ({"kinds": ["StatefulSet.apps", "Pod"]}, []),
        (
            {
                "objectSelector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}],
                }
            },
            ["error unreachable spec.match.objectSelector"],
        ),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "a", "operator": "In", "values": ["x", "y"]},
                        {"key": "a", "operator": "NotIn", "values": ["y", "x"]},
                    ]
                }
            },
            ["error unreachable spec.match.namespaceSelector"],
        ),
    ],
)
def test_a_policy_for_nothing_is_unreachable(told: Told, match: Json, found: list[str]) -> None:
    assert told(policy(match=match)) == found


def test_a_kind_that_a_policy_of_the_set_teaches_is_known(told: Told) -> None:
    uses = policy("uses", match={"kinds": ["TrainingRun.ml.example.com"]}, priority=1)
    assert told(uses, policy("teaches", kinds=[TAUGHT], match=TEAM)) == []
    again = policy("again", kinds=[TAUGHT], match=OTHER)
    assert told(uses, policy("teaches", kinds=[TAUGHT], match=TEAM), again) == ["warning taught-twice spec.kinds.0"]


@pytest.mark.parametrize(
    ("expression", "place", "message"),
    [
        ("objekt.metadata.name == 'a'", (8, 19), "undeclared reference to 'objekt.metadata.name'"),
        ("true && nonsense", (8, 27), "undeclared reference to 'nonsense'"),
        ("job.device > 1", (8, 23), "job has no device"),
        ("has(job.batch) && request.object == 1", (8, 45), "request has no object"),
        ("true &&", (8, 26), "Syntax error"),
        ("size('a')", (8, 7), "is a int, not a bool"),
        ("true &&\n  job.devise == 1", (10, 15), "job has no devise"),
    ],
)
def test_a_condition_that_cannot_be_told_is_an_error_where_it_is_wrong(
    lint: Lint, expression: str, place: tuple[int, int], message: str
) -> None:
    written = f"|\n{expression}".replace("\n", "\n        ") if "\n" in expression else expression
    text = HEAD + f"    - name: one\n      expression: {written}\n"
    (found,) = json.loads(lint(text, options=("-o", "json")).stdout)["findings"]
    assert (found["severity"], found["rule"]) == ("error", "condition")
    assert message in found["message"]
    assert (found["line"], found["column"]) == place, found


HEAD = """\
apiVersion: samestep.dev/v1alpha1
kind: TrainingPolicy
metadata: {name: one}
spec:
  match:
    matchConditions:
"""


@pytest.mark.parametrize("written", ['"true \\u0026\\u0026 nonsense"', ">-\n        true &&\n        nonsense"])
def test_a_condition_whose_text_is_not_as_written_is_told_where_it_begins(lint: Lint, written: str) -> None:
    text = HEAD + f"    - name: one\n      expression: {written}\n"
    (found,) = json.loads(lint(text, options=("-o", "json")).stdout)["findings"]
    assert (found["line"], found["column"]) == (8, 19)


def test_a_loops_own_variable_is_no_variable_of_ours(told: Told) -> None:
    assert told(policy(match=conditioned("object.spec.all(job, job.device == 1)"))) == []


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ({}, {}, True),
        (TEAM, OTHER, False),
        (TEAM, {"objectSelector": {"matchLabels": {"team": "b"}}}, True),
        ({"kinds": ["Job.batch"]}, {"kinds": ["PyTorchJob.kubeflow.org"]}, False),
        ({"kinds": ["Job.batch"]}, {}, True),
        (conditioned("job.devices > 8"), conditioned("!(job.devices>8)"), False),
        (conditioned("job.devices > 8"), conditioned("job.devices <= 8"), True),
    ],
)
def test_equal_priorities_are_told_of_unless_they_are_sure_never_to_meet(
    told: Told, one: Json, other: Json, meet: bool
) -> None:
    rule = ["warning equal-priority metadata.name"] if meet else []
    assert [line for line in told(policy(match=one), policy("two", match=other)) if "equal" in line] == rule
    apart = told(policy(match=one), policy("two", match=other, priority=1))
    assert not [line for line in apart if "equal" in line]


def test_many_that_meet_are_told_in_one_line(lint: Lint) -> None:
    result = lint(*(policy(f"p{number}", codes=[{"code": "SST203", "action": "Deny"}]) for number in range(6)))
    assert "a job may be under p0, p1, p2 and 2 more as well, of the same priority" in result.stdout


@pytest.mark.parametrize(
    ("above", "below", "found"),
    [
        # Findings still count, and what is for all.
        ({}, {"codes": DENIES}, []),
        ({}, {"memory": {"onUnknown": "Deny"}}, []),
        ({}, {"modelLabels": ["gpu-type"]}, []),
        ({"validationActions": ["Warn"]}, {}, []),
        (
            {},
            {"pin": {"when": "Never"}, "codes": [{"code": "SST203", "action": "Deny"}]},
            ["warning no-effect spec.pin"],
        ),
        ({}, {"validationActions": ["Audit"]}, ["warning no-effect spec"]),
        ({"match": TEAM}, {"match": TEAM, "room": "Ignore"}, ["warning no-effect spec"]),
        # Not sure to be for all of its jobs.
        ({"match": TEAM}, {"room": "Ignore"}, []),
        ({"exceptions": "Allowed"}, {"room": "Ignore"}, []),
        ({"match": conditioned("job.devices > 1")}, {"room": "Ignore"}, []),
        ({"match": {"kinds": ["Job.batch"]}}, {"room": "Ignore", "match": {"kinds": ["Job.batch", "Pod"]}}, []),
        (
            {"match": {"kinds": ["Job.batch", "Pod"]}},
            {"room": "Ignore", "match": {"kinds": ["Job.batch"]} | conditioned("job.devices > 1")},
            ["warning no-effect spec"],
        ),
    ],
)
def test_a_policy_that_never_steers_is_told_what_of_it_has_no_effect(
    told: Told, above: Json, below: Json, found: list[str]
) -> None:
    assert told(policy(priority=9, **above), policy("two", **below)) == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"codes": [{"code": "SST203", "action": "Warn"}]}, ["warning no-effect spec.codes.0"]),
        ({"codes": [{"code": "SST204", "action": "Audit"}]}, ["warning no-effect spec.codes.0"]),
        ({"codes": [{"code": "SST203", "action": "Deny"}, {"code": "SST201", "action": "Warn"}]}, []),
        (
            {"codes": [{"code": "SST203", "action": "Deny"}], "memory": {"onUnknown": "Allow"}},
            ["warning no-effect spec.memory.onUnknown"],
        ),
        ({"memory": {"onUnknown": "Allow"}}, []),
    ],
)
def test_entries_of_codes_that_change_nothing(told: Told, spec: Json, found: list[str]) -> None:
    assert told(policy(**spec)) == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"until": "2027-01-15T07:59:59Z"}, ["warning expired spec.until"]),
        ({"until": "2027-01-15T08:00:01Z"}, []),
        ({"policies": ["one", "tow"]}, ["error unknown-policy spec.policies.1"]),
        ({"policies": ["closed"]}, ["error not-allowed spec.policies.0"]),
        ({"match": {"kinds": ["Jobs.batch"]}}, ["warning unknown-kind spec.match.kinds.0"]),
        ({"codes": ["SST201", "SST203", "SST302"]}, ["warning no-effect spec.codes.1"]),
    ],
)
def test_exceptions_that_do_not_count(told: Told, spec: Json, found: list[str]) -> None:
    assert told(policy(exceptions="Allowed"), policy("closed", priority=-1, codes=DENIES), exception(**spec)) == found


def test_a_policy_that_cannot_be_read_may_be_the_one_that_an_exception_names(told: Told) -> None:
    broken = policy("broken", room="Full")
    assert told(broken, exception(policies=["broken"])) == ["error invalid spec.room"]


@pytest.mark.parametrize(
    ("spec", "alone", "beside_nodes"),
    [
        ({"pin": {"keys": ["nvidia.com/gpu.product", "gpu-type"]}}, [], ["warning no-such-label spec.pin.keys.1"]),
        ({"modelLabels": ["gpu-type"]}, [], ["warning no-such-label spec.modelLabels.0"]),
        (
            {"pin": {"strategy": "Ordered", "order": ["L40S", "rtx-5090", "RTX-5090", "NVIDIA-GeForce-RTX-5090"]}},
            [],
            ["warning unknown-model spec.pin.order.0", "warning unknown-model spec.pin.order.1"],
        ),
        (
            {"likeness": {"classes": [["rtx-5090", "RTX-9999"]]}},
            ["warning unknown-model spec.likeness.classes.0.1"],
            ["warning unknown-model spec.likeness.classes.0.1"],
        ),
    ],
)
def test_names_are_looked_up_in_the_catalog_or_in_the_fleet(
    told: Told, spec: Json, alone: list[str], beside_nodes: list[str]
) -> None:
    assert told(policy(**spec)) == alone
    assert told(policy(**spec), fleet=True) == beside_nodes


def test_a_model_that_an_accelerator_of_the_set_adds_is_known(told: Told) -> None:
    spec = {"product": "ACME-1", "vendor": "NVIDIA", "source": "measured"}
    added = {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": "acme"}, "spec": spec}
    names = policy(pin={"strategy": "Ordered", "order": ["ACME-1"]})
    assert told(names) == ["warning unknown-model spec.pin.order.0"]
    assert told(names, added) == []


LARGE: Json = {"matchLabels": {"nvidia.com/gpu.memory": "97887"}}


@pytest.mark.parametrize(
    ("spec", "alone", "beside_nodes"),
    [
        ({"nodeSelector": NEVER}, ["error empty-pool spec.nodeSelector"], ["error empty-pool spec.nodeSelector"]),
        ({"nodeSelector": {"matchLabels": {"a": "b"}}}, [], ["warning empty-pool spec.nodeSelector"]),
        ({"nodeSelector": {"matchLabels": {"a": "b"}}, "capacity": {"max": 8}}, [], []),
        ({"nodeSelector": LARGE}, [], []),
        ({"nodeSelector": LARGE, "modelLabel": "gpu-type"}, [], ["warning no-such-label spec.modelLabel"]),
        (
            {"allowed": {"namespaceSelector": NEVER}},
            ["error pool-for-nobody spec.allowed.namespaceSelector"],
            ["error pool-for-nobody spec.allowed.namespaceSelector"],
        ),
        ({"allowed": {"namespaceSelector": NEVER, "groups": ["research"]}}, [], []),
    ],
)
def test_pools_without_nodes_or_for_nobody(told: Told, spec: Json, alone: list[str], beside_nodes: list[str]) -> None:
    assert told(pool(**spec)) == alone
    assert told(pool(**spec), fleet=True) == beside_nodes


def test_a_pool_for_namespaces_that_are_not_there_is_for_nobody(lint: Lint, tmp_path: Path) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "a"}}}
    write(tmp_path, {"namespaces.yaml": namespace})
    fleet = ("--fleet", "fleet/nodes.yaml", "--fleet", "namespaces.yaml")
    assert "[pool-for-nobody]" in lint(pool(allowed=OTHER), options=fleet).stdout
    assert "[pool-for-nobody]" not in lint(pool(allowed=TEAM), options=fleet).stdout


@pytest.mark.parametrize("example", OF_SETTINGS, ids=lambda one: f"{one.kind} {one.field}")
def test_there_is_an_answer_for_whatever_the_api_takes_or_refuses(lint: Lint, example: Example) -> None:
    result = lint(example.document, options=("--fleet", "fleet/nodes.yaml"))
    assert result.exit_code in (0, 1), result.output
    assert ("[invalid]" in result.stdout) == bool(example.field), result.output


def test_policy_tests_in_a_folder_are_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        {
            "policies/one.yaml": policy(),
            "policies/fleet.yaml": demo_nodes(),
            "policies/good.test.yaml": policy_test(case(jobs="fleet.yaml")),
            "policies/bad.test.yaml": policy_test(case(jobs="no.yaml")),
            "policies/worse.test.yaml": policy_test(case(expect={"verdict": "Maybe"})),
        },
    )
    result = CliRunner().invoke(main, ["lint"])
    assert result.exit_code == 1
    assert [line.split(" ", 1)[0] for line in result.stdout.splitlines()[:-1]] == [
        "policies/bad.test.yaml:11:7:",
        "policies/worse.test.yaml:13:7:",
    ]


def test_each_path_is_a_set_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"a/one.yaml": policy(), "b/one.yaml": policy()})
    assert CliRunner().invoke(main, ["lint", "--strict", "a", "b"]).exit_code == 0
    assert CliRunner().invoke(main, ["lint", "--strict", "."]).exit_code == 1


def test_what_people_read(lint: Lint, snapshot: SnapshotAssertion) -> None:
    result = lint(
        policy(match={"kinds": ["PytorchJob.kubeflow.org"]}),
        policy("shadowed", match=TEAM, priority=-1, room="Ignore", pin={"when": "Always"}, codes=DENIES),
        policy("ordered", pin={"strategy": "Ordered", "order": ["rtx-5090", "H100"]}),
        policy("wide", codes=[{"code": "SST203", "action": "Warn"}]),
        exception(policies=["wide", "tow"], until="2020-01-01T00:00:00Z", codes=["SST203"]),
        pool(nodeSelector={"matchLabels": {"a": "b"}}, allowed={"namespaceSelector": NEVER}),
        options=("--fleet", "fleet/nodes.yaml"),
    )
    assert result.exit_code == 1
    assert result.output == snapshot
