"""What is learned from runs, in front of an API server and a Prometheus of a few lines."""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.samples import Json, demo_nodes, fleet, pod, pytorchjob
from tests.unit.cluster.api_server import Collection, served, until
from tests.unit.cluster.prometheus_server import prometheus
from tests.unit.evidence.observed import LARGE, PYTORCH, SMALL
from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access
from webhook.cluster.jobs import JobEvent, Operation
from webhook.cluster.observer import Observer, Rhythm
from webhook.cluster.profile_store import MOST_IN_NAMESPACE
from webhook.cluster.prometheus import Endpoint, Prometheus
from webhook.cluster.world import Worlds
from webhook.model.policy import Evidence, Policy
from webhook.model.profile import KEPT_S, Profile
from webhook.model.request import Kind, Request
from webhook.model.world import World
from webhook.policy.training_profile import read_profile

PROFILES = "/apis/samestep.dev/v1alpha1/trainingprofiles"
QUICK = Rhythm(look=0.02, settle=0.1, measure=0.3, again=0.1, question=0.001, pause=0.05)
ON = {SMALL: f"{SMALL.lower()}-4-0", LARGE: f"{LARGE.lower()}-4-0"}
DEFAULT = Policy()
CREATED, ENDED = "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z"


class Observing:
    """An observer of a cluster with the demo's fleet."""

    def __init__(
        self, profiles: Collection, kubeconfig: Path, url: str, policy: Policy, most: int = MOST_IN_NAMESPACE
    ) -> None:
        self.profiles = profiles
        self.leads = True
        self.worlds = Worlds(policy, fleet(demo_nodes()))
        self.observer = Observer(
            Access(kubeconfig).client,
            lambda: self.leads,
            self.worlds,
            self._surround,
            Prometheus(Endpoint(url), timeout_s=0.3) if url else None,
            rhythm=QUICK,
            most=most,
        )

    async def _surround(self, _: Request, world: World) -> World:
        return world

    def see(self, *objects: Json, operation: Operation = Operation.MODIFIED) -> None:
        for obj in objects:
            group, _, version = obj["apiVersion"].rpartition("/")
            kind = Kind(group, version, obj["kind"])
            workload = workloads().of(kind)
            assert workload is not None
            self.observer.take(JobEvent(operation, kind, workload, obj))

    @property
    def learned(self) -> list[Profile]:
        return [read_profile(one) for one in self.profiles.objects.values()]

    @property
    def measured(self) -> str:
        """The reason of the condition, of the one profile."""
        (one,) = self.profiles.objects.values()
        (condition,) = one.get("status", {}).get("conditions") or [{"reason": ""}]
        return str(condition["reason"])

    async def idle(self) -> None:
        """Until everything that was told has been looked at."""
        await until(lambda: not self.observer._observed.waiting)
        await until(lambda: all(one.settled for one in self.observer._observed.jobs.values() if one.leads))


@asynccontextmanager
async def observing(
    folder: Path, url: str = "", policy: Policy = DEFAULT, most: int = MOST_IN_NAMESPACE
) -> AsyncIterator[Observing]:
    async with served(folder) as (server, kubeconfig):
        found = Observing(server.serve(PROFILES, "TrainingProfile"), kubeconfig, url, policy, most)
        found.observer.start()
        yield found
        await found.observer.stop()


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Observing]:
    """Without a Prometheus."""
    async with observing(tmp_path) as found:
        yield found


@pytest.fixture
async def few(tmp_path: Path) -> AsyncIterator[Observing]:
    """Without a Prometheus, and two profiles are kept in a namespace."""
    async with observing(tmp_path, most=2) as found:
        yield found


def train(
    name: str = "train", *, ended: str = "", namespace: str = "team", created: str = CREATED, **metadata: object
) -> Json:
    obj = pytorchjob(pod(gpus=1), name=name)
    obj["metadata"] |= {"name": name, "namespace": namespace, "uid": f"job {name}", "creationTimestamp": created}
    obj["metadata"] |= {"generation": 1, **metadata}
    if ended:
        obj["status"] = {"conditions": [{"type": ended, "status": "True", "lastTransitionTime": ENDED}]}
    return obj


