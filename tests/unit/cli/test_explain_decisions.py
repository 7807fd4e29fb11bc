"""`samestep explain -f --fleet`: how a job is decided, as a person and as a program reads it."""

import json
import re
import time
from collections.abc import Callable
from copy import deepcopy
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from controlplane.nodes import A100_80GB, H100, RTX_5090, RTX_PRO_6000
from tests.profiles import profile, recipe
from tests.samples import Json, ask, job, nodes, patched, pod, pytorchjob
from webhook.cli import main, stories
from webhook.decision.notes import Criterion, Refused, Rule, Tried, Unpinned
from webhook.decision.scope import Treatment
from webhook.model.profile import Observation, OutOfMemory, day
from webhook.model.verdict import Out
from webhook.policy.training_profile import document_of

Explain = Callable[..., Result]
PRODUCT = "nvidia.com/gpu.product"
KEYS = {
    *("treatment", "rules", "landings", "demandParts", "reserveMib", "gates"),
    *("kept", "choice", "keys", "unpinned", "acceleratorPools", "review"),
}


def many() -> list[Json]:
    """Nodes of four models: some in another zone, some tainted, one whose model nothing tells."""
    known = nodes((RTX_5090, 4, 4), (H100, 3, 8), (A100_80GB, 3, 8), (RTX_PRO_6000, 2, 4))
    for index, one in enumerate(known):
        one["metadata"]["labels"]["zone"] = "ab"[index % 5 == 0]
    known[4]["spec"]["taints"] = [{"key": "dedicated", "value": "infra", "effect": "NoSchedule"}]
    del known[9]["metadata"]["labels"][PRODUCT]
    return known


@pytest.fixture
def explain(tmp_path: Path) -> Explain:
    def run(*objects: Json, known: list[Json] | None = None, options: tuple[str, ...] = ()) -> Result:
        file, fleet = tmp_path / "jobs.yaml", tmp_path / "fleet.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        fleet.write_text(yaml.safe_dump_all(many() if known is None else known))
        words = ["explain", "-f", str(file), "--fleet", str(fleet), *options]
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return run


def decision(result: Result) -> Any:  # noqa: ANN401 - JSON
    (item,) = json.loads(result.stdout)["items"]
    return item["decision"]


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def chosen_among_several() -> Json:
    terms = (
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]},
    )
    spec = pod(gpus=4, affinity=affinity(*terms))
    spec["containers"][0]["resources"]["requests"] = {"cpu": "16", "memory": "128Gi"}
    return pytorchjob(spec, workers=4, memory_fixed="2Gi", memory_per_sample="2Gi", micro_batch="32")


def test_a_job_that_is_pinned(explain: Explain, snapshot: SnapshotAssertion) -> None:
    assert explain(chosen_among_several()).stdout == snapshot


def test_a_job_whose_selectors_no_node_meets(explain: Explain, snapshot: SnapshotAssertion) -> None:
    typo = pytorchjob(pod(nodeSelector={PRODUCT: "NVIDIA-H100-80GB-HBM"}), name="value")
    label = pytorchjob(pod(nodeSelector={"zone": "a", "nvidia.com/gpu-product": H100.product}), name="label")
    both = pytorchjob(pod(nodeSelector={"zone": "b", PRODUCT: RTX_PRO_6000.product}), name="both")
    large = pytorchjob(pod(gpus=16), name="large")
    assert explain(typo, label, both, large).stdout == snapshot


def test_a_job_that_is_denied_with_an_estimate(explain: Explain, snapshot: SnapshotAssertion) -> None:
    command = ("torchrun", "--nnodes=2", "train.py", "--fsdp=full_shard", "--bf16=True", "--block_size=8192")
    model = ("--model_name_or_path=meta-llama/Llama-3.1-8B", "--per_device_train_batch_size=16")
    denied = pytorchjob(pod(command=(*command, *model)), workers=2)
    assert explain(denied, known=nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4))).stdout == snapshot


def test_a_job_of_which_earlier_runs_are_known(explain: Explain) -> None:
    obj = pytorchjob()
    now = time.time()
    out = OutOfMemory(now - 3600, "ddp-7")
    seen = (
        Observation(RTX_5090.product, RTX_5090.memory_mib, seen_at=now, out_of_memory=out),
        Observation(RTX_PRO_6000.product, RTX_PRO_6000.memory_mib, 2, now - 60, 41_000, now),
    )
    kept = document_of(profile(recipe(obj), *seen))
    known = nodes((RTX_5090, 4, 4), (RTX_PRO_6000, 2, 4))
    told = explain(obj, kept, known=known).stdout
    lines = " ".join(told.split())
    assert f"Earlier runs, ddp-1f0a: RTX-5090 ran out of memory: ddp-7, {day(now - 3600)};" in lines
    assert f"RTX-PRO-6000-Blackwell-Server: 2 good runs (last {day(now - 60)})" in lines
    assert re.search(r"no earlier run ran out of memory there +RTX-5090 +RTX-PRO-6000-Blackwell-Server", told)
    assert re.search(rf"RTX-5090 .* ran out of memory before \(ddp-7, {day(now - 3600)}\)", told)
    outcome = decision(explain(obj, kept, known=known, options=("-o", "json")))["review"]
    assert outcome["runs"]["profiles"] == ["ddp-1f0a"]
    assert outcome["runs"]["facts"] == ["fits", "out", "peak"]
    small, large = outcome["pool"]["candidates"]
    assert (small["because"], small["ranOut"]["object"], small["endedWell"]) == (["SST205"], "ddp-7", None)
    assert (large["because"], large["ranOut"], large["endedWell"]["runs"]) == ([], None, 2)


