"""Cases that need a fleet of their own making: one from a file, which counts as known for ever, or one that changes."""

import asyncio
import json
import time
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from controlplane.nodes import RTX_5090, RTX_PRO_6000, Card
from demo.serving import ROOT, Webhook, register, unregister
from tests.cluster.conftest import serving
from tests.cluster.team import PER_SAMPLE, Done, Team, spread_pod
from tests.samples import job, nodes, pod, pytorchjob, worker
from tests.unit.server.conftest import running
from webhook.cluster.world import Worlds
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.model.request import Request, Stage
from webhook.model.verdict import Review
from webhook.model.world import World
from webhook.review import review
from webhook.server.certificates import self_signed
from webhook.server.tls import ServingCertificate


def test_a_refusal_is_printed_whole_by_kubectl(team: Team, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Sixteen ranks; the model that has the GPUs lacks the memory, and the other way round."""
    fleet = tmp_path / "fleet.json"
    items = nodes((RTX_5090, 2, 8), (RTX_PRO_6000, 2, 4))
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    command = ("torchrun", "--nproc-per-node=2", "train.py", "--per_device_train_batch_size=64")
    with serving(team.cluster, tmp_path, f"--fleet={fleet}"):
        refusal = team.refused(pytorchjob(pod(command=command), workers=8, **PER_SAMPLE))

    assert refusal == snapshot


def test_a_job_that_should_have_been_pinned_and_was_not_is_refused(team: Team, tmp_path: Path) -> None:
    """As if another webhook had undone the pin, or ours had been passed over."""
    fleet = f"--fleet={ROOT / 'demo' / 'fleet.yaml'}"
    with serving(team.cluster, tmp_path, fleet, kinds=["ValidatingWebhookConfiguration"]):
        refusal = team.refused(job(spread_pod()))

    assert 'admission webhook "jobs.batch.check.samestep.dev" denied the request: SST302 not pinned: ' in refusal


async def test_a_model_that_joins_between_the_two_calls_does_not_refuse(team: Team) -> None:
    done = await created_while_a_model_joins(team, known_for_s=0)

    assert (done.stdout, done.stderr) == ("job.batch/ddp created\n", "")
    assert "nodeSelector" not in worker(team.get("job", "ddp"))


async def test_a_model_known_for_a_minute_does(team: Team) -> None:
    """The same two calls; what a moment cannot explain is refused."""
    done = await created_while_a_model_joins(team, known_for_s=61)

    assert "SST302" in done.stderr


async def created_while_a_model_joins(team: Team, *, known_for_s: float) -> Done:
    """kubectl's creation of a job, with a second model in the fleet from the mutating call's end on."""
    at_first = fleet_of((RTX_5090, 0.0))
    then = fleet_of((RTX_5090, 0.0), (RTX_PRO_6000, time.time() - known_for_s))
    worlds = Worlds(Policy(), at_first)

    def judge(request: Request, world: World) -> Review:
        if request.stage is Stage.MUTATE and not request.dry_run:
            worlds.swap(then)
        return review(request, world)

    ca, cert, key = self_signed(["127.0.0.1"])
    async with running(worlds=worlds, judge=judge, certificate=ServingCertificate.of(cert, key), trusted=ca) as here:
        webhook = Webhook(here.server.port, here.server.probe_port, here.server.metrics_port, ca)
        await asyncio.to_thread(register, team.cluster, webhook)
        try:
            return await asyncio.to_thread(team.apply, job(spread_pod()), check=False)
        finally:
            await asyncio.to_thread(unregister, team.cluster, webhook)


def fleet_of(*known_since: tuple[Card, float]) -> Fleet:
    """Two nodes of each model, and since when they are known."""
    read = (read_node(one, since) for card, since in known_since for one in nodes((card, 2, 4)))
    return build_fleet(node for node in read if node is not None)
