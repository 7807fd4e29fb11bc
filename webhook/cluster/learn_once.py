"""Looks at the runs that a cluster still knows of once, for a terminal: by the same path as the observer."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from webhook.cluster.access import Access, AccessError, Client, StatusError
from webhook.cluster.contact import version_served
from webhook.cluster.created import request_of
from webhook.cluster.following import Following
from webhook.cluster.jobs import JobEvent, Operation, watched
from webhook.cluster.learning import Showing, read_as_job, shown, with_memory
from webhook.cluster.lookup import Lookup
from webhook.cluster.observed import Job, Observed, leading
from webhook.cluster.profile_store import Kept, Lesson, empty, find, write, written_down
from webhook.cluster.prometheus import Prometheus, PrometheusError
from webhook.cluster.registration import IGNORE_LABEL
from webhook.cluster.world import Worlds
from webhook.evidence.learned import learned
from webhook.evidence.measured import Sample, pods_that_held
from webhook.evidence.questions import Question, memory_by_pod
from webhook.intake.references import references
from webhook.model.policy import Policy
from webhook.model.profile import Profile
from webhook.model.request import Kind, Object
from webhook.model.run import Ending, Run
from webhook.model.workload import Workload
from webhook.policy.load import Loaded

_WORLD_S = 30.0
_LOOK_S = 0.05
_PAGE = "100"


@dataclass(slots=True)
class Learnt:
    """What was found. `documents` are the profiles as they are with it, by namespace and name; `runs` what each job
    showed, the first that ended first.

    `without_pods` are jobs of which no pod is in view any more, or of which none is placed; `of_no_job` pods of which
    Prometheus knows that they held memory of a device, and that belong to no job in view. `problems` are why something
    could not be asked for; `kinds_not_seen` the kinds of job that we may not list.
    """

    runs: list[Run] = field(default_factory=list)
    documents: dict[tuple[str, str], Object] = field(default_factory=dict)
    without_pods: list[str] = field(default_factory=list)
    of_no_job: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    kinds_not_seen: list[str] = field(default_factory=list)
    written: int = 0


async def learn_once(
    access: Access, files: Loaded, prometheus: Prometheus | None, *, since_s: float, apply: bool
) -> Learnt:
    """Learns from the jobs that ended in the last so many seconds or run now, with what Prometheus measured of them in
    that time; where `apply` says so, the profiles are written to the cluster.

    Raises AccessError where the cluster cannot be asked, or tells of no nodes in time.
    """
    await access.check()
    worlds = Worlds(Policy())
    async with access.client() as client, _followed(access, worlds, files) as following:
        lookup = Lookup(access.client, following.path_of, references)
        try:
            return await _Once(client, worlds, lookup, prometheus, time.time() - since_s, apply=apply).learn()
        finally:
            await lookup.close()


@asynccontextmanager
async def _followed(access: Access, worlds: Worlds, files: Loaded) -> AsyncIterator[Following]:
    """The world as serve sees it."""
    following = Following(access.client, worlds, files)
    following.start()
    try:
        async with asyncio.timeout(_WORLD_S):
            while worlds.current is None:
                if (refused := worlds.problems.get("nodes")) is not None:
                    raise AccessError(refused)
                await asyncio.sleep(_LOOK_S)
        yield following
    except TimeoutError:
        raise AccessError(next(iter(worlds.problems.values()), "the nodes were not listed in time")) from None
    finally:
        await following.stop()


class _Once:
    def __init__(
        self,
        client: Client,
        worlds: Worlds,
        lookup: Lookup,
        prometheus: Prometheus | None,
        since: float,
        *,
        apply: bool,
    ) -> None:
        self._client = client
        self._worlds = worlds
        self._lookup = lookup
        self._prometheus = prometheus
        self._since = since
        self._apply = apply
        self._observed = Observed(lambda: worlds.kinds)
        self._profiles = dict[tuple[str, str], Profile]()
        self._found = Learnt()

    async def learn(self) -> Learnt:
        for workloads in watched(self._worlds.kinds).values():
            await self._list(workloads)
        self._observed.gather()
        jobs = sorted(leading(self._observed.jobs), key=lambda one: (one.ended_at or time.time(), one.name))
        showings = [(job, shown(job, job.read, self._worlds.device_on)) for job in jobs if job.read is not None]
        for job, showing in showings:
            if job.ending is Ending.GOES_ON or showing.run.at >= self._since:
                await self._learn_of(job, showing)
        await self._look_for_others()
        return self._found

    async def _list(self, workloads: tuple[Workload, ...]) -> None:
        by_version = {version: one for one in workloads for version in one.versions}
        first = workloads[0]
        try:
            version = await version_served(self._client, first.group, first.plural, by_version) if first.group else "v1"
            if not version:
                return
            kind = Kind(first.group, version, by_version[version].kind)
            path = f"/apis/{first.group}/{version}/{first.plural}" if first.group else f"/api/v1/{first.plural}"
            async for page in self._client.pages(path, {"limit": _PAGE}):
                for item in page["items"] or ():
                    # The API server leaves these out of the items of its own lists.
                    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
                    self._observed.take(JobEvent(Operation.LISTED, kind, by_version[version], whole))
                await self._read()
        except StatusError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise AccessError(f"the API server refused to list {first.plural}: {error}") from error
            self._found.kinds_not_seen.append(f"{first.plural}.{first.group}" if first.group else first.plural)

    async def _read(self) -> None:
        world = self._worlds.current
        assert world is not None
        for uid, event in self._observed.waiting.items():
            job = self._observed.jobs[uid]
            if IGNORE_LABEL not in world.namespaces.get(job.namespace, {}):
                request = request_of(event)
                job.read = read_as_job(request, await self._lookup.world(request, world))
        self._observed.waiting.clear()

    async def _learn_of(self, job: Job, showing: Showing) -> None:
        assert job.read is not None
        if not showing.run.shown:
            self._found.without_pods.append(f"{job.namespace}/{job.name}")
            return
        found = await with_memory(showing, job.read.query, self._ask if self._prometheus else None, self._since)
        self._found.dropped.update(found.measured.dropped)
        self._found.runs.append(found.run)
        if not found.says_something:
            return
        lesson = Lesson(found.run, job.read.training, job.read.policies, found.why)
        kept = await self._kept(found.run)
        before = self._profiles.get(key := (kept.profile.namespace, kept.profile.name), kept.profile)
        self._profiles[key] = learned(before, found.run)
        if self._profiles[key].observations:
            self._found.documents[key] = written_down(before, lesson)
        if self._apply:
            self._found.written += await write(self._client, kept, lesson)

    async def _kept(self, run: Run) -> Kept:
        try:
            return await find(self._client, run)
        except StatusError as error:
            if error.status != HTTPStatus.FORBIDDEN or self._apply:
                raise AccessError(f"TrainingProfiles cannot be read: {error}") from error
            return Kept(empty(run))

    async def _look_for_others(self) -> None:
        """Pods that held memory of devices and are gone, with the jobs that they belonged to."""
        if self._prometheus is None:
            return
        try:
            samples = await self._ask(memory_by_pod(self._since, time.time()))
        except PrometheusError:
            return
        known = {(one.rank.namespace, one.rank.name) for one in self._observed.pods}
        others = sorted(pods_that_held(samples) - known)
        self._found.of_no_job = [f"{namespace}/{name}" for namespace, name in others]

    async def _ask(self, question: Question) -> tuple[Sample, ...]:
        assert self._prometheus is not None
        try:
            return await self._prometheus.ask(question)
        except PrometheusError as error:
            problem = f"Prometheus cannot be asked: {error}"
            if problem not in self._found.problems:
                self._found.problems.append(problem)
            raise
