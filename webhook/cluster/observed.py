"""The jobs that run, each with its pods, as the watch of jobs tells of them. Nothing is asked here, and of an object
nothing is kept but what its end and its place are told by."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from webhook.cluster.jobs import JobEvent, Operation
from webhook.cluster.registration import LEFT_OUT
from webhook.evidence.endings import read_end, read_rank, says_out_of_memory
from webhook.evidence.measured import Place
from webhook.intake.read import owner_of
from webhook.model.owner import controller_of
from webhook.model.profile import Recipe
from webhook.model.run import Device, Ending, Rank, Run
from webhook.model.workload import Children, Workloads
from webhook.policy.training_profile import TrainingPart

# Objects that wait to be read. Of a cluster's old jobs more may be listed at once; these are left out, and counted.
_MOST_WAITING = 2_000
_MOST_RANKS = 2_048
# Owners of owners: a TrainJob has a JobSet, which has Jobs, which have pods.
_DEEPEST = 8
# What an object is a part of may be told after its end.
_KEPT_S = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of a job: its recipe, what each of its ranks asks for, and the policies that it is under with the
    query of the first."""

    recipe: Recipe
    training: TrainingPart
    asks: frozenset[tuple[str, int]]
    policies: tuple[str, ...] = ()
    query: str = ""


@dataclass(slots=True)
class Placed:
    """A pod with devices, and what these are, which is kept when its node has gone."""

    rank: Rank
    device: Device | None = None
    gone_at: float | None = None


@dataclass(slots=True)
class Job:
    """An object of a kind of job. `leads`: it is no part of another one. `read` is None until its object has been read,
    and where it is none that is decided.

    `ended_at` is by its own word; `ended_seen_at`, `gone_at` and `due_at` are by our clock that only goes forward.
    `generation` is the object's that was read, or waits to be. `measured_until` is what was measured already.
    """

    uid: str
    namespace: str
    name: str
    owner: str
    began_at: float
    leads: bool
    generation: object = None
    ending: Ending = Ending.GOES_ON
    ended_at: float | None = None
    ended_seen_at: float | None = None
    quotes: bool = False
    gone_at: float | None = None
    read: Read | None = None
    ranks: dict[str, Placed] = field(default_factory=dict)
    due_at: float = 0.0
    attempts: int = 0
    measured_until: float | None = None
    out_of_memory_seen: float = 0.0
    settled: bool = False


class Observed:
    """`kinds` gives the kinds that are read at present. `waiting` are objects of jobs that are still to be read."""

    def __init__(self, kinds: Callable[[], Workloads]) -> None:
        self._kinds = kinds
        self.jobs: dict[str, Job] = {}
        self.waiting: dict[str, JobEvent] = {}
        self.left_out = 0
        self._pods: dict[str, Placed] = {}
        self._stray: set[str] = set()
        self._gone: set[str] = set()

    @property
    def pods(self) -> Collection[Placed]:
        """Those with devices."""
        return self._pods.values()

    def clear(self) -> None:
        """Another replica leads: what is told next begins anew."""
        for known in (self.jobs, self.waiting, self._pods, self._stray, self._gone):
            known.clear()

    def take(self, event: JobEvent) -> None:
        """Something has happened to an object."""
        if event.object["metadata"].get("namespace") in LEFT_OUT:
            return
        maker = owner_of(event.object["metadata"], self._kinds())
        if maker is not None and maker.children is Children.SERVING:
            return
        leads = maker is None
        if (event.kind.group, event.kind.kind) != ("", "Pod"):
            self._take_job(event, leads=leads)
        elif (rank := read_rank(event.object)) is not None:
            self._take_pod(rank, event)
            if leads:
                self._take_job(event, leads=True)

    def gather(self) -> None:
        """Gives pods to their jobs, of which they may have been told before, and drops what is of no use any more."""
        now = time.monotonic()
        for uid in list(self._stray):
            placed = self._pods.get(uid)
            job = self.jobs.get(self._root(uid))
            if placed is not None and job is not None and job.leads:
                if not job.settled and len(job.ranks) < _MOST_RANKS:
                    job.ranks[uid] = placed
                self._stray.discard(uid)
            elif placed is None or _is_long_gone(placed, now):
                self._stray.discard(uid)
        for uid in list(self._gone):
            job, pod = self.jobs.get(uid), self._pods.get(uid)
            if pod is not None and uid not in self._stray and _is_long_gone(pod, now):
                del self._pods[uid]
            if job is not None and (job.settled or not job.leads) and _is_long_gone(job, now):
                del self.jobs[uid]
            if uid not in self._pods and uid not in self.jobs:
                self._gone.discard(uid)

    def _take_pod(self, rank: Rank, event: JobEvent) -> None:
        placed = self._pods.get(rank.uid)
        if placed is None:
            placed = self._pods[rank.uid] = Placed(rank)
            self._stray.add(rank.uid)
        placed.rank = rank
        if event.operation is Operation.DELETED:
            placed.gone_at = time.monotonic()
            self._gone.add(rank.uid)

    def _take_job(self, event: JobEvent, *, leads: bool) -> None:
        metadata = event.object["metadata"]
        uid = str(metadata["uid"])
        job = self.jobs.get(uid)
        if job is None:
            place = str(metadata.get("namespace", "")), str(metadata["name"])
            began = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
            owner = controller_of(metadata)
            job = self.jobs[uid] = Job(uid, *place, owner.uid if owner is not None else "", began, leads)
        if leads and not job.settled and (job.generation is None or metadata.get("generation") != job.generation):
            self._wait(job, event)
        if job.ending is Ending.GOES_ON:
            self._end(job, event)
        if event.operation is Operation.DELETED:
            job.gone_at = time.monotonic()
            self._gone.add(uid)

    def _end(self, job: Job, event: JobEvent) -> None:
        job.ending, job.ended_at = read_end(event.object)
        if job.ending is Ending.GOES_ON and event.operation is Operation.DELETED:
            job.ending = Ending.BADLY
        if job.ending is not Ending.GOES_ON:
            job.ended_seen_at = time.monotonic()
            job.quotes = says_out_of_memory(event.object)

    def _wait(self, job: Job, event: JobEvent) -> None:
        if job.uid not in self.waiting and len(self.waiting) >= _MOST_WAITING:
            self.left_out += 1
            return
        job.generation = event.object["metadata"].get("generation", 0)
        self.waiting[job.uid] = event

    def _root(self, uid: str) -> str:
        """The uid of the job that the pod, or its owner, or the owner of that, was made for."""
        for _ in range(_DEEPEST):
            job, pod = self.jobs.get(uid), self._pods.get(uid)
            owner = job.owner if job is not None else pod.rank.owner if pod is not None else ""
            if owner not in self.jobs and owner not in self._pods:
                return uid
            uid = owner
        return uid