def worker(
    job: Json, index: int = 0, *, on: str = SMALL, phase: str = "Running", message: str = "", code: int = 1
) -> Json:
    kind, version = job["kind"], job["apiVersion"]
    owner = {"apiVersion": version, "kind": kind, "name": "x", "uid": job["metadata"]["uid"], "controller": True}
    status: Json = {"phase": phase, "startTime": CREATED}
    if message or phase in ("Succeeded", "Failed"):
        end = {"exitCode": code if phase == "Failed" else 0, "message": message, "finishedAt": ENDED, "reason": "Error"}
        status["containerStatuses"] = [{"name": "train", "state": {"terminated": end}}]
    name = f"{job['metadata']['name']}-worker-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "uid": f"pod {name}",
            "creationTimestamp": CREATED,
            "ownerReferences": [owner],
        },
        "spec": {**pod(gpus=1), "nodeName": ON[on]},
        "status": status,
    }


def holding(mib: dict[str, float]) -> Callable[[str], list[Json]]:
    """A DCGM exporter's answers, by pod."""

    def answer(query: str) -> list[Json]:
        asked = re.search(r'exported_pod=~"([^"]*)"', query)
        names = asked[1].split("|") if asked else []
        labels = {"samestep_exporter": "DCGM exporter", "exported_namespace": "team"}
        known = [(name, mib[name]) for name in names if name in mib and "FB_USED" in query]
        return [{"metric": {**labels, "exported_pod": name}, "value": str(held)} for name, held in known]

    return answer


