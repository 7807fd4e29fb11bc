"""A stream of jobs in a time of its own, and who waits how long for what.

Time does not pass while the cluster works: an event (a job comes, a job ends) is applied, the cluster settles, and then
it is the time of the next one. So the figures are those of the decisions alone, and the same on every machine.

Jobs wait suspended, and a queue starts them as Kueue would: in the order in which they came, each as soon as its whole
gang has room where its selectors let it go. (Without such a queue two jobs can each get half of their pods and wait for
ever, with and without us.)
"""

import heapq
import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Submission:
    """A job of `pods` pods that each fill a node. It comes at `at` and runs for `lasts`, both in minutes."""

    name: str
    at: float
    pods: int
    lasts: float


@dataclass(slots=True)
class Run:
    """What became of one job. `model` is what it was pinned to, empty where it was not; `started` is in minutes."""

    job: Submission
    model: str = ""
    started: float | None = None
    on: Mapping[str, int] = field(default_factory=dict)
    """How many nodes of each model it runs on."""


class Cluster(Protocol):
    """Where jobs are submitted, and started by the queue. Every call returns once the cluster has settled."""

    def submit(self, job: Submission) -> str:
        """The model that it is pinned to, or nothing."""

    def start(self, job: Submission) -> Mapping[str, int]:
        """On how many nodes of each model its pods are now."""

    def end(self, job: Submission) -> None: ...


def stream(seed: int, count: int, *, apart: float, lasts: float, largest: int) -> list[Submission]:
    """`count` jobs that come `apart` minutes apart and run for `lasts`, both on average (exponentially distributed)."""
    dice = random.Random(seed)
    jobs, at = [], 0.0
    for number in range(count):
        at += dice.expovariate(1 / apart)
        jobs.append(Submission(f"job-{number:02}", at, dice.randint(1, largest), dice.expovariate(1 / lasts)))
    return jobs


def simulate(jobs: list[Submission], nodes: Mapping[str, int], cluster: Cluster) -> list[Run]:
    """Every job of the stream on a fleet of so many nodes of each model."""
    free = dict(nodes)
    runs: list[Run] = []
    for now, job, ends in _events(jobs, runs):
        if ends is not None:
            cluster.end(job)
            _take(free, ends.on, -1)
        else:
            runs.append(Run(job, cluster.submit(job)))
        for run in runs:
            room = free.get(run.model, 0) if run.model else sum(free.values())
            if run.started is None and run.job.pods <= room:
                run.started, run.on = now, cluster.start(run.job)
                _take(free, run.on, 1)
    return runs


def _events(jobs: list[Submission], runs: list[Run]) -> Iterator[tuple[float, Submission, Run | None]]:
    """Jobs that come, and those that end, which depends on when they were started: ends come first."""
    coming = [(job.at, 1, number) for number, job in enumerate(jobs)]
    heapq.heapify(coming)
    scheduled: set[str] = set()
    while coming:
        at, comes, number = heapq.heappop(coming)
        yield at, jobs[number], None if comes else next(run for run in runs if run.job is jobs[number])
        for run in runs:
            if run.started is not None and run.job.name not in scheduled:
                scheduled.add(run.job.name)
                heapq.heappush(coming, (run.started + run.job.lasts, 0, jobs.index(run.job)))


def _take(free: dict[str, int], on: Mapping[str, int], sign: int) -> None:
    for model, count in on.items():
        free[model] -= sign * count


def waited(runs: list[Run]) -> float:
    """Minutes between coming and starting, over all jobs."""
    return sum(run.started - run.job.at for run in runs if run.started is not None)


@dataclass(slots=True)
class PerfectView:
    """A cluster of figures alone, in which every decision knows all there is to know.

    `nodes` are in the order of their memory, least first. `pins`: jobs of several pods are pinned as they come, by the
    rule of `webhook/decision/choice.py` for those that say nothing of their memory: the larger of the models that have
    room for the gang, and where none has, the shorter queue. All other pods go wherever there is room, or where
    `landed` says.
    """

    nodes: Mapping[str, int]
    pins: bool
    landed: Mapping[str, Counter[str]] = field(default_factory=dict)
    free: Counter[str] = field(init=False)
    queued: Counter[str] = field(default_factory=Counter)
    pinned: dict[str, str] = field(default_factory=dict)
    on: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = Counter(self.nodes)

    def submit(self, job: Submission) -> str:
        if not self.pins or job.pods == 1:
            return ""
        with_room = [one for one in self.nodes if self.free[one] >= job.pods]
        model = with_room[-1] if with_room else max(self.nodes, key=lambda one: self.free[one] - self.queued[one])
        self.pinned[job.name] = model
        self.queued[model] += job.pods
        return model

    def start(self, job: Submission) -> Mapping[str, int]:
        model = self.pinned.get(job.name)
        if model:
            on = Counter({model: job.pods})
            self.queued.subtract(on)
        else:
            on = Counter(self.landed.get(job.name, ()))
            while on.total() < job.pods:
                on[max(self.nodes, key=lambda one: self.free[one] - on[one])] += 1
        self.free.subtract(on)
        self.on[job.name] = on
        return on

    def end(self, job: Submission) -> None:
        self.free.update(self.on.pop(job.name))


def late_choice(jobs: list[Submission], nodes: Mapping[str, int]) -> float:
    """Minutes that the rule of one model costs by itself, with every choice put off until a model has the gang's room.
    No admission can do that: it has to pin when the job comes."""
    free = dict(nodes)
    coming = deque(sorted(jobs, key=lambda job: job.at))
    waiting: list[Submission] = []
    running: list[tuple[float, str, int]] = []
    total = 0.0
    while coming or waiting:
        now = min((*(job.at for job in list(coming)[:1]), *(ends for ends, _, _ in running[:1])))
        while running and running[0][0] <= now:
            _, model, pods = heapq.heappop(running)
            free[model] += pods
        if coming and coming[0].at <= now:
            waiting.append(coming.popleft())
        for job in tuple(waiting):
            model = max(free, key=lambda one: free[one])
            if job.pods <= free[model]:
                free[model] -= job.pods
                heapq.heappush(running, (now + job.lasts, model, job.pods))
                waiting.remove(job)
                total += now - job.at
    return total
