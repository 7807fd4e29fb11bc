"""`samestep explain TYPE/NAME`: what of a job that is there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.dumps import LARGE, SMALL, dump, owned_pod, running
from tests.samples import Json, ask, job, patched, pod, pytorchjob
from tests.unit.cli.folders import policy, pool
from tests.unit.cluster.api_server import served
from webhook.cli import main


def explain(named: str, *words: str | Path) -> Result:
    return CliRunner().invoke(main, ["explain", named, "-n", "team-a", *map(str, words)])


def live(named: str, *words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explain(named, *words, "-o", "json").stdout)["items"][0]
    return found


def pinned(*, started: bool = True) -> list[Json]:
    """Pinned to the small model; one of its two pods has a node, the other waits."""
    made = patched(ask(pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi")))
    if started:
        made["status"] = {"startTime": "2027-01-01T00:00:00Z"}
    return [made, owned_pod(made, "ddp-0", SMALL[0]), owned_pod(made, "ddp-1")]


def queued() -> list[Json]:
    held = job(pod(gpus=4), pods=2, name="queued")
    held["spec"]["suspend"] = True
    held["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "queued", "uid": "u", "controller": True}
    condition = {"type": "QuotaReserved", "status": "False", "message": "insufficient unused quota"}
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "job-queued", "namespace": "team-a", "ownerReferences": [owner]},
        "status": {"conditions": [condition]},
    }
    return [held, workload]


def test_a_pinned_job_is_told_with_its_pin_its_pods_and_the_schedulers_own_word(tmp_path: Path) -> None:
    result = explain("pytorchjob/ddp", "-f", dump(tmp_path, pinned()))

    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "pytorchjob/ddp namespace team-a"
    assert "Pin: nvidia.com/gpu.product = NVIDIA-GeForce-RTX-5090, by policy one-model-per-job" in lines
    assert f"ddp-0 {SMALL[0]} RTX-5090" in lines
    assert "ddp-1 none yet" in lines
    assert "1 scheduler Unschedulable: 0/4 nodes are available: 4 Insufficient GPUs." in lines
    assert any(line.startswith("Decided again now, without the pin that it has") for line in lines)
    # The reason of the choice, and what is free now without its own pods.
    assert "Choice among RTX-5090, RTX-PRO-6000-Blackwell-Server:" in lines
    assert "RTX-5090 31.8 GiB 31.2 GiB 2 8 8 –" in lines


def test_where_it_matters_who_created_it_that_is_said_to_be_unknown(tmp_path: Path) -> None:
    closed = dump(tmp_path, pinned(), policy(), pool(allowed={"groups": ["vision"]}))
    told = " ".join(explain("pytorchjob/ddp", "-f", closed).stdout.split())
    assert "whoever created it may be in a group that pools or policies ask for, which is not known here:" in told
    assert live("pytorchjob/ddp", "-f", closed)["live"]["decidedAsNobody"] is True
    assert live("pytorchjob/ddp", "-f", dump(tmp_path, pinned()))["live"]["decidedAsNobody"] is False


@pytest.mark.parametrize("named", ["pytorchjobs/ddp", "PyTorchJob/ddp", "pytorchjobs.kubeflow.org/ddp", "pod/ddp-1"])
def test_a_job_is_found_by_any_name_of_its_kind_and_by_its_pods(named: str, tmp_path: Path) -> None:
    told = live(named, "-f", dump(tmp_path, pinned()))
    assert told["object"]["name"] == "ddp"
    assert told["live"]["pinned"]["holds"] is True
    assert told["live"]["landed"]["models"] == [{"model": "NVIDIA-GeForce-RTX-5090", "pods": 1}]
    assert told["live"]["landed"]["withoutNode"] == 1


def test_a_record_without_its_selectors_does_not_hold(tmp_path: Path) -> None:
    made = pinned()
    del made[0]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"]
    result = explain("pytorchjob/ddp", "-f", dump(tmp_path, made))
    assert "recorded, and its selectors do not require it any more" in result.stdout
    assert live("pytorchjob/ddp", "-f", dump(tmp_path, made))["live"]["decidedWithoutPin"] is False


def test_a_pin_over_several_values_is_taken_out_of_the_affinity(tmp_path: Path) -> None:
    made, *_ = pinned()
    spec = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    del spec["nodeSelector"]
    values = sorted(["NVIDIA-GeForce-RTX-5090", "NVIDIA-RTX-5090-alias"])
    key = "nvidia.com/gpu.product"
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    path = "requiredDuringSchedulingIgnoredDuringExecution"
    spec["affinity"] = {"nodeAffinity": {path: {"nodeSelectorTerms": [term]}}}
    record = json.dumps({"key": key, "values": values, "policy": "p"})
    made["metadata"]["annotations"]["samestep.dev/pinned"] = record
    told = live("pytorchjob/ddp", "-f", dump(tmp_path, made))
    assert told["live"]["decidedWithoutPin"] is True
    assert len(told["decision"]["landings"][0]["models"]) == 2


def test_a_queue_says_why_a_suspended_job_waits(tmp_path: Path) -> None:
    told = live("job/queued", "-f", dump(tmp_path, queued()))["live"]
    assert told["state"] == "Suspended"
    assert [(one["by"], one["message"]) for one in told["waiting"]] == [
        ("its own object", "held back; its queue is training"),
        ("Workload", "QuotaReserved: insufficient unused quota"),
    ]


def test_a_quota_that_refuses_pods_is_told_by_the_last_event(tmp_path: Path) -> None:
    made, *_ = running("ddp", SMALL)
    events = [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{hour}", "namespace": "team-a"},
            "type": "Warning",
            "reason": "FailedCreate",
            "message": f"exceeded quota at {hour}",
            "involvedObject": {"kind": "PyTorchJob", "name": "ddp"},
            "lastTimestamp": f"2027-01-01T{hour}:00:00Z",
        }
        for hour in ("11", "12", "10")
    ]
    told = live("pytorchjob/ddp", "-f", dump(tmp_path, made, events))["live"]
    assert [one["message"] for one in told["waiting"]] == ["exceeded quota at 12"]


@pytest.mark.parametrize(
    ("objects", "named", "move"),
    [
        (pinned(), "pytorchjob/ddp", "a change of its template counts for pods made from then on"),
        (pinned(), "pytorchjob/ddp", 'create it with the annotation samestep.dev/model: "NVIDIA-RTX-PRO-6000'),
        (queued(), "job/queued", "it has not started: change the nodeSelector of Job"),
        ([job(pod(gpus=4), pods=2)], "job/ddp", "its pod template cannot change any more: delete job/ddp"),
    ],
)
def test_how_a_job_can_be_moved_depends_on_its_kind_and_state(
    objects: list[Json], named: str, move: str, tmp_path: Path
) -> None:
    assert any(move in line for line in live(named, "-f", dump(tmp_path, objects))["live"]["moves"])


def test_a_mixed_job_is_told_where_it_is_and_what_that_costs(tmp_path: Path) -> None:
    result = explain("pytorchjob/spread", "-f", dump(tmp_path, running("spread", [SMALL[0], LARGE[0]])))
    assert "SST308 runs on several GPU models: RTX-5090 x1, RTX-PRO-6000-Blackwell-Server x1" in result.stdout
    assert "wait 0–55 % of each step" in result.stdout


@pytest.mark.parametrize(
    ("named", "told"),
    [("pytorchjob/none", "there is no pytorchjob/none"), ("gadget/ddp", 'no kind of job is called "gadget"')],
)
def test_what_is_not_there_ends_with_status_2(named: str, told: str, tmp_path: Path) -> None:
    result = explain(named, "-f", dump(tmp_path, pinned()))
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_namespace_that_is_not_there_is_told_and_where_there_is_such_a_job(tmp_path: Path) -> None:
    file = dump(tmp_path, pinned(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    elsewhere, nowhere = (explain(f"pytorchjob/{name}", "-f", file, "-n", "team-b") for name in ("ddp", "none"))
    assert elsewhere.stderr == "Error: there is no namespace team-b; there is one in team-a (-n)\n"
    assert nowhere.stderr == "Error: there is no namespace team-b\n"
    audited = CliRunner().invoke(main, ["audit", "-f", str(file), "-n", "team-b"])
    assert (audited.exit_code, audited.stderr.splitlines()[-1]) == (2, "Error: there is no namespace team-b")


def test_a_dump_need_not_have_the_namespace_of_a_job_that_is_in_it(tmp_path: Path) -> None:
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}
    file = dump(tmp_path, pinned(), other)
    assert CliRunner().invoke(main, ["audit", "-f", str(file), "-n", "team-a"]).exit_code == 0


async def test_a_job_of_a_live_cluster_is_found_with_what_its_namespace_says_of_it(tmp_path: Path) -> None:
    objects = [*yaml.safe_load_all(dump(tmp_path, queued()).read_text())]
    paths = {
        "Node": "/api/v1/nodes",
        "Pod": "/api/v1/pods",
        "Job": "/apis/batch/v1/jobs",
        "Workload": "/apis/kueue.x-k8s.io/v1beta1/workloads",
    }
    async with served(tmp_path) as (api, kubeconfig):
        collections = {kind: api.serve(path, kind) for kind, path in paths.items()}
        for one in objects:
            collections[one["kind"]].put(one)
        told = await asyncio.to_thread(live, "job/queued", "--kubeconfig", kubeconfig)
        assert [one["by"] for one in told["live"]["waiting"]] == ["its own object", "Workload"]
        assert "/apis/kueue.x-k8s.io/v1beta1/namespaces/team-a/workloads" in api.asked