def seconds(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()


async def test_a_device_that_runs_out_is_learned_at_once(alone: Observing) -> None:
    job = train()
    alone.see(job, worker(job, 0, on=LARGE), worker(job, 1, phase="Failed", message=PYTORCH))
    await until(lambda: alone.learned)
    (found,) = alone.learned
    (small,) = found.observations
    assert (small.product, small.runs) == (SMALL, 0)
    assert small.out_of_memory is not None
    assert (small.out_of_memory.job, small.out_of_memory.at) == ("train", seconds(ENDED))
    alone.see(train(ended="Failed"))
    await alone.idle()
    assert alone.learned == [found]
    assert alone.observer.tally.runs == {"device_out_of_memory": 1, "badly": 1}


async def test_a_run_that_ended_well_fits_whoever_measured_it(alone: Observing) -> None:
    job = train()
    alone.see(job, *(worker(job, index, phase="Succeeded") for index in range(4)), train(ended="Succeeded"))
    await until(lambda: alone.learned)
    (small,) = alone.learned[0].observations
    assert (small.runs, small.good_at, small.peak_mib, small.memory_mib) == (1, seconds(ENDED), None, 32_607)
    await until(lambda: alone.measured == "NoPrometheus")


async def test_what_devices_held_is_learned(tmp_path: Path) -> None:
    async with prometheus() as fake, observing(tmp_path, fake.url) as there:
        fake.answer = holding({"train-worker-0": 20_000.5, "train-worker-1": 21_000})
        job = train()
        there.see(job, worker(job, 0), worker(job, 1))
        await until(lambda: there.learned)
        (going_on,) = there.learned[0].observations
        assert (going_on.runs, going_on.peak_mib) == (0, 21_000)
        there.see(*(worker(job, index, phase="Succeeded") for index in range(2)), train(ended="Succeeded"))
        await there.idle()
        (small,) = there.learned[0].observations
        assert (small.runs, small.peak_mib) == (1, 21_000)
        assert there.measured == "Measured"
        assert fake.asked[-1]["time"] == f"{seconds(ENDED):.3f}"


@pytest.mark.parametrize(
    ("reason", "outcome", "ill"),
    [
        ("Unreachable", "unreachable", {"url": "http://127.0.0.1:9"}),
        ("Timeout", "timeout", {"delay_s": 2.0}),
        ("TooLarge", "too_large", {"body": b" " * (10 << 20)}),
        ("Unreadable", "unreadable", {"body": b"<html>"}),
        ("Refused", "refused", {"status": 503}),
    ],
)
async def test_an_ill_prometheus_changes_a_metric_and_a_condition_and_nothing_else(
    tmp_path: Path, reason: str, outcome: str, ill: Json
) -> None:
    async with prometheus() as fake, observing(tmp_path, ill.get("url", fake.url)) as there:
        fake.answer = holding({"train-worker-0": 20_000})
        for field in ill.keys() - {"url"}:
            setattr(fake, field, ill[field])
        job = train()
        there.see(job, worker(job, phase="Succeeded"), train(ended="Succeeded"))
        await until(lambda: there.learned and there.measured)
        (small,) = there.learned[0].observations
        assert (small.runs, small.peak_mib) == (1, None)
        assert there.measured == reason
        assert there.observer.tally.queries.keys() == {outcome}
        assert "Prometheus" in there.worlds.problems["prometheus"]
        if "url" not in ill:
            # It gets well again.
            fake.delay_s, fake.body, fake.status = 0, None, 200
            await until(lambda: there.learned[0].observations[0].peak_mib == 20_000)
            await until(lambda: there.measured == "Measured")
            assert there.learned[0].observations[0].runs == 1
            assert "prometheus" not in there.worlds.problems


@pytest.mark.parametrize(
    ("value", "reason"), [("NaN", "NotBelieved"), (str(20_000 * 2**20), "NotBelieved"), ("0.02", "NotBelieved")]
)
async def test_values_that_cannot_be_are_counted_and_not_believed(tmp_path: Path, value: str, reason: str) -> None:
    async with prometheus() as fake, observing(tmp_path, fake.url) as there:
        fake.answer = holding({"train-worker-0": value})  # type: ignore[dict-item]
        job = train()
        there.see(job, worker(job, phase="Succeeded"), train(ended="Succeeded"))
        await until(lambda: there.learned and there.measured == reason)
        assert there.learned[0].observations[0].peak_mib is None
        assert sum(there.observer.tally.dropped.values()) >= 1


async def test_labels_that_are_missing_give_nothing(tmp_path: Path) -> None:
    async with prometheus() as fake, observing(tmp_path, fake.url) as there:
        fake.answer = lambda _: []
        job = train()
        there.see(job, worker(job, phase="Succeeded"), train(ended="Succeeded"))
        await until(lambda: there.learned and there.measured == "NoSamples")
        await there.idle()


async def test_a_policy_s_own_query_is_asked_as_well(tmp_path: Path) -> None:
    policy = Policy(evidence=Evidence(query="my_gpu_bytes"))
    async with prometheus() as fake, observing(tmp_path, fake.url, policy) as there:
        labels = {"namespace": "team", "pod": "train-worker-0", "samestep_exporter": "policy"}
        held = str(20_000 * 2**20)
        fake.answer = lambda query: [{"metric": labels, "value": held}] if "(my_gpu_bytes)" in query else []
        job = train()
        there.see(job, worker(job, phase="Succeeded"), train(ended="Succeeded"))
        await until(lambda: there.learned and there.learned[0].observations[0].peak_mib == 20_000)


async def test_who_leads_next_learns_nothing_twice(tmp_path: Path) -> None:
    job = train(ended="Succeeded")
    told = [worker(job, phase="Succeeded"), job]
    async with served(tmp_path) as (server, kubeconfig):
        profiles = server.serve(PROFILES, "TrainingProfile")
        found = []
        for _ in range(2):
            there = Observing(profiles, kubeconfig, "", Policy())
            there.observer.start()
            there.see(*told, operation=Operation.LISTED)
            await until(lambda: there.observer.tally.runs)  # noqa: B023 (called at once)
            await there.idle()
            found.append(there.learned)
            await there.observer.stop()
    assert found[0] == found[1]
    assert found[0][0].observations[0].runs == 1


async def test_who_does_not_lead_writes_nothing(alone: Observing) -> None:
    alone.leads = False
    job = train(ended="Succeeded")
    alone.see(worker(job, phase="Succeeded"), job)
    await until(lambda: not alone.observer._observed.jobs)
    assert alone.learned == []


async def test_pods_that_vanish_with_their_job_have_been_seen(alone: Observing) -> None:
    job = train()
    failed = worker(job, phase="Failed", message=PYTORCH)
    alone.see(job, worker(job))
    alone.see(failed, job, operation=Operation.DELETED)
    await until(lambda: alone.learned)
    assert alone.learned[0].observations[0].out_of_memory is not None


async def test_what_a_job_made_belongs_to_it(alone: Observing) -> None:
    """A pod may be told of before what owns it."""
    owner = train("outer", ended="Succeeded")
    inner: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **owner["metadata"],
            "name": "inner",
            "uid": "job inner",
            "ownerReferences": worker(owner)["metadata"]["ownerReferences"],
        },
        "spec": {"template": {"spec": pod(gpus=1)}},
    }
    alone.see(worker(inner, phase="Succeeded"), inner, owner)
    await until(lambda: alone.learned)
    await alone.idle()
    (found,) = alone.profiles.objects.values()
    assert found["spec"]["training"]["kind"] == "PyTorchJob.kubeflow.org"
    assert found["spec"]["policies"] == ["one-model-per-job"]


