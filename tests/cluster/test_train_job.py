"""TrainJobs under each version of their API: the real definitions on a real API server, without their controller."""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.crds import CrdSet
from controlplane.rig import ControlPlane
from tests.cluster.team import LARGE, PRODUCT, Json, Team
from tests.unit.intake.runtimes import node, override, patch, replicated, runtime, train_job

pytestmark = pytest.mark.usefixtures("seed_fleet")

OURS = "samestep.dev/pin"
PINNED = {"nodeSelector": {PRODUCT: LARGE}}
SHAPES: dict[CrdSet, tuple[str, Json, Json]] = {
    # The field, our entry in it, and one of the submitter's.
    "trainer": (
        "runtimePatches",
        patch(OURS, node=PINNED),
        patch("example.com/a", node={"tolerations": [{"key": "a"}]}),
    ),
    "trainer-2.1": (
        "podTemplateOverrides",
        override(PINNED, "node"),
        override({"tolerations": [{"key": "a"}]}, "node"),
    ),
    "trainer-2.0": (
        "podSpecOverrides",
        {"targetJobs": [{"name": "node"}], **PINNED},
        {"targetJobs": [{"name": "initializer"}], "tolerations": [{"key": "a"}]},
    ),
}


@pytest.fixture(scope="module", params=SHAPES)
def version(control_plane: ControlPlane, request: pytest.FixtureRequest) -> CrdSet:
    """One version of the definitions, with a runtime of two nodes that the webhook has seen."""
    crds: CrdSet = request.param
    control_plane.install_crds(crds)
    two = runtime(replicated("initializer"), node(gpus="2", command=["torchrun", "train.py"]), nodes=4)
    control_plane.apply(two)
    return crds


@pytest.fixture
def trainers(team: Team, version: CrdSet) -> Iterator[Team]:
    """The team, once the webhook pins what names the runtime."""
    await_pin(team, version, train_job_of("probe"))
    yield team
    team.kubectl("delete", "trainjobs", "--all")


def await_pin(team: Team, version: CrdSet, job: Json) -> None:
    """Waits until the job would be pinned if it were created."""
    field = SHAPES[version][0]

    def pinned() -> bool:
        asked = team.apply(job, "--dry-run=server", "-o", f"jsonpath={{.spec.{field}}}", check=False)
        return LARGE in asked.stdout

    team.cluster.processes.wait("samestep", pinned, timeout_s=60)


def train_job_of(name: str, **spec: Any) -> Json:  # noqa: ANN401 - fields of a TrainJob
    """One that fits the large model only, whatever is free."""
    job: Json = train_job(annotations={"samestep.dev/memory-per-device": "44Gi"}, **spec)
    return {**job, "metadata": {**job["metadata"], "name": name}}


def test_the_pin_is_stored_in_the_field_of_this_version_and_applying_again_changes_nothing(
    trainers: Team, version: CrdSet
) -> None:
    field, ours, _ = SHAPES[version]
    job = train_job_of("bare")
    done = trainers.apply(job)
    assert "SST301" in done.stderr
    stored = trainers.get("trainjob", "bare")
    assert stored["spec"][field] == [ours]
    again = trainers.apply(job)
    assert "unchanged" in again.stdout
    assert trainers.get("trainjob", "bare") == stored
    shared = trainers.get("clustertrainingruntime", "torch")
    assert LARGE not in str(shared)


def test_what_the_submitter_lays_over_the_runtime_stays_and_applying_again_changes_nothing(
    trainers: Team, version: CrdSet
) -> None:
    field, ours, theirs = SHAPES[version]
    job = train_job_of("patched", **{field: [theirs]})
    trainers.apply(job)
    stored = trainers.get("trainjob", "patched")
    assert stored["spec"][field] == [ours, theirs]
    trainers.apply(job)
    assert trainers.get("trainjob", "patched")["spec"] == stored["spec"]


def test_two_appliers_do_not_conflict_over_the_pin(trainers: Team, version: CrdSet) -> None:
    field, ours, theirs = SHAPES[version]
    whole = version == "trainer"
    # The older lists are atomic: two appliers of the list conflict over it whoever else writes to it.
    job = train_job_of("shared", **({field: [theirs]} if whole else {}))
    labelled = {**job, "metadata": {**job["metadata"], "labels": {"team": "vision"}}}
    trainers.apply(job, "--server-side", "--field-manager=one")
    first = trainers.get("trainjob", "shared")
    trainers.apply(labelled, "--server-side", "--field-manager=two")
    trainers.apply(job, "--server-side", "--field-manager=one")
    stored = trainers.get("trainjob", "shared")
    assert stored["spec"] == first["spec"]
    assert stored["spec"][field] == ([ours, theirs] if whole else [ours])
    trainers.apply(job, "--server-side", "--field-manager=one")
    trainers.apply(labelled, "--server-side", "--field-manager=two")
    assert trainers.get("trainjob", "shared")["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


def test_a_job_before_its_runtime_is_admitted_and_told(trainers: Team, version: CrdSet) -> None:
    field = SHAPES[version][0]
    done = trainers.apply(train_job_of("early", ref={"kind": "TrainingRuntime", "name": "to-come"}))
    assert "SST104 TrainingRuntime to-come is not in view" in done.stderr
    assert field not in trainers.get("trainjob", "early")["spec"]


def test_a_runtime_of_the_namespace_is_seen_and_is_not_the_one_of_the_cluster(trainers: Team, version: CrdSet) -> None:
    field, ours, _ = SHAPES[version]
    trainers.apply(runtime(node(gpus="2"), nodes=4, kind="TrainingRuntime"))
    job = train_job_of("near", ref={"kind": "TrainingRuntime", "name": "torch"})
    await_pin(trainers, version, job)
    trainers.apply(job)
    assert trainers.get("trainjob", "near")["spec"][field] == [ours]


def test_a_runtime_is_told_what_awaits_its_jobs(trainers: Team) -> None:
    crowded = runtime(node(gpus="4"), nodes=4, kind="TrainingRuntime")
    done = trainers.apply({**crowded, "metadata": {"name": "crowded"}})
    assert "SST401" in done.stderr
