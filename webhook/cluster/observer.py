"""Observes how jobs run, and writes down what that teaches: TrainingProfiles. Done by the replica that leads, never in
the path of a review; whatever goes wrong here, jobs are decided as before."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp

from webhook.cluster.access import AccessError, Client, StatusError, reason
from webhook.cluster.contact import Connect, version_served
from webhook.cluster.created import Surround, request_of
from webhook.cluster.jobs import JobEvent
from webhook.cluster.learning import MEASURED, read_as_job, shown, with_memory
from webhook.cluster.observed import Job, Observed, leading, settle
from webhook.cluster.profile_store import MOST_IN_NAMESPACE, Lesson, find, is_in, sweep, write
from webhook.cluster.prometheus import Outcome, Prometheus, PrometheusError
from webhook.cluster.registration import IGNORE_LABEL
from webhook.cluster.tasks import ended
from webhook.cluster.telling import Telling
from webhook.cluster.world import Worlds
from webhook.evidence.measured import Sample
from webhook.evidence.questions import Question
from webhook.model.run import Ending

_log = logging.getLogger(__name__)
FOLLOWED = "prometheus"
"""What its troubles are told by."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When what is done, in seconds. Ends are looked at when pods had `settle` to tell theirs; running jobs each
    `measure`; profiles are swept each `sweep`. What did not work is tried again after `again`, of one job twice as long
    each time. Of questions, `burst` may be asked at once, and one each `question` in the long run; after a failure none
    for `pause`, twice as long each time, up to 16 times."""

    look: float = 1.0
    settle: float = 5.0
    measure: float = 300.0
    again: float = 60.0
    sweep: float = 3600.0
    question: float = 1.0
    burst: int = 30
    pause: float = 15.0


_ATTEMPTS = 8
_LONGEST_PAUSE = 16


@dataclass(slots=True)
class Tally:
    """What is counted, for whoever shows it. `profiles` are those that there are, by what they say."""

    queries: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    profiles: Counter[str] = field(default_factory=Counter)
    left_out: int = 0


class Observer:
    """Learns from the jobs that `take` is told of, while `leads` says so and the cluster serves TrainingProfiles; not
    at all without `observe`.

    `surround` puts what a job refers to in view; without `prometheus`, only ends are observed. In a namespace
    the last `most` profiles are kept.
    """

    def __init__(
        self,
        connect: Connect,
        leads: Callable[[], bool],
        worlds: Worlds,
        surround: Surround,
        prometheus: Prometheus | None = None,
        *,
        observe: bool = True,
        rhythm: Rhythm = Rhythm(),
        most: int = MOST_IN_NAMESPACE,
    ) -> None:
        self.tally = Tally()
        self._connect = connect
        self._leads = leads
        self._worlds = worlds
        self._surround = surround
        self._prometheus = prometheus
        self._rhythm = rhythm
        self._most = most
        self._observe = observe
        self._observed = Observed(lambda: worlds.kinds)
        self._serves = False
        self._asked_at = float("-inf")
        self._swept_at = float("-inf")
        self._asking = _Pace(rhythm)
        self._tell = Telling(_log)
        self._task: asyncio.Task[None] | None = None

    def take(self, event: JobEvent) -> None:
        """A job, or a pod, has come, changed or gone."""
        if self._observe:
            self._observed.take(event)

    def start(self) -> None:
        """Begins to learn; does nothing where it does so already."""
        if self._observe and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="observer")

    async def stop(self) -> None:
        """What is written stays."""
        await ended(self._task)
        if self._prometheus is not None:
            await self._prometheus.close()

    async def _run(self) -> None:
        while True:
            try:
                async with self._connect() as client:
                    while True:
                        await self._look(client)
                        await asyncio.sleep(self._rhythm.look)
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not end the process)
                self._tell(f"nothing can be learned from runs: {reason(error)}")
            await asyncio.sleep(self._rhythm.again)

    async def _look(self, client: Client) -> None:
        # Whoever leads is told anew of all that there is.
        if not self._leads() or not await self._is_served(client):
            self._observed.clear()
            self._worlds.trouble(FOLLOWED, "")
            return
        await self._read_those_that_wait()
        self._observed.gather()
        self.tally.left_out = self._observed.left_out
        for job in leading(self._observed.jobs):
            if self._is_due(job):
                await self._learn_of(client, job)
        if time.monotonic() - self._swept_at > self._rhythm.sweep:
            self._swept_at = time.monotonic()
            await self._sweep(client)

    async def _sweep(self, client: Client) -> None:
        try:
            found = await sweep(client, time.time(), self._most)
        except StatusError as error:
            self._tell(f"old profiles cannot be deleted: {reason(error)}")
            return
        self.tally.writes["deleted"] += found.pop("deleted", 0)
        self.tally.profiles = found

    async def _is_served(self, client: Client) -> bool:
        if not self._serves and time.monotonic() - self._asked_at > self._rhythm.again:
            self._asked_at = time.monotonic()
            self._serves = await version_served(client, "samestep.dev", "trainingprofiles") == "v1alpha1"
        return self._serves

    async def _read_those_that_wait(self) -> None:
        while self._observed.waiting:
            world = self._worlds.current
            if world is None:
                # Before the first whole fleet there is nothing to read them by.
                return
            uid = next(iter(self._observed.waiting))
            event, job = self._observed.waiting.pop(uid), self._observed.jobs.get(uid)
            if job is not None and IGNORE_LABEL not in world.namespaces.get(job.namespace, {}):
                request = request_of(event)
                job.read = read_as_job(request, await self._surround(request, world))
            # All in one go would keep requests waiting.
            await asyncio.sleep(0)

    def _is_due(self, job: Job) -> bool:
        now = time.monotonic()
        if job.uid in self._observed.waiting:
            return False
        if job.ended_seen_at is not None:
            return now >= (job.due_at if job.attempts else job.ended_seen_at + self._rhythm.settle)
        if _last_out_of_memory(job) > job.out_of_memory_seen:
            return True
        is_measured = self._prometheus is not None and any(one.rank.node for one in job.ranks.values())
        return is_measured and now >= job.due_at

    async def _learn_of(self, client: Client, job: Job) -> None:
        self._count(job)
        # It may end while this is written.
        ended = job.ending is not Ending.GOES_ON
        job.due_at = time.monotonic() + self._rhythm.measure
        try:
            complete = await self._learn(client, job) if job.read is not None else True
        except StatusError as error:
            # Someone else has written it meanwhile, or it is refused; the others are learned from all the same.
            self.tally.writes["conflict" if error.status == HTTPStatus.CONFLICT else "failed"] += 1
            self._tell(f"a profile cannot be written: {reason(error)}")
            complete = False
        except (AccessError, aiohttp.ClientError, OSError, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 (one job must not keep the others from being learned from)
            _log.exception("a run cannot be learned from", extra={"facts": {"uid": job.uid}})
            self.tally.writes["failed"] += 1
            complete = False
        if not ended:
            return
        job.attempts += 1
        if complete or job.attempts >= _ATTEMPTS:
            settle(job)
        else:
            job.due_at = time.monotonic() + self._rhythm.again * 2 ** (job.attempts - 1)

    async def _learn(self, client: Client, job: Job) -> bool:
        """Whether all has been learned of the job that there is at present."""
        assert job.read is not None
        found = shown(job, job.read, self._worlds.device_on)
        if not found.says_something:
            return True
        kept = await find(client, found.run)
        if job.attempts == 0 and is_in(kept.profile, found.run):
            return True
        # What was asked before is in the profile already; samples may come late.
        since = None if job.measured_until is None else job.measured_until - self._rhythm.again
        found = await with_memory(found, job.read.query, self._ask if self._prometheus else None, since)
        self.tally.dropped.update(found.measured.dropped)
        if found.why == MEASURED:
            job.measured_until = found.run.at
        if await write(client, kept, Lesson(found.run, job.read.training, job.read.policies, found.why)):
            self.tally.writes["written"] += 1
            self._tell("")
        return not found.failed

    def _count(self, job: Job) -> None:
        at = _last_out_of_memory(job)
        if at > job.out_of_memory_seen:
            job.out_of_memory_seen = at
            self.tally.runs["device_out_of_memory"] += 1
        if job.ending is not Ending.GOES_ON and job.attempts == 0 and job.read is not None:
            self.tally.runs["well" if job.ending is Ending.WELL else "badly"] += 1

    async def _ask(self, question: Question) -> tuple[Sample, ...]:
        assert self._prometheus is not None
        await self._asking.wait()
        try:
            answer = await self._prometheus.ask(question)
        except PrometheusError as error:
            self.tally.queries[error.outcome.value] += 1
            self._asking.failed(error)
            self._worlds.trouble(FOLLOWED, f"Prometheus cannot be asked: {error}")
            raise
        self.tally.queries[Outcome.OK.value] += 1
        self._asking.answered()
        self._worlds.trouble(FOLLOWED, "")
        return answer


class _Pace:
    """How often Prometheus may be asked, and how long not after it has failed."""

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._left = float(rhythm.burst)
        self._counted_at = time.monotonic()
        self._pause_s = rhythm.pause
        self._failed: PrometheusError | None = None
        self._until = 0.0

    async def wait(self) -> None:
        """Raises the error of the last question while it is not to be asked."""
        if self._failed is not None and time.monotonic() < self._until:
            raise self._failed
        self._refill()
        if self._left < 1:
            await asyncio.sleep((1 - self._left) * self._rhythm.question)
            self._refill()
        self._left -= 1

    def failed(self, error: PrometheusError) -> None:
        # That it does not like one question says nothing of the next.
        if error.outcome is not Outcome.REFUSED:
            self._failed, self._until = error, time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE * self._rhythm.pause)

    def answered(self) -> None:
        self._failed, self._pause_s = None, self._rhythm.pause

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._left + (now - self._counted_at) / self._rhythm.question, self._rhythm.burst)
        self._counted_at = now


def _last_out_of_memory(job: Job) -> float:
    return max((one.rank.out_of_memory_at or 0.0 for one in job.ranks.values()), default=0.0)
