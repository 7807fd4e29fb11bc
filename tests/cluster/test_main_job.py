"""The main job: one training job, one GPU model, on a real API server and a real scheduler."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from controlplane.api import ApiError
from controlplane.nodes import A100_80GB, gpu_node
from controlplane.rig import ControlPlane
from demo.serving import ROOT, Webhook
from tests.cluster.conftest import await_fleet
from tests.cluster.team import LARGE, PER_SAMPLE, PRODUCT, SMALL, Json, Sample, Team, spread_pod
from tests.samples import job, pytorchjob, worker

pytestmark = pytest.mark.usefixtures("seed_fleet")


def test_a_job_is_pinned_and_every_worker_runs_on_one_model(team: Team) -> None:
    done = team.apply(job(spread_pod(), **PER_SAMPLE))

    assert "Warning: SST301 pinned to RTX-PRO-6000-Blackwell-Server (nvidia.com/gpu.product)" in done.stderr
    assert done.stdout == "job.batch/ddp created\n"
    assert team.models_of("ddp", 4) == [LARGE] * 4
    stored = team.get("job", "ddp")
    assert worker(stored)["nodeSelector"] == {PRODUCT: LARGE}
    record = {"key": PRODUCT, "values": [LARGE], "policy": "one-model-per-job"}
    assert json.loads(stored["metadata"]["annotations"]["samestep.dev/pinned"]) == record


def test_a_job_in_a_namespace_with_the_opt_out_label_is_not_pinned(team: Team) -> None:
    team.cluster.kubectl("label", "namespace", team.namespace, "samestep.dev/ignore=")

    done = team.apply(job(spread_pod()))

    assert done.stderr == ""
    assert set(team.models_of("ddp", 4)) == {LARGE, SMALL}


def test_a_pytorchjob_is_pinned_and_pods_made_of_its_template_run_on_one_model(team: Team) -> None:
    done = team.apply(pytorchjob(spread_pod(), **PER_SAMPLE))

    assert "Warning: SST301 pinned" in done.stderr
    stored = team.get("pytorchjob", "ddp")
    assert worker(stored)["nodeSelector"] == {PRODUCT: LARGE}
    pods = [{"metadata": {"name": f"ddp-worker-{index}"}, "spec": worker(stored)} for index in range(4)]
    assert team.models_of_pods(pods) == [LARGE] * 4


@pytest.mark.parametrize(("batch", "model"), [(16, SMALL), (64, LARGE)])
def test_a_batch_that_fits_only_the_large_card_goes_there_and_a_small_one_does_not(
    team: Team, batch: int, model: str
) -> None:
    team.apply(job(spread_pod(batch=batch), **PER_SAMPLE))

    assert team.models_of("ddp", 4) == [model] * 4


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (
            "2-too-big-for-the-chosen-gpu",
            ("SST201", "micro-batch 64 needs 44.8 GiB", "smallest GPU here: 44.8 GiB needed, 31.2 usable"),
        ),
        (
            "3-fits-no-gpu",
            ("SST201", "smallest GPU here: 173.0 GiB needed, 31.2 usable", "173.0 GiB needed, 95.0 usable"),
        ),
        ("4-too-many-ranks", ("SST401", "16 GPUs (4 pods with 4 each)", "16 GPUs wanted and 8 there")),
    ],
)
def test_what_fits_nowhere_is_refused_and_every_suggestion_is_accepted_when_applied(
    team: Team, example: str, told: tuple[str, ...]
) -> None:
    manifest = (ROOT / "examples" / f"{example}.yaml").read_text().replace("namespace: team-a", "")

    refusal = team.refused(manifest)

    assert refusal.startswith('Error from server (Forbidden): error when creating "STDIN": admission webhook "')
    assert not [words for words in told if words not in refusal]
    suggestions = re.findall("^  - (.*)$", refusal, re.MULTILINE)
    assert suggestions
    for suggestion in suggestions:
        followed = as_suggested(manifest, suggestion)
        assert followed != manifest
        team.apply(followed)
        team.kubectl("delete", "-f", "-", stdin=followed)


def test_the_api_server_hands_on_a_cause_for_each_finding(team: Team) -> None:
    """Tools read them; kubectl does not print them, since the reason is Forbidden and not Invalid."""
    refused = pytorchjob(spread_pod(batch=256), **PER_SAMPLE, memory_per_devise="1Gi")
    refused["metadata"]["namespace"] = team.namespace
    path = f"/apis/kubeflow.org/v1/namespaces/{team.namespace}/pytorchjobs"

    with pytest.raises(ApiError) as error:
        team.cluster.api.create(path, [refused])

    status = json.loads(str(error.value).partition(": ")[2])
    assert (error.value.status, status["reason"]) == (403, "Forbidden")
    first, second = status["details"]["causes"]
    container = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"
    assert (first["reason"], first["field"]) == ("SST201", f"{container}.command[3]")
    assert first["message"].startswith("out of memory: micro-batch 256 needs 173.0 GiB")
    assert (second["reason"], second["field"]) == ("SST101", "metadata.annotations[samestep.dev/memory-per-devise]")
    assert team.refused(refused).count("SST101") == 0


def as_suggested(manifest: str, suggestion: str) -> str:
    """The manifest after a person has made the change that a line of the message asks for."""
    change = suggestion.partition(" (")[0].partition(", on ")[0]
    if change.startswith("nodeSelector "):
        key, value = change.removeprefix("nodeSelector ").split(": ")
        return re.sub(rf"{re.escape(key)}: [\w.-]+", f"{key}: {value}", manifest)
    if change.startswith("replicas: "):
        return re.sub(r"replicas: \d+", change, manifest)
    (first, value), *more = re.findall(r"(--\w+)[ =](\d+)", change)
    added = "".join(f", {flag}, '{number}'" for flag, number in more)
    return re.sub(rf'{first}(=|, ")\d+"?', rf"{first}={value}{added}", manifest)


@pytest.mark.parametrize("gpus", [1, 0])
def test_a_job_with_one_gpu_or_none_is_stored_as_without_the_webhook(
    team: Team, control_plane: ControlPlane, gpus: int
) -> None:
    manifest = job(spread_pod(gpus=gpus), pods=1 if gpus else 16)
    done = team.apply(manifest)
    stored = team.get("job", "ddp")

    team.kubectl("delete", "job", "ddp")
    control_plane.kubectl("label", "namespace", team.namespace, "samestep.dev/ignore=")
    team.apply(manifest)

    assert done.stderr == ""
    assert as_asked_for(stored) == as_asked_for(team.get("job", "ddp"))


def as_asked_for(stored: Json) -> str:
    """Annotations, labels and spec, with whatever differs from one creation to the next made alike."""
    metadata = stored["metadata"]
    kept = {key: metadata.get(key) for key in ("annotations", "labels")}
    return json.dumps([kept, stored["spec"]], indent=1).replace(metadata["uid"], "UID")


def test_a_dry_run_shows_the_pin_and_stores_nothing(team: Team) -> None:
    shown = json.loads(team.apply(job(spread_pod(), **PER_SAMPLE), "--dry-run=server", "-o", "json").stdout)

    assert worker(shown)["nodeSelector"] == {PRODUCT: LARGE}
    assert team.kubectl("get", "jobs", "-o", "name").stdout == ""


@pytest.mark.parametrize("sample", [job, pytorchjob])
@pytest.mark.parametrize("how", [(), ("--server-side",)])
def test_applying_the_same_file_twice_changes_nothing(team: Team, sample: Sample, how: tuple[str, ...]) -> None:
    manifest = sample(spread_pod())
    kind = manifest["kind"].lower()
    team.apply(manifest, *how)
    if kind == "job":
        team.models_of("ddp", 4)  # what its controller writes is written by now
    before = team.get(kind, "ddp")

    again = team.apply(manifest, *how)

    assert team.get(kind, "ddp") == before
    assert "SST302" not in again.stderr
    assert how or again.stdout.endswith("/ddp unchanged\n")


@pytest.mark.parametrize(("batch", "model", "wish"), [(16, SMALL, {"model": SMALL}), (64, LARGE, {})])
def test_a_job_with_two_ored_terms_keeps_both_and_is_narrowed_whichever_matches(
    team: Team, batch: int, model: str, wish: Json
) -> None:
    """Each model is reached through another of its two terms."""
    terms = [on_hosts("rtx5090-1", "rtx5090-2"), on_hosts("pro6000-1", "pro6000-2")]
    team.apply(job(spread_pod(batch=batch, affinity=required(*terms)), **PER_SAMPLE, **wish))

    stored = worker(team.get("job", "ddp"))
    assert stored["affinity"] == required(*terms)
    assert stored["nodeSelector"] == {PRODUCT: model}
    assert team.models_of("ddp", 4) == [model] * 4


@pytest.fixture
def third_model(control_plane: ControlPlane, webhook: Webhook) -> Iterator[str]:
    """A node of A100 beside the seed's."""
    seed = {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2}
    control_plane.add_nodes([gpu_node("a100-1", A100_80GB)])
    await_fleet(control_plane, webhook, seed | {"A100-SXM4-80GB": 1})
    yield A100_80GB.product
    control_plane.api.delete("/api/v1/nodes/a100-1")
    await_fleet(control_plane, webhook, seed)


