"""`samestep audit`: which of the jobs that are there are mixed, at risk or unpinned, and what policies would do."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.devices import allocation
from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.dumps import LARGE, SMALL, dump, owned_pod, running
from tests.queues import flavor, local, queue, queued
from tests.samples import Json, ask, demo_nodes, job, patched, pod, pytorchjob
from tests.unit.cli.folders import exception, policy, pool, write
from tests.unit.cluster.api_server import served
from webhook.cli import main
from webhook.cli.audited import Auditor, jobs_in
from webhook.cli.seen import seen_in

FLAVORS = {"small": RTX_5090.product, "large": RTX_PRO_6000.product}


def audit(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, words)])


def report(*words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit(*words, "-o", "json").stdout)
    return found


def found(*words: str | Path) -> dict[str, list[str]]:
    return {one["object"]["name"]: one["found"] for one in report(*words)["items"]}


def pinned(made: Json) -> Json:
    """As Samestep would have stored it."""
    return patched(ask(made))


def test_a_job_on_two_models_is_mixed_and_told_with_what_it_costs(tmp_path: Path) -> None:
    file = dump(tmp_path, running("spread", [SMALL[0], LARGE[0]], memory_per_device="20Gi"))

    result = audit("-f", file)

    assert result.exit_code == 1
    row = " ".join(" ".join(line.split()) for line in result.stdout.splitlines()[:4])
    assert "pytorchjob/spread Running" in row
    assert "SST308" in row
    item = report("-f", file)["items"][0]
    assert item["found"] == ["mixed", "unpinned", "wouldBePinned"]
    assert [one["pods"] for one in item["landed"]["models"]] == [1, 1]
    assert item["straggler"]["slow"] == "NVIDIA-GeForce-RTX-5090"


def test_where_it_matters_who_created_them_jobs_are_told_to_be_judged_as_nobodys(tmp_path: Path) -> None:
    jobs = [job(memory_per_device="20Gi", name="one"), job(memory_per_device="20Gi", name="two")]
    told = "2 of them were judged as if someone in no group had created it"
    open_to_all = dump(tmp_path, *jobs, policy())
    assert told not in " ".join(audit("-f", open_to_all).stdout.split())
    closed = dump(tmp_path, *jobs, policy(), pool(allowed={"groups": ["vision"]}))
    assert told in " ".join(audit("-f", closed).stdout.split())
    assert [one["asNobody"] for one in report("-f", closed)["items"]] == [True, True]


def test_a_pinned_job_on_one_model_is_nothing_to_find(tmp_path: Path) -> None:
    made = pinned(pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi"))
    pods = [owned_pod(made, f"w{index}", node) for index, node in enumerate(SMALL)]
    file = dump(tmp_path, made, pods)

    result = audit("-f", file)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split() == ["JOBS", "WHAT", "OF", "THEM"]
    assert found("-f", file) == {"ddp": []}
    assert "pytorchjob/ddp" in audit("-f", file, "--all").stdout


def test_a_jobs_own_pods_take_no_room_from_it(tmp_path: Path) -> None:
    """Both models are full of its own pods and of another's: without its own the small one is free, and is chosen."""
    mine = running("mine", SMALL, memory_per_device="20Gi")
    other = running("other", LARGE, memory_per_device="20Gi")
    items = {one["object"]["name"]: one for one in report("-f", dump(tmp_path, mine, other))["items"]}

    free = {one["model"]: one["devicesNow"] for one in items["mine"]["pool"]["candidates"]}
    assert free == {"NVIDIA-GeForce-RTX-5090": 8, "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": 0}
    assert items["mine"]["models"] == ["NVIDIA-GeForce-RTX-5090"]
    assert items["other"]["models"] == ["NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"]
    assert "SST402" not in [one["code"] for one in items["mine"]["findings"]]


