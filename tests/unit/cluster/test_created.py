"""What is told of jobs that have just been created, to an API server of a few lines."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples import Json, ask, demo_nodes, fleet, job, patched, pod, pytorchjob
from tests.unit.cluster.api_server import ApiServer, served, until
from tests.unit.intake.runtimes import train_job
from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access
from webhook.cluster.created import CreatedJobs
from webhook.cluster.events import Events
from webhook.cluster.jobs import JobEvent, Operation
from webhook.cluster.world import Worlds
from webhook.model.policy import Condition, Policy, ValidationAction
from webhook.model.request import Kind, Request
from webhook.model.rules import Rules
from webhook.model.world import World

AUDIT = Policy(name="look", validation_action=ValidationAction.AUDIT)


class Watching:
    """What sees jobs as they are created, under a policy that only audits, in front of the demo's fleet."""

    def __init__(self, server: ApiServer, kubeconfig: Path) -> None:
        self.server = server
        self.worlds = Worlds(Policy(), fleet(demo_nodes()))
        self.worlds.rule(Rules(policies=(AUDIT,)))
        self.asked: list[Request] = []
        self.events = Events(Access(kubeconfig).client, "one", self.worlds.trouble)
        self.created = CreatedJobs(self.worlds, self._surround, self.events)

    async def _surround(self, request: Request, world: World) -> World:
        self.asked.append(request)
        return world

    def see(self, obj: Json, operation: Operation = Operation.ADDED) -> None:
        group, _, version = obj["apiVersion"].rpartition("/")
        kind = Kind(group, version, obj["kind"])
        workload = workloads().of(kind)
        assert workload is not None
        obj["metadata"].setdefault("uid", f"uid of {obj['metadata']['name']}")
        self.created.see(JobEvent(operation, kind, workload, obj))

    async def reviewed(self, count: int) -> list[tuple[str, str]]:
        """By name of the job, the reasons that are told once so many have been reviewed."""
        await until(lambda: len(self.asked) == count)
        await self.created.stop()
        await self.events.stop()
        return [(one["involvedObject"]["name"], one["reason"]) for one in self.server.events]


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncIterator[Watching]:
    async with served(tmp_path) as (server, kubeconfig):
        watching = Watching(server, kubeconfig)
        watching.events.start()
        watching.created.start()
        yield watching
        await watching.created.stop()
        await watching.events.stop(0)


def named(name: str, obj: Json, **metadata: object) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "name": name, **metadata}}


def owner(kind: str, api_version: str) -> list[Json]:
    return [{"apiVersion": api_version, "kind": kind, "name": "it", "uid": "u", "controller": True}]


async def test_each_new_job_is_told_what_a_policy_that_audits_would_have_done(watching: Watching) -> None:
    watching.see(named("mixed", job()))
    watching.see(named("too-large", pytorchjob(memory_per_device="200Gi")))
    watching.see(named("pinned", patched(ask(job()))))
    watching.see(named("no-gpu", job(pod(gpus=0))))

    assert await watching.reviewed(4) == [("mixed", "WouldPin"), ("too-large", "WouldDeny"), ("pinned", "Pinned")]
    assert watching.server.events[0]["involvedObject"]["uid"] == "uid of mixed"
    assert watching.server.events[0]["metadata"]["namespace"] == "team-a"


async def test_a_job_seen_twice_has_one_event(watching: Watching) -> None:
    watching.see(job())
    watching.see(job())

    assert await watching.reviewed(2) == [("ddp", "WouldPin")]


async def test_what_was_there_before_has_changed_or_is_gone_is_not_told_of(watching: Watching) -> None:
    for operation in (Operation.LISTED, Operation.MODIFIED, Operation.DELETED):
        watching.see(named(operation.value.lower(), job()), operation)
    watching.see(named("new", job()))

    assert await watching.reviewed(1) == [("new", "WouldPin")]


async def test_what_follows_an_owner_or_is_never_sent_to_admission_is_not_told_of(watching: Watching) -> None:
    watching.worlds.name({"left-alone": {"samestep.dev/ignore": ""}})
    watching.see(named("child", job(), ownerReferences=owner("PyTorchJob", "kubeflow.org/v1")))
    watching.see(named("server", job(), ownerReferences=owner("Deployment", "apps/v1")))
    watching.see(named("system", job(), namespace="kube-system"))
    watching.see(named("ours", job(), namespace="samestep-system"))
    watching.see(named("going", job(), deletionTimestamp="2026-01-01T00:00:00Z"))
    watching.see(named("labelled", job(), namespace="left-alone"))
    watching.see(named("of-a-cron-job", job(), ownerReferences=owner("CronJob", "batch/v1")))
    watching.see(named("of-a-stranger", job(), ownerReferences=owner("Sweep", "example.com/v1")))

    assert await watching.reviewed(3) == [("of-a-cron-job", "WouldPin"), ("of-a-stranger", "WouldPin")]


async def test_jobs_wait_until_there_is_a_world_to_review_them_in(watching: Watching) -> None:
    known = watching.worlds.fleet
    assert known is not None
    watching.worlds.wait_for_rules()
    watching.see(job())
    await asyncio.sleep(0.2)
    assert watching.asked == []
    watching.worlds.rule(Rules(policies=(AUDIT,)))
    watching.worlds.name({})

    assert await watching.reviewed(1) == [("ddp", "WouldPin")]


async def test_what_a_job_refers_to_is_looked_up_first_as_for_admission(watching: Watching) -> None:
    watching.see(train_job())
    await watching.reviewed(1)

    [request] = watching.asked
    assert (request.kind.kind, request.operation, request.stage.value) == ("TrainJob", "CREATE", "Audit")
    assert request.raw["resource"] == {
        "group": "trainer.kubeflow.org",
        "version": request.kind.version,
        "resource": "trainjobs",
    }


async def test_conditions_of_policies_see_the_request_that_would_create_it(watching: Watching) -> None:
    expression = (
        "request.operation == 'CREATE' && request.namespace == 'team-a' && request.name == object.metadata.name"
    )
    conditioned = with_condition(AUDIT, f"{expression} && request.resource.resource == 'jobs' && !request.dryRun")
    watching.worlds.rule(Rules(policies=(conditioned,)))
    watching.see(job())

    assert await watching.reviewed(1) == [("ddp", "WouldPin")]


async def test_no_more_than_five_hundred_jobs_wait(watching: Watching) -> None:
    for index in range(505):
        watching.see(named(f"job-{index}", job(pod(gpus=0))))
    await until(lambda: len(watching.asked) == 500, within_s=30)

    assert watching.worlds.problems == {"events": "events not written: more jobs come than can be reviewed once more"}


def with_condition(policy: Policy, expression: str) -> Policy:
    return replace(policy, match=replace(policy.match, conditions=(Condition("one", expression),)))