def _is_long_gone(one: Job | Placed, now: float) -> bool:
    return one.gone_at is not None and one.gone_at < now - _KEPT_S


def settle(job: Job) -> None:
    """All has been learned of this job that there is."""
    job.settled = True
    job.ranks.clear()
    job.read = None


def ranks_of(job: Job) -> list[Placed]:
    """The pods of a job that ask for what a rank of it asks for; those that ask by claims show nothing of that."""
    asks = job.read.asks if job.read else frozenset()
    return [one for one in job.ranks.values() if not one.rank.devices or asks & one.rank.devices.items()]


def place_of(job: Job, device_on: Callable[[str, str], Device | None]) -> Place:
    """What the devices of a job's ranks are, by node and resource, as long as that is still to be had."""
    asked = sorted({resource for resource, _ in job.read.asks}) if job.read else []
    for one in job.ranks.values():
        if one.rank.node:
            found = (device_on(one.rank.node, resource) for resource in (one.rank.devices or asked))
            one.device = next((device for device in found if device is not None), one.device)
    known = {uid: one.device for uid, one in job.ranks.items()}
    return lambda rank: known.get(rank.uid)


def run_by(job: Job, recipe: Recipe, now: float) -> Run:
    """The run of a job, without what it showed."""
    at = now
    if job.ending is not Ending.GOES_ON:
        ended = (one.rank.ended_at for one in job.ranks.values())
        # By the cluster's own word, so that it is the same whoever sees it, and when.
        at = job.ended_at or max((one for one in ended if one is not None), default=now)
    return Run(job.namespace, job.name, recipe, job.began_at, at, job.ending)


def quoted(job: Job, ranks: list[Rank], place: Place) -> list[Rank]:
    """The ranks, and where the job's own status quotes a device that ran out of memory, one of them with that. It does
    not say whose device, so all have to be of one model."""
    placed = [one for one in ranks if place(one)]
    products = {device.product for one in placed if (device := place(one))}
    known = any(one.out_of_memory_at is not None for one in ranks)
    if not job.quotes or job.ended_at is None or known or len(products) != 1:
        return ranks
    return [replace(one, out_of_memory_at=job.ended_at) if one is placed[0] else one for one in ranks]


def leading(jobs: dict[str, Job]) -> Iterator[Job]:
    """Those from which something may still be learned."""
    return (one for one in list(jobs.values()) if one.leads and not one.settled)
