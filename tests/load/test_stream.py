"""The webhook's own choices, one job after another, against the real scheduler."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.nodes import RTX_5090, RTX_PRO_6000, gpu_node
from controlplane.rig import ControlPlane
from demo.serving import Webhook
from tests.cluster.conftest import await_fleet, serving
from tests.cluster.team import PRODUCT, Team
from tests.load.stream import PerfectView, Submission, late_choice, simulate, stream, waited
from tests.samples import job, pod

CARDS = (RTX_5090, RTX_PRO_6000)
NODES = {card.product: 4 for card in CARDS}
JOBS = stream(3, 40, apart=10, lasts=35, largest=3)
GATE = "example.com/queue"
SEEN_S = 1.0
"""What a pod's end takes to reach the webhook, with much to spare: it hands a fleet on every 0.2 s."""


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane, account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """The webhook in front of four nodes of each model, which one pod fills."""
    nodes = (
        gpu_node(f"{card.product.lower()}-{index}", card) for card in CARDS for index in range(NODES[card.product])
    )
    with serving(control_plane, tmp_path_factory.mktemp("samestep"), f"--kubeconfig={account}") as running:
        control_plane.add_nodes(nodes)
        await_fleet(control_plane, running, {"RTX-5090": 4, "RTX-PRO-6000-Blackwell-Server": 4})
        yield running
    control_plane.remove_nodes()


@dataclass(slots=True)
class RealCluster:
    """Jobs are applied with kubectl. Their pods are there at once, and gated until the queue starts them.

    `short_sighted` are the jobs that were pinned to a model without room for their gang while the other had it.
    """

    team: Team
    busy: Counter[str] = field(default_factory=Counter)
    on: dict[str, Counter[str]] = field(default_factory=dict)
    ended_at: float = 0.0
    short_sighted: list[str] = field(default_factory=list)

    def submit(self, one: Submission) -> str:
        # A pod that has been bound counts from the moment that it is seen, and is given no time.
        time.sleep(max(0.0, self.ended_at + SEEN_S - time.monotonic()))
        command = ("torchrun", f"--nnodes={one.pods}", "--nproc-per-node=4", "train.py")
        spec = pod(gpus=4, command=command, schedulingGates=[{"name": GATE}])
        self.team.apply(job(spec, pods=one.pods, name=one.name))
        self._await(one, lambda pods: len(pods) == one.pods)
        selector = self.team.get("job", one.name)["spec"]["template"]["spec"].get("nodeSelector", {})
        model = str(selector.get(PRODUCT, ""))
        free = {name: count - self.busy[name] for name, count in NODES.items()}
        if model and free[model] < one.pods <= max(free.values()):
            self.short_sighted.append(f"{one.name} with {one.pods} pods to {model}, where free is {free}")
        return model

    def start(self, one: Submission) -> Mapping[str, int]:
        for name in self._pods(one):
            self.team.kubectl("patch", "pod", name, "--type=merge", "--patch", '{"spec":{"schedulingGates":null}}')
        self._await(one, lambda pods: all(pods.values()))
        nodes = self._pods(one).values()
        self.on[one.name] = Counter(next(each for each in NODES if name.startswith(each.lower())) for name in nodes)
        self.busy += self.on[one.name]
        return self.on[one.name]

    def end(self, one: Submission) -> None:
        self.team.kubectl("delete", "job", one.name, "--cascade=foreground", "--grace-period=0", "--wait")
        self.busy -= self.on[one.name]
        self.ended_at = time.monotonic()

    def _pods(self, one: Submission) -> dict[str, str]:
        """The node of each pod of the job, empty where it has none."""
        path = f"/api/v1/namespaces/{self.team.namespace}/pods?labelSelector=job-name={one.name}"
        pods = self.team.cluster.api.get(path)["items"]
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in pods}

    def _await(self, one: Submission, settled: Callable[[dict[str, str]], bool]) -> None:
        self.team.cluster.processes.wait("kube-scheduler", lambda: settled(self._pods(one)), timeout_s=60)


@pytest.mark.usefixtures("webhook")
def test_no_job_is_sent_to_wait_for_one_model_while_the_other_has_its_room_free(team: Team) -> None:
    cluster = RealCluster(team)

    runs = simulate(JOBS, NODES, cluster)

    assert cluster.short_sighted == []
    assert all(len(run.on) == 1 for run in runs)
    # Jobs of one pod are not pinned, and the scheduler takes any of the nodes that score alike.
    known = simulate(JOBS, NODES, PerfectView(NODES, pins=True, landed=cluster.on))
    assert [run.model for run in runs] == [run.model for run in known]
    print(f"waited: {waited(runs):.0f} min, {late_choice(JOBS, NODES):.0f} chosen late")


@pytest.mark.usefixtures("webhook")
def test_without_the_webhook_jobs_run_on_two_models(team: Team) -> None:
    team.cluster.kubectl("label", "namespace", team.namespace, "samestep.dev/ignore=")

    runs = simulate(JOBS, NODES, RealCluster(team))

    two_models = sum(len(run.on) == 2 for run in runs)
    assert two_models
    assert waited(runs) == pytest.approx(waited(simulate(JOBS, NODES, PerfectView(NODES, pins=False))))
    print(f"waited: {waited(runs):.0f} min, {two_models} of {len(runs)} jobs on two models")