def test_the_models_it_is_on_or_may_come_to_are_a_risk_where_they_are_too_small(tmp_path: Path) -> None:
    """Each has the large model for itself; what is not pinned may come to the small one when it starts again."""
    lucky = running("lucky", LARGE[:1], memory_per_device="40Gi")
    safe = pinned(pytorchjob(pod(gpus=4), workers=2, name="safe", memory_per_device="40Gi"))
    file = dump(tmp_path, pytorchjob(pod(gpus=4), workers=2, name="waits", memory_per_device="40Gi"), lucky, safe)

    told = found("-f", file)

    assert "atRisk" in told["waits"]
    assert told["safe"] == []
    tight = running("tight", SMALL, spec=pod(gpus=4, nodeSelector={"kubernetes.io/os": "linux"}))
    tight[0]["metadata"]["annotations"] = {"samestep.dev/memory-per-device": "31Gi"}
    assert "atRisk" in found("-f", dump(tmp_path, tight))["tight"]


def test_pods_belong_to_the_outermost_job_however_many_controllers_stand_between(tmp_path: Path) -> None:
    template = {"metadata": {}, "spec": job(pod(gpus=4), pods=2)["spec"]}
    outer = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "outer", "namespace": "team-a"},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": template}]},
    }
    inner = job(pod(gpus=4), pods=2, name="outer-w-0")
    reference = {"apiVersion": outer["apiVersion"], "kind": "JobSet", "name": "outer", "uid": "u", "controller": True}
    inner["metadata"]["ownerReferences"] = [reference]
    pods = [owned_pod(inner, "p0", SMALL[0]), owned_pod(inner, "p1", LARGE[0])]

    items = report("-f", dump(tmp_path, outer, inner, pods))["items"]

    assert [one["object"]["name"] for one in items] == ["outer"]
    assert sum(one["pods"] for one in items[0]["landed"]["models"]) == 2


def test_bare_pods_of_one_group_are_one_job(tmp_path: Path) -> None:
    pods = []
    for index, node in enumerate((SMALL[0], LARGE[0])):
        made = owned_pod(pytorchjob(), f"rank-{index}", node, labels={"scheduling.x-k8s.io/pod-group": "ring"})
        del made["metadata"]["ownerReferences"]
        pods.append(made)

    items = report("-f", dump(tmp_path, pods))["items"]

    assert [(one["object"]["name"], one["found"][0]) for one in items] == [("rank-0", "mixed")]


def test_finished_jobs_and_what_serves_are_left_out(tmp_path: Path) -> None:
    done = running("done", [SMALL[0], LARGE[0]])
    done[0]["status"]["conditions"] = [{"type": "Succeeded", "status": "True"}]
    server = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "api", "namespace": "team-a"}}
    cpu = job(pod(gpus=0), name="cpu")
    file = dump(tmp_path, done, owned_pod(server, "api-1", SMALL[0]), cpu)

    result = audit("-f", file)

    assert result.exit_code == 0
    assert report("-f", file)["summary"]["jobs"] == 0


def test_what_would_be_denied_is_counted_by_code_and_namespace(tmp_path: Path) -> None:
    """Under an Audit policy as well: what it would do as a Deny policy is what is asked."""
    write(tmp_path, {"policies/one.yaml": policy(validationActions=["Audit"])})
    huge = [pytorchjob(name=f"huge-{index}", memory_per_device="200Gi") for index in range(2)]
    wide = pytorchjob(pod(gpus=4), workers=3, name="wide", memory_per_device="20Gi")
    wide["metadata"]["namespace"] = "team-b"
    file = dump(tmp_path, huge, wide)

    told = report("-f", file, "--policies", tmp_path / "policies")

    assert told["summary"]["denied"] == [
        {"code": "SST201", "namespace": "team-a", "jobs": 2},
        {"code": "SST401", "namespace": "team-b", "jobs": 1},
    ]
    assert {one["policy"] for one in told["items"]} == {"one"}
    lines = [line.split() for line in audit("-f", file).stdout.splitlines()]
    assert ["2", "SST201", "team-a"] in lines
    assert found("-f", file, "-n", "team-b") == {"wide": ["unpinned", "wouldBeDenied"]}


