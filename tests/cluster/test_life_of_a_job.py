"""What happens to a pinned job later: it is edited, replaced, suspended, deleted, and the webhook may be away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.rig import ControlPlane
from demo.serving import Webhook, register, start_webhook
from tests.cluster.team import LARGE, PER_SAMPLE, PRODUCT, SMALL, Done, Json, Team, spread_pod
from tests.samples import job, pytorchjob, worker

pytestmark = pytest.mark.usefixtures("seed_fleet")

RESTORED = f"Warning: SST301 pin put back: {PRODUCT}={LARGE}\n"


def without_pin(stored: Json) -> Json:
    """The object as a tool would send it that knows nothing of the pin."""
    del worker(stored)["nodeSelector"]
    del stored["metadata"]["annotations"]["samestep.dev/pinned"]
    del stored["metadata"]["resourceVersion"]
    return stored


def test_a_running_job_replaced_by_one_without_the_pin_keeps_it(team: Team) -> None:
    """Without the webhook the API server refuses: a running job's template cannot change."""
    team.apply(job(spread_pod(), **PER_SAMPLE))
    team.models_of("ddp", 4)

    done = team.kubectl("replace", "-f", "-", stdin=without_pin(team.get("job", "ddp")))

    assert done.stderr == RESTORED
    assert worker(team.get("job", "ddp"))["nodeSelector"] == {PRODUCT: LARGE}
    assert team.models_of("ddp", 4) == [LARGE] * 4


def test_a_pytorchjob_replaced_by_its_original_file_keeps_its_pin(team: Team) -> None:
    manifest = pytorchjob(spread_pod(), **PER_SAMPLE)
    team.apply(manifest)

    done = team.kubectl("replace", "-f", "-", stdin=manifest)

    assert done.stderr == RESTORED
    stored = team.get("pytorchjob", "ddp")
    assert worker(stored)["nodeSelector"] == {PRODUCT: LARGE}
    assert stored["metadata"]["generation"] == 1


def test_a_suspended_job_is_pinned_and_runs_on_its_model_once_resumed(team: Team, webhook: Webhook) -> None:
    manifest = job(spread_pod(batch=16), **PER_SAMPLE)
    manifest["spec"]["suspend"] = True
    team.apply(manifest)

    done = suspend(team, to=False)

    assert done.stderr == ""
    assert team.models_of("ddp", 4) == [SMALL] * 4
    assert suspend(team, to=True).stderr == ""
    assert suspend(team, to=False).stderr == ""
    assert worker(team.get("job", "ddp"))["nodeSelector"] == {PRODUCT: SMALL}


def suspend(team: Team, *, to: bool) -> Done:
    return team.kubectl("patch", "job", "ddp", "--patch", f'{{"spec": {{"suspend": {str(to).lower()}}}}}')


def test_a_running_pytorchjob_may_not_be_edited_onto_several_models(team: Team) -> None:
    team.apply(pytorchjob(spread_pod(), **PER_SAMPLE))
    started(team)
    stored = team.get("pytorchjob", "ddp")
    del worker(stored)["nodeSelector"]
    # Something is said of the model, so this is a change, and not the file that never knew of the pin.
    terms = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": [LARGE, SMALL]}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    worker(stored)["affinity"] = {"nodeAffinity": affinity}

    done = team.kubectl("replace", "-f", "-", stdin=stored, check=False)

    assert "SST302" in done.stderr
    assert worker(team.get("pytorchjob", "ddp"))["nodeSelector"] == {PRODUCT: LARGE}


def test_a_running_pytorchjob_may_not_be_edited_to_a_batch_that_its_model_cannot_hold(team: Team) -> None:
    team.apply(pytorchjob(spread_pod(batch=64), **PER_SAMPLE))
    started(team)

    refusal = team.refused(pytorchjob(spread_pod(batch=256), **PER_SAMPLE))

    assert "SST201 out of memory: micro-batch 256 needs 173.0 GiB on every GPU (declared)" in refusal


def test_a_pytorchjob_may_be_edited_to_a_batch_that_its_model_holds(team: Team) -> None:
    team.apply(pytorchjob(spread_pod(batch=64), **PER_SAMPLE))

    done = team.apply(pytorchjob(spread_pod(batch=32), **PER_SAMPLE))

    assert (done.stdout, done.stderr) == ("pytorchjob.kubeflow.org/ddp configured\n", "")
    assert worker(team.get("pytorchjob", "ddp"))["nodeSelector"] == {PRODUCT: LARGE}


@pytest.mark.parametrize("how", ["apply", "replace"])
def test_a_pytorchjob_that_has_not_started_moves_to_the_model_that_its_new_batch_needs(team: Team, how: str) -> None:
    team.apply(pytorchjob(spread_pod(batch=16), **PER_SAMPLE))
    assert worker(team.get("pytorchjob", "ddp"))["nodeSelector"] == {PRODUCT: SMALL}

    team.kubectl(how, "-f", "-", stdin=pytorchjob(spread_pod(batch=64), **PER_SAMPLE))

    assert worker(team.get("pytorchjob", "ddp"))["nodeSelector"] == {PRODUCT: LARGE}


def started(team: Team) -> None:
    """There is no controller of PyTorchJobs here; this is what it writes first."""
    team.kubectl(
        "patch",
        "pytorchjob/ddp",
        "--subresource=status",
        "--type=merge",
        '--patch={"status": {"startTime": "2027-01-01T00:00:00Z", "conditions": [], "replicaStatuses": {}}}',
    )


def test_status_labels_and_deletion_never_come_to_the_webhook(team: Team, webhook: Webhook) -> None:
    team.apply(pytorchjob(spread_pod()))
    before = webhook.calls("pin"), webhook.calls("check")

    started(team)
    team.kubectl("label", "pytorchjob/ddp", "team=a")
    team.kubectl("annotate", "pytorchjob/ddp", "samestep.dev/memory-per-device=44Gi")
    team.kubectl("patch", "pytorchjob/ddp", "--type=merge", '--patch={"metadata": {"finalizers": ["test/wait"]}}')
    team.kubectl("delete", "pytorchjob/ddp", "--wait=false")
    team.kubectl("patch", "pytorchjob/ddp", "--type=merge", '--patch={"metadata": {"finalizers": null}}')

    assert team.kubectl("get", "pytorchjobs", "-o", "name").stdout == ""
    assert (webhook.calls("pin"), webhook.calls("check")) == before


@pytest.fixture
def webhook_away(
    control_plane: ControlPlane, webhook: Webhook, account: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The webhook's process is killed, and its configurations stay."""
    control_plane.processes.stop("samestep", grace_s=0)
    yield
    again = start_webhook(
        control_plane.processes,
        tmp_path_factory.mktemp("samestep-again"),
        f"--kubeconfig={account}",
        port=webhook.port,
        probe_port=webhook.probe_port,
        metrics_port=webhook.metrics_port,
    )
    register(control_plane, again)  # with the CA of its new certificate


@pytest.mark.usefixtures("webhook_away")
def test_while_the_webhook_is_away_jobs_are_created_updated_and_deleted(team: Team) -> None:
    assert team.apply(job(spread_pod())).stderr == ""
    assert "nodeSelector" not in worker(team.get("job", "ddp"))
    suspend(team, to=True)
    team.kubectl("delete", "job", "ddp")
