"""What runs teach, on a real API server and with a real Prometheus. The pods are simulated: how they end is written
into their status, and what their devices hold into the exporter."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from controlplane.api import ApiError
from controlplane.nodes import RTX_5090, RTX_PRO_6000
from controlplane.rig import ControlPlane
from demo.serving import MANIFESTS, Webhook
from tests.cluster.conftest import await_fleet, serving
from tests.cluster.runs import JAX, PYTORCH, end, run, training
from tests.cluster.team import LARGE, PRODUCT, SMALL, Team
from tests.monitoring.prometheus import Held, Monitoring, monitoring
from tests.samples import Json
from webhook.cluster.prometheus import Endpoint, Prometheus
from webhook.evidence.questions import (
    activity_of_pods,
    memory_by_pod,
    memory_by_query,
    memory_of_nodes,
    memory_of_pods,
)
from webhook.model.run import Rank

MODELS = {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2}


@pytest.fixture(scope="module")
def prometheus(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    with monitoring(control_plane.processes, tmp_path_factory.mktemp("prometheus")) as running:
        yield running
        with suppress(KeyError):  # stopped already
            running.stop()


@pytest.fixture(scope="module")
def webhook(
    control_plane: ControlPlane, account: Path, prometheus: Monitoring, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhook]:
    """Under a policy that takes the small card wherever it may."""
    folder = tmp_path_factory.mktemp("samestep")
    # Whatever room the webhook sees: the pods of the test before may still be in its view.
    spec = {"pin": {"strategy": "Ordered", "order": [SMALL]}, "room": "Ignore"}
    policy = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": {"name": "small-first"}}
    (folder / "policy.yaml").write_text(yaml.safe_dump({**policy, "spec": spec}))
    control_plane.kubectl("apply", "--server-side", "-f", MANIFESTS / "crds")
    control_plane.processes.wait("kube-apiserver", lambda: _are_served(control_plane))
    options = (f"--kubeconfig={account}", f"--policies={folder / 'policy.yaml'}", f"--prometheus={prometheus.url}")
    with serving(control_plane, folder, *options) as running:
        yield running
    control_plane.kubectl("delete", "-f", MANIFESTS / "crds")


def _are_served(control_plane: ControlPlane) -> bool:
    with suppress(ApiError):
        return bool(control_plane.api.get("/apis/samestep.dev/v1alpha1/trainingprofiles"))
    return False


@pytest.fixture(autouse=True)
def _fleet(control_plane: ControlPlane, webhook: Webhook, demo_fleet: None) -> None:
    await_fleet(control_plane, webhook, MODELS)


def hold(prometheus: Monitoring, pods: list[Json], model: str, mib: float) -> None:
    names = [(one["metadata"]["namespace"], one["metadata"]["name"], one["spec"]["nodeName"]) for one in pods]
    prometheus.hold(*(Held(*name, model=model, memory_mib=mib, device=index) for name in names for index in range(2)))


def observations(team: Team) -> list[Json]:
    """Of all profiles of the namespace."""
    found = team.cluster.api.get(f"/apis/samestep.dev/v1alpha1/namespaces/{team.namespace}/trainingprofiles")
    return [{**found, "profile": one} for one in found["items"] for found in one["spec"].get("observations", ())]


def await_seen(team: Team, count: int = 1, **said: object) -> list[Json]:
    """Waits until so many observations say this, and whoever decides has seen it as well."""
    seen: list[Json] = []

    def told() -> bool:
        seen[:] = [one for one in observations(team) if all(one.get(name) == value for name, value in said.items())]
        return len(seen) >= count

    team.cluster.processes.wait("samestep", told, timeout_s=30)
    return seen


def submit(team: Team, webhook: Webhook, manifest: Json) -> tuple[str, str]:
    """Submits it until what runs taught is in view there, which takes a moment: the model that it is pinned to then,
    and what is told of it."""
    before, found = used(webhook), list[tuple[str, str]]()

    def known() -> bool:
        done = team.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=manifest)
        selector = json.loads(done.stdout)["spec"]["template"]["spec"]["nodeSelector"]
        found[:] = [(selector[PRODUCT], done.stderr)]
        return used(webhook) > before

    team.cluster.processes.wait("samestep", known, timeout_s=10)
    return found[0]


def used(webhook: Webhook) -> float:
    """How often a decision rested on profiles."""
    return sum(
        count for sample, count in webhook.metrics().items() if sample.startswith("samestep_profiles_used_total")
    )


def test_a_job_that_ran_out_of_memory_goes_to_the_large_card_the_second_time(
    team: Team, webhook: Webhook, prometheus: Monitoring
) -> None:
    warned = team.apply(training("first"), "--dry-run=server").stderr
    assert "SST203" in warned, warned
    pods = run(team, training("first"), SMALL)
    end(team, pods, message=PYTORCH)
    (seen,) = await_seen(team, product=SMALL)
    assert seen["deviceOutOfMemory"]["job"] == "first"
    assert seen.get("runs", 0) == 0
    model, told = submit(team, webhook, training("second"))
    assert model == LARGE
    assert "out of memory" in told, told
    assert "first" in told, told
    table = team.kubectl("get", "trainingprofiles").stdout
    assert SMALL in table, table


def test_a_job_that_fitted_the_small_card_stays_there(team: Team, webhook: Webhook, prometheus: Monitoring) -> None:
    """Whatever its allocator got: this is all of the card, and more than a job may count on."""
    pods = run(team, training("first"), SMALL)
    hold(prometheus, pods, SMALL, RTX_5090.memory_mib - 100)
    end(team, pods)
    (seen,) = await_seen(team, product=SMALL, runs=1)
    assert seen["peak"] == f"{RTX_5090.memory_mib - 100}Mi"
    assert seen["profile"]["status"]["conditions"][0]["reason"] == "Measured"
    model, told = submit(team, webhook, training("second"))
    assert model == SMALL
    assert "SST20" not in told, told


def test_the_same_is_learned_once_from_a_terminal(
    team: Team, webhook: Webhook, prometheus: Monitoring, control_plane: ControlPlane, tmp_path: Path
) -> None:
    pods = run(team, training("first"), SMALL)
    hold(prometheus, pods, SMALL, 20_000)
    end(team, pods)
    end(team, run(team, training("other", "--other"), SMALL), message=PYTORCH)
    await_seen(team, 2, product=SMALL)
    told = learn(control_plane, f"--prometheus={prometheus.url}", "--since=1h", f"--out={tmp_path}", "-o", "json")
    found = {one["metadata"]["name"]: one for one in json.loads(told)["profiles"] if is_of(one, team)}
    live = {one["profile"]["metadata"]["name"]: one["profile"] for one in observations(team)}
    assert {name: shown(one) for name, one in found.items()} == {name: shown(one) for name, one in live.items()}
    files = {file.name: yaml.safe_load(file.read_text()) for file in tmp_path.iterdir()}
    assert files.items() >= {f"{team.namespace}.{name}.yaml": one for name, one in found.items()}.items()
    table = learn(control_plane, "--since=1h", "--apply")
    (row,) = (line.split() for line in table.splitlines() if line.startswith(f"{team.namespace}  first"))
    # With what was known before: no Prometheus was named this time.
    assert row == [team.namespace, "first", "RTX-5090", "1", "19.5", "GiB", "31.8", "GiB"], table
    assert "0 written to the cluster" in table, table


def shown(profile: Json) -> list[Json]:
    """What the observations say, but for when the last was made."""
    return [{name: said for name, said in one.items() if name != "lastSeen"} for one in profile["spec"]["observations"]]


def learn(control_plane: ControlPlane, *options: str) -> str:
    """What `samestep learn` prints to an administrator."""
    command = [sys.executable, "-m", "webhook.cli", "learn", f"--kubeconfig={control_plane.kubeconfig}", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


def is_of(obj: Json, team: Team) -> bool:
    return bool(obj["metadata"]["namespace"] == team.namespace)


def test_a_job_that_preallocates_does_not_lose_its_small_card(
    team: Team, webhook: Webhook, prometheus: Monitoring
) -> None:
    """JAX takes 75 % of whatever card there is: on the large one more than the small one has."""
    first = training("first", image=JAX)
    first["spec"]["template"]["spec"]["nodeSelector"] = {PRODUCT: LARGE}
    pods = run(team, first, LARGE)
    hold(prometheus, pods, LARGE, round(0.75 * RTX_PRO_6000.memory_mib))
    end(team, pods)
    (seen,) = await_seen(team, product=LARGE, runs=1)
    assert seen["profile"]["spec"]["recipe"]["allocator"] == "Preallocating"
    assert int(seen["peak"].removesuffix("Mi")) > RTX_5090.memory_mib
    model, told = submit(team, webhook, training("second", image=JAX))
    assert model == SMALL
    assert "SST205" not in told, told


def test_a_changed_batch_uses_the_slope(team: Team, webhook: Webhook, prometheus: Monitoring) -> None:
    for batch in (8, 16):
        pods = run(team, training(f"batch-{batch}", f"--per_device_train_batch_size={batch}"), SMALL)
        hold(prometheus, pods, SMALL, 4096 + 1024 * batch)
        end(team, pods)
    await_seen(team, 2, product=SMALL, runs=1)
    model, _ = submit(team, webhook, training("larger", "--per_device_train_batch_size=64"))
    assert model == LARGE
    model, _ = submit(team, webhook, training("as-before", "--per_device_train_batch_size=16"))
    assert model == SMALL


def test_devices_without_pods_are_those_of_the_pod_that_has_the_whole_node(
    team: Team, webhook: Webhook, prometheus: Monitoring
) -> None:
    """As exporters are without Kubernetes mapping."""
    whole = training("first")
    whole["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "4"}
    pods = run(team, whole, SMALL)
    nodes = [one["spec"]["nodeName"] for one in pods]
    prometheus.hold(*(Held("", "", node, SMALL, 21_000 + device, device) for node in nodes for device in range(4)))
    end(team, pods)
    (seen,) = await_seen(team, product=SMALL, runs=1)
    assert seen["peak"] == "21003Mi"


async def test_every_question_is_one_that_prometheus_takes(prometheus: Monitoring) -> None:
    asked = Prometheus(Endpoint(prometheus.url))
    rank = Rank("uid", "team", "a.b-0", "", "node-a", {}, 0.0)
    now = time.time()
    questions = [
        *memory_of_pods([rank], now - 3 * 86_400, now),
        *memory_by_query("sum by (pod) (DCGM_FI_DEV_FB_USED) * 1024 * 1024", now - 60, now),
        *memory_of_nodes(["node-a"], now - 60, now),
        *activity_of_pods([rank], now - 60, now),
        memory_by_pod(now - 60, now),
    ]
    for one in questions:
        await asked.ask(one)
    await asked.close()
    assert len(questions) == 7


def test_a_prometheus_that_is_down_changes_a_metric_and_a_condition(
    team: Team, webhook: Webhook, prometheus: Monitoring
) -> None:
    pods = run(team, training("first"), SMALL)
    prometheus.stop()
    end(team, pods)
    (seen,) = await_seen(team, product=SMALL, runs=1)
    condition = await_condition(team)
    assert (condition["type"], condition["status"], condition["reason"]) == ("Measured", "False", "Unreachable")
    assert "peak" not in seen
    assert webhook.metrics()['samestep_observer_queries_total{outcome="unreachable"}'] >= 1
    model, _ = submit(team, webhook, training("second"))
    assert model == SMALL


def await_condition(team: Team) -> Json:
    found: list[Json] = []

    def told() -> bool:
        found[:] = [
            one["profile"]["status"]["conditions"][0] for one in observations(team) if "status" in one["profile"]
        ]
        return bool(found)

    team.cluster.processes.wait("samestep", told, timeout_s=10)
    return found[0]