def test_policies_and_exceptions_of_a_dump_count(tmp_path: Path) -> None:
    own = [policy(exceptions="Allowed"), exception(codes=["SST201"], match={"names": ["ddp"]})]
    told = report("-f", dump(tmp_path, own, pytorchjob(memory_per_device="200Gi")))
    assert told["summary"]["found"]["wouldBeDenied"] == 0
    assert told["items"][0]["policy"] == "one"


def test_a_policy_of_a_dump_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    told = report("-f", dump(tmp_path, policy(pin={"when": "Sometimes"})))
    assert [one["source"] for one in told["errors"]] == ["TrainingPolicy one"]


def test_a_role_that_stands_apart_is_no_part_of_a_mix(tmp_path: Path) -> None:
    tf = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "tf", "namespace": "team-a"},
        "spec": {
            "tfReplicaSpecs": {
                "Worker": {"replicas": 2, "template": {"spec": pod(gpus=4)}},
                "Evaluator": {"replicas": 1, "template": {"spec": pod(gpus=1)}},
            }
        },
    }
    key = "training.kubeflow.org/replica-type"
    pods = [owned_pod(tf, f"w{index}", node, labels={key: "worker"}) for index, node in enumerate(SMALL)]
    evaluator = owned_pod(tf, "e0", LARGE[0], gpus=1, labels={key: "evaluator"})
    assert "mixed" not in found("-f", dump(tmp_path, tf, pods, evaluator))["tf"]


def test_bad_input_ends_with_status_2_and_the_rest_is_told(tmp_path: Path) -> None:
    file = dump(tmp_path, running("spread", [SMALL[0], LARGE[0]]))
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: [")
    result = audit("-f", file, "-f", bad)
    assert result.exit_code == 2
    assert "unreadable: bad.yaml" in result.stderr
    assert "pytorchjob/spread" in result.stdout
    assert audit("-f", file, "--context", "a").exit_code == 2


async def test_a_live_cluster_is_read_in_pages_and_only_what_it_serves(tmp_path: Path) -> None:
    """The jobs and pods of the test API server, whose pages hold two objects."""
    objects = [
        *yaml.safe_load_all(
            dump(tmp_path, *(running(f"j{index}", [SMALL[0], LARGE[0]]) for index in range(3))).read_text()
        )
    ]
    paths = {
        "Node": "/api/v1/nodes",
        "Pod": "/api/v1/pods",
        "PyTorchJob": "/apis/kubeflow.org/v1/pytorchjobs",
    }
    async with served(tmp_path) as (api, kubeconfig):
        collections = {kind: api.serve(path, kind) for kind, path in paths.items()}
        for one in objects:
            collections[one["kind"]].put(one)
        words = ("--kubeconfig", kubeconfig, "-o", "json")
        result = await asyncio.to_thread(audit, *words)
        assert result.exit_code == 1, result.output
        told = json.loads(result.stdout)
        assert [one["object"]["name"] for one in told["items"]] == ["j0", "j1", "j2"]
        assert {one["found"][0] for one in told["items"]} == {"mixed"}
        assert not [path for path in api.asked if "tfjobs" in path or "jobsets/" in path]
        collections["PyTorchJob"].refuses = 403
        refused = await asyncio.to_thread(audit, *words)
        assert refused.exit_code == 2
        assert json.loads(refused.stdout)["errors"][0]["message"] == "may not be listed"


def test_a_queue_that_gives_one_flavor_of_one_model_leaves_nothing_unpinned(tmp_path: Path) -> None:
    flavors = [flavor(name, {"nvidia.com/gpu.product": product}) for name, product in FLAVORS.items()]
    made = queued(job(pod(gpus=4), pods=2, memory_per_device="20Gi"))
    assert found("-f", dump(tmp_path, made, flavors, queue({"small": 8, "large": 8}), local())) == {"ddp": []}
    assert found("-f", dump(tmp_path, made))["ddp"] == ["unpinned", "wouldBePinned"]


def test_models_that_count_as_one_are_no_mix_and_what_is_meant_is_none_either(tmp_path: Path) -> None:
    spread = running("spread", [SMALL[0], LARGE[0]], allow_mixed="a benchmark of both")
    alike = policy(likeness={"classes": [list(FLAVORS.values())]})
    meant = policy(annotations={"allowMixed": True})
    assert "mixed" in found("-f", dump(tmp_path, spread))["spread"]
    assert found("-f", dump(tmp_path, spread, alike))["spread"] == []
    assert found("-f", dump(tmp_path, spread, meant))["spread"] == []


def test_a_policy_that_denies_what_is_tight_is_counted_as_it_denies(tmp_path: Path) -> None:
    strict = policy(codes=[{"code": "SST202", "action": "Deny"}], likeness={"classes": [list(FLAVORS.values())]})
    lucky = running("lucky", LARGE[:1] * 2, memory_per_device="93Gi")
    told = report("-f", dump(tmp_path, lucky, strict))
    assert told["summary"]["denied"] == [{"code": "SST202", "namespace": "team-a", "jobs": 1}]


def test_what_the_claims_of_its_own_pods_hold_takes_no_room_from_it(tmp_path: Path) -> None:
    def claim(of: str, node: str) -> Json:
        held = allocation(node, *(f"gpu-{index}" for index in range(4)))
        status = {"allocation": held, "reservedFor": [{"resource": "pods", "name": of, "uid": "u"}]}
        metadata = {"name": f"{of}-gpus", "namespace": "team-a", "uid": f"claim of {of}"}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "status": status}

    made = running("mine", SMALL, memory_per_device="20Gi")
    claims = [claim(f"mine-worker-{index}", node) for index, node in enumerate(SMALL)]
    seen = seen_in([dump(tmp_path, made, claims)], [], None)
    (owned,) = jobs_in(seen)
    used = {name: dict(amounts) for name, amounts in seen.known.usage.used.items()}
    assert used[SMALL[0]]["gpu.nvidia.com"] == 4
    Auditor(seen).judge(owned)
    assert {name: dict(amounts) for name, amounts in seen.known.usage.used.items()} == used
    assert len(list(Auditor(seen)._taking(owned.pods[0]))) == 2