def test_jobs_that_are_not_pinned_to_one_model(explain: Explain, snapshot: SnapshotAssertion) -> None:
    one_node = pytorchjob(pod(gpus=4), workers=1, memory_per_device="44Gi", name="one-node")
    independent = job(pod(), indexed=False, memory_per_device="44Gi", name="independent")
    single = job(pod(gpus=1), pods=1, name="single")
    assert explain(one_node, independent, single).stdout == snapshot


def test_what_a_wrapper_holds_has_a_story_of_its_own(explain: Explain, snapshot: SnapshotAssertion) -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "team-a"},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": job()["spec"]}},
    }
    result = explain(cron, known=nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4)))
    assert result.stdout == snapshot
    options = ("-o", "json")
    (item,) = json.loads(explain(cron, options=options).stdout)["items"]
    assert (item["decision"]["treatment"], item["decision"]["landings"]) == (None, [])
    (inner,) = item["holds"]
    assert (inner["decision"]["treatment"], inner["decision"]["review"]["verdict"]) == ("OneModel", "Pin")


def test_an_update_says_what_it_goes_by(explain: Explain, snapshot: SnapshotAssertion) -> None:
    known = nodes((RTX_5090, 2, 4), (RTX_PRO_6000, 2, 4))
    old = patched(ask(pytorchjob(memory_per_device="44Gi"), known))
    new = deepcopy(old)
    new["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    asked = {
        "uid": "1",
        "kind": {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"},
        "resource": {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"},
        "namespace": "team-a",
        "operation": "UPDATE",
        "userInfo": {"username": "user@example.com"},
        "object": new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    assert explain(review, known=known).stdout == snapshot
    found = decision(explain(review, known=known, options=("-o", "json")))
    assert (found["rules"], found["kept"]) == (["notStarted", "withoutOurPin"], RTX_PRO_6000.product)


def test_the_document_of_a_decision(explain: Explain, snapshot: SnapshotAssertion) -> None:
    assert decision(explain(chosen_among_several(), options=("-o", "json"))) == snapshot


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_every_key_is_always_there(explain: Explain, output: str) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    result = explain(pytorchjob(), service, job(pod(gpus=0)), options=("-o", output))
    for item in yaml.safe_load(result.stdout)["items"]:
        assert set(item["decision"]) == KEYS


def test_without_a_fleet_nothing_is_decided_and_nodes_among_the_files_are_one(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    for objects, decided in (([pytorchjob()], False), ([pytorchjob(), *many()], True)):
        file.write_text(yaml.safe_dump_all(objects))
        result = CliRunner().invoke(main, ["explain", "-f", str(file), "-o", "json"], catch_exceptions=False)
        assert (decision(result) is not None) is decided


def test_a_denial_is_no_fault_of_the_command_and_a_fleet_that_cannot_be_read_is(explain: Explain) -> None:
    assert explain(pytorchjob(memory_per_device="900Gi")).exit_code == 0
    assert explain(pytorchjob(), known=[*many(), {"apiVersion": "v1"}]).exit_code == 2


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (stories._RULES, Rule),
        (stories._TREATMENTS, Treatment),
        (stories._GATES, Out),
        (stories._CRITERIA, Criterion),
        (stories._TRIED, Tried),
        (stories._UNPINNED, Unpinned),
        (stories._REFUSED, Refused),
    ],
)
def test_there_is_a_sentence_for_each(said: dict[StrEnum, str], kind: type[StrEnum]) -> None:
    assert set(said) == set(kind)


def test_the_fleet_goes_with_a_file() -> None:
    result = CliRunner().invoke(main, ["explain", "--fleet", "x.yaml"])
    assert result.exit_code == 2
    assert "--fleet and -o go with -f" in result.stderr


def test_lines_are_no_longer_than_120_columns_and_have_no_spaces_at_their_ends(explain: Explain) -> None:
    typo = pytorchjob(pod(nodeSelector={PRODUCT: "NVIDIA-H100-80GB-HBM"}))
    printed = explain(chosen_among_several(), pytorchjob(memory_per_device="900Gi"), typo).stdout.splitlines()
    story = [line for line in printed if "samestep.dev/pinned" not in line and "out of memory" not in line]
    assert max(map(len, story)) <= 120
    assert [line for line in story if line != line.rstrip()] == []
