"""The watch of job objects, in front of an API server of a few lines that does as it is told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.cluster.api_server import ApiServer, Collection, Json, served, until
from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access
from webhook.cluster.jobs import JobEvent, JobWatch, Operation
from webhook.model.request import Kind

_JOBS = "/apis/batch/v1/jobs"
_PYTORCH = "/apis/kubeflow.org/v1/pytorchjobs"


class Watched:
    """A watch and all that it has told."""

    def __init__(self, kubeconfig: Path) -> None:
        self.leads = True
        self.told: list[JobEvent] = []
        self.troubles: dict[str, str] = {}
        self.watch = JobWatch(
            Access(kubeconfig).client,
            lambda: self.leads,
            workloads,
            (self._fails, self.told.append),
            self._trouble,
            look_s=0.02,
            again_s=0.05,
        )

    def names(self) -> list[tuple[str, str]]:
        return [(one.operation.value, one.object["metadata"]["name"]) for one in self.told]

    def _trouble(self, followed: str, problem: str) -> None:
        self.troubles.pop(followed, None)
        if problem:
            self.troubles[followed] = problem

    @staticmethod
    def _fails(event: JobEvent) -> None:
        raise RuntimeError(f"a subscriber that cannot take a {event.kind}")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    async with served(tmp_path) as (server, kubeconfig):
        server.serve(_JOBS, "Job")
        server.serve("/api/v1/pods", "Pod")
        yield server, kubeconfig


@pytest.fixture
def jobs(cluster: tuple[ApiServer, Path]) -> Collection:
    return cluster[0].collections[_JOBS]


@pytest.fixture
async def watched(cluster: tuple[ApiServer, Path]) -> AsyncIterator[Watched]:
    watched = Watched(cluster[1])
    yield watched
    await watched.watch.stop()


def job(name: str, *, age_s: float = 0.0) -> Json:
    created = (datetime.now(UTC) - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"metadata": {"name": name, "namespace": "team", "creationTimestamp": created}, "spec": {}}


@contextmanager
def broken_off(jobs: Collection) -> Iterator[None]:
    """The watch ends over an error, and listing is refused for a while."""
    jobs.refuses = 500
    jobs.expire()
    yield
    jobs.refuses = None


async def test_objects_are_told_whole_as_they_come_change_and_go(jobs: Collection, watched: Watched) -> None:
    watched.watch.start()
    await jobs.watched()
    jobs.put(job("a"))
    changed = job("a")
    changed["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    jobs.put(changed)
    jobs.remove("a", "team")
    await until(lambda: len(watched.told) == 3)

    assert watched.names() == [("Added", "a"), ("Modified", "a"), ("Deleted", "a")]
    assert {one.kind for one in watched.told} == {Kind("batch", "v1", "Job")}
    assert {one.workload.plural for one in watched.told} == {"jobs"}
    assert watched.told[1].object["status"]["startTime"] == "2026-01-01T00:00:00Z"


async def test_what_was_there_before_is_told_as_such_but_for_the_newest(jobs: Collection, watched: Watched) -> None:
    for index, age_s in enumerate((3600.0, 90.0, 20.0)):
        jobs.put(job(f"job-{index}", age_s=age_s))
    watched.watch.start()
    await until(lambda: len(watched.told) == 3)

    assert watched.names() == [("Listed", "job-0"), ("Listed", "job-1"), ("Added", "job-2")]
    assert watched.told[0].object["kind"] == "Job"
    assert watched.told[0].object["apiVersion"] == "batch/v1"


async def test_nothing_is_asked_by_who_does_not_lead(
    cluster: tuple[ApiServer, Path], jobs: Collection, watched: Watched
) -> None:
    watched.leads = False
    watched.watch.start()
    await asyncio.sleep(0.2)
    assert cluster[0].asked == []
    watched.leads = True
    await jobs.watched()
    watched.leads = False
    await until(lambda: not jobs.watches)
    jobs.put(job("in-between"))
    watched.leads = True
    await until(lambda: watched.told)

    assert watched.names() == [("Added", "in-between")]


async def test_a_watch_that_breaks_off_goes_on_without_telling_old_jobs_as_new(
    jobs: Collection, watched: Watched
) -> None:
    jobs.put(job("old", age_s=3600))
    watched.watch.start()
    await jobs.watched()
    with broken_off(jobs):
        jobs.put(job("new"))
        await until(lambda: watched.troubles)
    await until(lambda: ("Added", "new") in watched.names())

    assert [one for one in watched.names() if one[1] == "old"] == [("Listed", "old")] * 2
    await until(lambda: not watched.troubles)


async def test_a_watch_that_only_ended_goes_on_where_it_was(jobs: Collection, watched: Watched) -> None:
    jobs.put(job("old", age_s=3600))
    watched.watch.start()
    await jobs.watched()
    jobs.end_watches()
    await until(lambda: not jobs.watches)
    jobs.put(job("new"))
    await until(lambda: len(watched.told) == 2)

    assert watched.names() == [("Listed", "old"), ("Added", "new")]
    assert jobs.lists == 1


async def test_a_kind_that_may_not_be_seen_costs_only_itself(
    cluster: tuple[ApiServer, Path], jobs: Collection, watched: Watched
) -> None:
    pods = cluster[0].collections["/api/v1/pods"]
    pods.refuses = 403
    watched.watch.start()
    await until(lambda: watched.troubles)
    jobs.put(job("a"))
    await until(lambda: watched.told)

    assert list(watched.troubles) == ["new pods"]
    assert watched.troubles["new pods"].startswith("new pods not followed since ")
    assert "403" in watched.troubles["new pods"]
    pods.refuses = None
    await until(lambda: not watched.troubles)


async def test_a_kind_that_comes_later_is_taken_up_with_its_first_jobs(
    cluster: tuple[ApiServer, Path], jobs: Collection, watched: Watched
) -> None:
    watched.watch.start()
    await jobs.watched()
    cluster[0].serve(_PYTORCH, "PyTorchJob").put(job("first"))
    await until(lambda: watched.told)

    assert watched.names() == [("Added", "first")]
    assert watched.told[0].kind == Kind("kubeflow.org", "v1", "PyTorchJob")
    assert not watched.troubles


async def test_of_the_versions_of_a_kind_only_one_that_can_be_read_is_watched(
    cluster: tuple[ApiServer, Path], watched: Watched
) -> None:
    unknown, known = (cluster[0].serve(f"/apis/kubeflow.org/{one}/mpijobs", "MPIJob") for one in ("v3", "v2beta1"))
    known.put(job("mpi"))
    watched.watch.start()
    await known.watched()

    assert [(one.operation, one.kind.version) for one in watched.told] == [(Operation.ADDED, "v2beta1")]
    assert watched.told[0].workload.versions == ("v2beta1",)
    assert not unknown.queries