def test_a_pin_to_several_models_narrows_each_of_two_ored_terms(team: Team, third_model: str) -> None:
    """A job on one node is kept off the models that are too small, which takes an affinity."""
    terms = [on_hosts("rtx5090-1", "pro6000-1"), on_hosts("rtx5090-1", "a100-1")]
    spec = spread_pod(affinity=required(*terms), nodeSelector={"kubernetes.io/os": "linux"})
    team.apply(job(spec, pods=1, **PER_SAMPLE))

    stored = worker(team.get("job", "ddp"))
    left = {"key": PRODUCT, "operator": "In", "values": sorted([third_model, LARGE])}
    assert stored["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert stored["affinity"] == required(*({"matchExpressions": [*term["matchExpressions"], left]} for term in terms))
    assert set(team.models_of("ddp", 1)) <= {third_model, LARGE}


def on_hosts(*names: str) -> Json:
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}


def required(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_a_job_created_with_a_generated_name_is_pinned(team: Team) -> None:
    manifest = job(spread_pod(), **PER_SAMPLE)
    manifest["metadata"] = {"generateName": "ddp-", "annotations": manifest["metadata"]["annotations"]}

    created = team.kubectl("create", "-f", "-", "-o", "yaml", stdin=manifest)

    assert worker(yaml.safe_load(created.stdout))["nodeSelector"] == {PRODUCT: LARGE}