PLACES = st.lists(st.integers(0, 30), max_size=6)
WRONG: st.SearchStrategy[object] = st.sampled_from(
    [None, 0, True, "", "x", [], {}, [None], [{}], {"a": 1}, "2027-01-01T00:00:00Z", 1e400]
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(number=st.integers(0, 10), places=PLACES, wrong=WRONG)
def test_a_dump_of_any_shape_is_answered(number: int, places: list[int], wrong: object, tmp_path: Path) -> None:
    """One value anywhere in it is another one."""
    made = pinned(pytorchjob(pod(gpus=4), workers=2, memory_per_device="20Gi"))
    whole = [*running("spread", [SMALL[0], LARGE[0]]), made, owned_pod(made, "p"), *demo_nodes()]
    value: Any = whole[number % len(whole)]
    for place in places:
        inner = [key for key, one in _entries(value) if isinstance(one, dict | list) and one]
        if not inner:
            break
        value = value[inner[place % len(inner)]]
    keys = [key for key, _ in _entries(value) if key not in ("apiVersion", "kind")]
    if keys:
        value[keys[len(places) % len(keys)]] = wrong
    file = dump(tmp_path, whole, nodes=[])
    for words in (["audit", "-f", str(file)], ["explain", "pytorchjob/spread", "-n", "team-a", "-f", str(file)]):
        result = CliRunner().invoke(main, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in (0, 1, 2)


def _entries(value: object) -> list[tuple[Any, object]]:
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_one_document(tmp_path: Path, output: str) -> None:
    told = yaml.safe_load(audit("-f", dump(tmp_path, running("a", SMALL)), "-o", output).stdout)
    assert told["kind"] == "AuditReport"
    assert set(told["summary"]["found"]) == {"mixed", "atRisk", "unpinned", "wouldBeDenied", "wouldBePinned"}
