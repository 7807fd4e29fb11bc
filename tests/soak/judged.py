"""What a run has come to: each answer held to what it may be at that moment, and the lines that have to hold."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median

AFTER_S = 5.0
"""How long after a fault there may still be failures, and answers by a policy that has just been replaced."""
LONGEST_S = 5.0 + 1.0
"""A create may wait for both of our webhooks (2 s and 3 s), and the API server takes a moment itself."""
SENT = 0.95
FLAT = 0.05


class Want(Enum):
    """What has to become of a job."""

    PINNED = "pinned"
    DENIED = "denied"
    UNTOUCHED = "untouched"
    """Not sent to us at all."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A sort of create. `models` are the products that it may be pinned to, by policy. A job that is denied is told
    `told`. `closed`: where the webhook cannot be asked it is refused, else let through."""

    name: str
    want: Want
    models: Mapping[str, str] = field(default_factory=dict)
    told: str = ""
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one create; times in seconds. `status` 0: no answer, -1: not sent. `found` is the product of its pin."""

    name: str
    at: float
    took: float
    status: int
    found: str = ""
    said: str = ""

    @property
    def end(self) -> float:
        return self.at + self.took

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Window:
    """When something was wrong. `of_the_server`: with the API server itself, which then fails anybody."""

    fault: str
    start: float
    end: float
    of_the_server: bool = False

    def meets(self, one: Outcome) -> bool:
        return one.at <= self.end + AFTER_S and one.end >= self.start


@dataclass(frozen=True, slots=True)
class Sample:
    """What a replica holds in memory at a moment."""

    replica: str
    at: float
    resident_mib: float


class Verdict(Enum):
    """Of one answer. A failure may be, while something is wrong. A wrong one never."""

    RIGHT = "right"
    FAILED = "failed"
    WRONG = "wrong"
    UNSENT = "not sent"


@dataclass(frozen=True, slots=True)
class Line:
    """What has to hold, and what was seen of it."""

    what: str
    holds: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Run:
    """`edits` are the policies that came into force, each with its moment, the first one before everything."""

    start: float
    end: float
    outcomes: Sequence[Outcome]
    windows: Sequence[Window]
    shapes: Mapping[str, Shape]
    edits: Sequence[tuple[float, str]]
    memory: Sequence[Sample]

    @property
    def minute_s(self) -> float:
        """A fifth of it: a minute, of five."""
        return (self.end - self.start) / 5

    def resident(self, replica: str, minute: int) -> float:
        """MiB in the middle of the values seen in this minute, counted from 0; not a number if there is none."""
        start = self.start + minute * self.minute_s
        seen = [
            one.resident_mib
            for one in self.memory
            if one.replica == replica and start <= one.at < start + self.minute_s
        ]
        return median(seen) if seen else float("nan")

    def verdict(self, one: Outcome) -> Verdict:
        """What is thought of this answer."""
        if one.status == -1:
            return Verdict.UNSENT
        shape = self.shapes[one.name]
        if shape.want is Want.DENIED:
            if one.succeeded:
                return Verdict.WRONG if shape.closed else Verdict.FAILED
            return Verdict.RIGHT if one.status == 403 and shape.told in one.said else Verdict.FAILED
        if not one.succeeded:
            return Verdict.FAILED
        if shape.want is Want.UNTOUCHED:
            return Verdict.WRONG if one.found else Verdict.RIGHT
        if not one.found:
            return Verdict.WRONG if shape.closed else Verdict.FAILED
        return Verdict.RIGHT if one.found in self._models(shape, one) else Verdict.WRONG

    def _models(self, shape: Shape, one: Outcome) -> set[str]:
        """By the policies that were in force at some time of it, or until shortly before."""
        allowed = set()
        for number, (since, policy) in enumerate(self.edits):
            until = self.edits[number + 1][0] if number + 1 < len(self.edits) else float("inf")
            if since <= one.end and until + AFTER_S >= one.at:
                allowed.add(shape.models[policy])
        return allowed

    def excused(self, one: Outcome) -> bool:
        """Whether something was wrong that may have cost this one: what is never sent to us, only the API server."""
        untouched = self.shapes[one.name].want is Want.UNTOUCHED
        return any(window.meets(one) and (window.of_the_server or not untouched) for window in self.windows)

    def lines(self, faults: Iterable[str]) -> list[Line]:
        """All that has to hold, of a run that was to have these faults."""
        judged = [(one, self.verdict(one)) for one in self.outcomes]
        wrong = [one for one, verdict in judged if verdict is Verdict.WRONG]
        failed = [one for one, verdict in judged if verdict is Verdict.FAILED and not self.excused(one)]
        calm = [one for one in self.outcomes if not any(window.meets(one) for window in self.windows)]
        unsent = sum(one.status == -1 for one in calm)
        slow = [
            one
            for one in self.outcomes
            if one.took > LONGEST_S and not any(window.of_the_server and window.meets(one) for window in self.windows)
        ]
        seen = {one.fault for one in self.windows}
        missing = [fault for fault in faults if fault not in seen]
        kinds = Counter(one.name for one, verdict in judged if verdict is Verdict.RIGHT)
        unproven = [name for name in self.shapes if not kinds[name]]
        return [
            Line("every fault took place", not missing, f"missing: {', '.join(missing)}" if missing else "all"),
            Line(
                "every sort of create was answered right",
                not unproven,
                f"never: {', '.join(unproven)}" if unproven else f"{sum(kinds.values())} right answers",
            ),
            Line("no wrong answer", not wrong, _told(wrong)),
            Line("failures only while something is wrong, and 5 s", not failed, _told(failed)),
            Line("nothing waits longer than both webhooks may take", not slow, _told(slow)),
            Line(
                "the load was there when nothing was wrong",
                bool(calm) and unsent <= (1 - SENT) * len(calm),
                f"{len(calm) - unsent} of {len(calm)} creates sent",
            ),
            *map(self._flat, dict.fromkeys(one.replica for one in self.memory)),
        ]

    def _flat(self, replica: str) -> Line:
        second, last = self.resident(replica, 1), self.resident(replica, 4)
        told = f"{second:.0f} MiB, then {last:.0f} MiB ({last / second - 1:+.1%})"
        # Of what was not measured (NaN) this is false.
        flat = abs(last - second) <= FLAT * second
        return Line(f"{replica}: memory of the last minute within 5 % of the second", flat, told)


def _told(those: Sequence[Outcome]) -> str:
    if not those:
        return "none"
    one = those[0]
    answer = f"{one.status} {one.found or one.said[:200]}".strip()
    return f"{len(those)}; the first: {one.name} after {one.took:.2f} s: {answer}"
