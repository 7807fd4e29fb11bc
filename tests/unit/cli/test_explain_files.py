"""`samestep explain -f`: what was read, from where, and what was left out, as a person would check it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from tests.samples import Json, job, pod, pytorchjob
from tests.unit.policy.test_kinds import ENTRY, document
from webhook.cli import main

Explain = Callable[..., Result]


@pytest.fixture
def explain(tmp_path: Path) -> Explain:
    def run(*objects: Json, options: tuple[str, ...] = ()) -> Result:
        file = tmp_path / "jobs.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        return CliRunner().invoke(main, ["explain", "-f", str(file), *options], catch_exceptions=False)

    return run


def items(result: Result) -> Any:  # noqa: ANN401 - JSON
    return json.loads(result.stdout)["items"]


def wrapped(kind: str, api_version: str, spec: Json) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "outer", "namespace": "team-a"},
        "spec": spec,
    }


def full() -> Json:
    """A job that says much, and some of it where it cannot be read."""
    command = (
        *("accelerate", "launch", "--config_file=/etc/a.yaml", "run_clm.py", "--model_name_or_path=Qwen/Qwen2.5-7B"),
        *("--per_device_train_batch_size=$(BATCH)", "--gradient_accumulation_steps=4", "--bf16", "--fsdp=full_shard"),
        *("--block_size=2048", "--optim=adamw_of_ours", "--deepspeed=ds.json", "$(EXTRA)"),
    )
    spec = pod(
        command=command,
        nodeSelector={"pool": "gpu"},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "value": "a"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                        {"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]},
                    ]
                }
            }
        },
    )
    (trainer,) = spec["containers"]
    trainer["env"] = [
        {"name": "BATCH", "value": "8"},
        {"name": "EXTRA", "valueFrom": {"configMapKeyRef": {"name": "run", "key": "extra"}}},
    ]
    trainer["envFrom"] = [{"configMapRef": {"name": "defaults"}}]
    spec["containers"].append({"name": "metrics", "image": "registry.example/metrics:1"})
    spec["initContainers"] = [{"name": "fetch", "image": "registry.example/fetch:1"}]
    obj = pytorchjob(spec, workers=4, name="full", coupling="Independent", memory_per_device="44Gi", micro_batch="8")
    obj["spec"]["runPolicy"] = {"suspend": True}
    return obj


def test_a_job_that_says_much(explain: Explain, snapshot: SnapshotAssertion) -> None:
    assert explain(full()).stdout == snapshot


def test_a_job_that_says_little(explain: Explain, snapshot: SnapshotAssertion) -> None:
    assert explain(job(pod(command=()), name="little")).stdout == snapshot


def test_a_launcher_without_devices_speaks_for_the_job(explain: Explain, snapshot: SnapshotAssertion) -> None:
    launcher = pod(gpus=0, command=("mpirun", "-np", "8", "python", "train.py", "--batch-size=32"))
    roles = {
        "Launcher": {"replicas": 1, "template": {"spec": launcher}},
        "Worker": {"replicas": 2, "template": {"spec": pod(gpus=4, command=("sshd", "-D"))}},
    }
    assert explain(wrapped("MPIJob", "kubeflow.org/v2beta1", {"mpiReplicaSpecs": roles})).stdout == snapshot


def test_a_wrapper_shows_each_object_that_it_holds(explain: Explain, snapshot: SnapshotAssertion) -> None:
    cron = wrapped("CronJob", "batch/v1", {"jobTemplate": {"spec": job(pod())["spec"]}})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    components = [{"template": one} for one in (cron, pytorchjob(), service)]
    outer = wrapped("AppWrapper", "workload.codeflare.dev/v1beta2", {"components": components})
    assert explain(outer).stdout == snapshot


def test_a_train_job_is_read_with_the_runtime_that_it_names_and_not_without(snapshot: SnapshotAssertion) -> None:
    case = Path(__file__).parents[2] / "corpus" / "train-job-with-only-a-runtime"
    for files in (["trainjob.yaml"], ["trainjob.yaml", "runtime.yaml"]):
        words = [word for name in files for word in ("-f", str(case / name))]
        assert CliRunner().invoke(main, ["explain", *words], catch_exceptions=False).stdout == snapshot


def test_a_kind_that_is_not_known_says_so_and_how_to_teach_it(explain: Explain, snapshot: SnapshotAssertion) -> None:
    assert explain(wrapped("Trainer", "example.com/v1", {"template": {"spec": pod()}})).stdout == snapshot


def test_what_is_none_of_our_business_says_why(explain: Explain, snapshot: SnapshotAssertion) -> None:
    server = wrapped("Deployment", "apps/v1", {"template": {"spec": pod()}})
    set_ = wrapped("StatefulSet", "apps/v1", {"replicas": 2, "template": {"spec": pod()}})
    group = wrapped(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod(command=("serve",))}}},
    )
    assert explain(server, set_, group, job(pod(gpus=0))).stdout == snapshot


def test_what_cannot_be_read_is_told_with_its_field(explain: Explain, snapshot: SnapshotAssertion) -> None:
    wrong, unreadable = pytorchjob(), pytorchjob(memory_per_device="lots", memori_per_device="1Gi")
    wrong["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "two"
    assert explain(wrong, unreadable).stdout == snapshot


def test_the_pin_of_an_earlier_answer_and_the_state_are_shown(explain: Explain) -> None:
    record = json.dumps({"key": "gpu", "values": ["A"], "policy": "p"})
    obj = pytorchjob(pinned=record)
    obj["status"] = {"startTime": "2027-01-01T00:00:00Z", "conditions": [{"type": "Running"}]}
    (item,) = items(explain(obj, options=("-o", "json")))
    assert item["state"] == {"suspended": False, "started": True, "templateFixed": False}
    assert {
        "what": "pinned before",
        "value": "gpu: A",
        "by": "samestep.dev/pinned",
        "field": "metadata.annotations[samestep.dev/pinned]",
        "note": None,
    } in item["read"]


def test_a_wish_counts_where_policy_lets_it(explain: Explain, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    spec = {"annotations": {"coupling": True, "declare": False}}
    file.write_text(yaml.safe_dump({**document(), "spec": spec}))
    for options, applied, notes in (
        ((), "Synchronous", ["does not count: policy", None]),
        (("--policies", str(file)), "Independent", [None, "does not count: policy"]),
    ):
        (item,) = items(explain(full(), options=("-o", "json", *options)))
        assert item["coupling"]["applied"] == applied
        by = {fact["by"]: fact["note"] for fact in item["read"]}
        assert [by["samestep.dev/coupling"], by["samestep.dev/memory-per-device"]] == notes


def test_what_the_submitter_asks_for_is_shown_with_whether_it_counts(explain: Explain) -> None:
    wishes = {"model": "RTX-5090", "pool": "gold", "sized-for": "80Gi", "ignore": "a trial", "allow-mixed": "a trial"}
    obj = job()
    obj["metadata"]["annotations"] = {f"samestep.dev/{name}": value for name, value in wishes.items()}
    (item,) = items(explain(obj, options=("-o", "json")))
    facts = {one["by"]: (one["what"], one["value"], one["note"]) for one in item["read"]}
    uncounted = "does not count: policy"
    assert {
        name.partition("/")[2]: fact for name, fact in facts.items() if name and name.startswith("samestep.dev")
    } == {
        "model": ("model", "RTX-5090", None),
        "pool": ("pool", "gold", None),
        "sized-for": ("sized for", "80 GiB", None),
        "ignore": ("left alone", "a trial", uncounted),
        "allow-mixed": ("mixed", "a trial", uncounted),
    }


def test_a_taught_kind_is_read_as_the_policy_says(explain: Explain, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(document(ENTRY)))
    group = {"name": "rank", "scale": {"replicas": 4}, "pod": {"spec": pod()}}
    obj = wrapped("TrainingRun", "ml.example.com/v1", {"groups": [group]})
    said = explain(obj, options=("--policies", str(file))).stdout
    assert "read as TrainingRun of ml.example.com/v1, as the policy teaches" in said
    (item,) = items(explain(obj, options=("--policies", str(file), "-o", "json")))
    assert item["entry"]["taught"] is True
    assert [(role["name"], role["pods"], role["podSpec"]) for role in item["roles"]] == [
        ("rank", 4, "spec.groups[0].pod.spec")
    ]


KEYS = {
    *("source", "object", "at", "outside", "entry", "coupling", "roles", "state", "group", "childOf"),
    *("read", "ignored", "containers", "findings", "holds", "decision"),
}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_every_key_is_always_there(explain: Explain, output: str) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    cron = wrapped("CronJob", "batch/v1", {"jobTemplate": {"spec": job(pod())["spec"]}})
    result = explain(full(), service, cron, options=("-o", output))
    whole = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert set(whole) == {"apiVersion", "kind", "items", "errors"}
    assert (whole["apiVersion"], whole["kind"]) == ("samestep.dev/v1alpha1", "ReadingList")
    for item in whole["items"]:
        assert set(item) == KEYS
    (inner,) = whole["items"][2]["holds"]
    assert set(inner) == KEYS - {"source"}


def test_places_in_json_are_whole(explain: Explain) -> None:
    (item,) = items(explain(full(), options=("-o", "json")))
    by = {one["by"]: one["field"] for one in item["read"]}
    spec = "spec.pytorchReplicaSpecs.Worker.template.spec"
    assert by["--per_device_train_batch_size"] == f"{spec}.containers[0].env[0].value"
    (extra,) = [one for one in item["ignored"] if one["what"] == "EXTRA"]
    assert extra["field"] == f"{spec}.containers[0].env"


def test_a_file_that_cannot_be_read_is_an_error_beside_the_rest(explain: Explain) -> None:
    result = explain({"apiVersion": "v1"}, pytorchjob())
    assert result.exit_code == 2
    assert "unreadable: jobs.yaml#0: kind: expected a string, got nothing" in result.stderr
    assert "PyTorchJob team-a/ddp" in result.stdout


def test_lines_are_no_longer_than_120_columns(explain: Explain) -> None:
    assert max(map(len, explain(full()).stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("SST201", "-f", "x.yaml"), "CODE or -f, one of them"),
        (("-o", "json"), "--fleet and -o go with -f"),
        (("SST201", "-o", "json"), "--fleet and -o go with -f"),
        (("-f", "x.yaml", "--lang", "ko"), "--lang goes with CODE"),
    ],
)
def test_options_that_do_not_go_together_are_an_error(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["explain", *words])
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_admission_review_is_read_as_its_object(explain: Explain) -> None:
    asked = {
        "uid": "1",
        "kind": {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"},
        "resource": {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"},
        "namespace": "team-b",
        "operation": "CREATE",
        "userInfo": {"username": "user@example.com"},
        "object": pytorchjob(),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    assert "PyTorchJob team-b/ddp" in explain(review).stdout
    assert explain({**review, "request": {**asked, "operation": "PATCH"}}).exit_code == 2


def test_a_file_in_a_config_map_is_read_where_the_policy_lets_it_as_the_webhook_does(tmp_path: Path) -> None:
    spec = pod(
        gpus=8,
        command=["deepspeed", "train.py", "--deepspeed_config", "/etc/ds/ds.json"],
        volumes=[{"name": "ds", "configMap": {"name": "ds"}}],
    )
    spec["containers"][0]["volumeMounts"] = [{"name": "ds", "mountPath": "/etc/ds"}]
    settings = {"ds.json": '{"train_micro_batch_size_per_gpu": 24}'}
    metadata = {"name": "ds", "namespace": "team-a"}
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": settings}
    file, policy = tmp_path / "job.yaml", tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump_all([pytorchjob(spec), held]))
    named = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": {"name": "reads"}}
    policy.write_text(yaml.safe_dump(named | {"spec": {"configMaps": True}}))

    def told(*options: str) -> str:
        return CliRunner().invoke(main, ["explain", "-f", str(file), *options]).stdout

    assert "none found" in told()
    assert "micro-batch" in told("--policies", str(policy))
    assert "24" in told("--policies", str(policy))