async def test_a_job_that_was_refused_by_its_host_or_stopped_teaches_nothing(alone: Observing) -> None:
    job = train(ended="Failed")
    alone.see(worker(job, phase="Failed", message=PYTORCH, code=137), job)
    await until(lambda: alone.observer.tally.runs)
    await alone.idle()
    assert alone.learned == []


async def test_a_job_that_quotes_its_program_says_so_of_the_one_model_that_it_ran_on(alone: Observing) -> None:
    """Ray's workers go on when a task of theirs has run out of memory."""
    job: Json = {
        **train(),
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "spec": {
            "entrypoint": "torchrun train.py",
            "rayClusterSpec": {
                "headGroupSpec": {"template": {"spec": pod(gpus=0)}},
                "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": {"spec": pod(gpus=1)}}],
            },
        },
    }
    job["metadata"]["annotations"] = {"samestep.dev/coupling": "Synchronous"}
    alone.see(job, worker(job, 0), worker(job, 1))
    status = {"jobStatus": "FAILED", "message": f"Job entrypoint failed: {PYTORCH}", "endTime": ENDED}
    alone.see({**job, "status": status})
    await until(lambda: alone.learned)
    (small,) = alone.learned[0].observations
    assert (small.product, small.out_of_memory and small.out_of_memory.at) == (SMALL, seconds(ENDED))


async def test_a_profile_that_was_deleted_is_learned_anew(alone: Observing) -> None:
    job = train(ended="Succeeded")
    alone.see(worker(job, phase="Succeeded"), job)
    await until(lambda: alone.learned)
    (one,) = alone.profiles.objects.values()
    alone.profiles.remove(one["metadata"]["name"], "team")
    again = train("again", ended="Succeeded")
    alone.see(worker(again, phase="Succeeded"), again)
    await until(lambda: alone.learned)
    assert alone.learned[0].observations[0].runs == 1


async def test_namespaces_that_are_left_alone_leave_no_trace(alone: Observing) -> None:
    alone.worlds.name({"team": {"samestep.dev/ignore": ""}})
    job, of_ours = train(ended="Succeeded"), train("other", ended="Succeeded", namespace="kube-system")
    alone.see(worker(job, phase="Succeeded"), job, worker(of_ours, phase="Succeeded"), of_ours)
    await alone.idle()
    assert alone.learned == []


async def test_profiles_that_are_old_or_too_many_are_deleted(few: Observing) -> None:
    job = train(ended="Succeeded")
    few.see(worker(job, phase="Succeeded"), job)
    await until(lambda: few.learned)
    (mould,) = few.profiles.objects.values()
    now = time.time()
    for age_s in (0, 10, 20, KEPT_S + 60):
        at = datetime.fromtimestamp(now - age_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        (one,) = mould["spec"]["observations"]
        seen = {**mould["spec"], "observations": [{**one, "lastSeen": at, "lastGood": at}]}
        few.profiles.put({**mould, "metadata": {**mould["metadata"], "name": f"aged-{age_s}"}, "spec": seen})
    few.profiles.remove(mould["metadata"]["name"], "team")
    few.observer._swept_at = float("-inf")
    await until(lambda: few.observer.tally.writes["deleted"] == 2)
    assert {one.name for one in few.learned} == {"aged-0", "aged-10"}
    assert few.observer.tally.profiles == {"unmeasured": 2}


async def test_a_cluster_without_the_kind_is_none_to_learn_from(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, kubeconfig):
        there = Observing(Collection("TrainingProfile"), kubeconfig, "", Policy())
        there.observer.start()
        job = train(ended="Succeeded")
        there.see(worker(job, phase="Succeeded"), job)
        await until(lambda: not there.observer._observed.jobs)
        await there.observer.stop()
        assert not [path for path in server.asked if "namespaces" in path]
