"""What a decision goes through, told to whoever listens while it is made: its story cannot be another one."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from webhook.decision.pool import TargetPool
from webhook.model.frozen import frozen
from webhook.model.job import PinRecord
from webhook.model.verdict import Candidate, Pin


class Criterion(StrEnum):
    """What makes one candidate better than another."""

    QUEUE = "queue"
    ROOM = "room"
    LIKELY = "likely"
    LARGEST_UNLIKELY = "largestUnlikely"
    HIGH = "high"
    NOW = "now"
    RAN_WELL = "ranWell"
    MOST_FREE = "mostFree"
    BEST_FIT = "bestFit"
    LARGEST = "largest"
    ORDERED = "ordered"
    SAFEST = "safest"
    MOST_DEVICES = "mostDevices"
    RECORDED = "recorded"
    NAME = "name"


Rank: TypeAlias = Callable[[Candidate], float | str | tuple[float, ...]]
"""What a criterion makes of a candidate: the lowest is the best."""


class Narrowed(NamedTuple):
    """A criterion and the candidates that are as good by it as the best of those before it."""

    criterion: Criterion
    left: tuple[Candidate, ...]


class Tried(StrEnum):
    """What came of a label key to pin by."""

    SEPARATES = "separates"
    PARTLY = "partly"
    NO_ROOM = "noRoom"
    SHARED = "shared"
    ABSENT = "absent"
    NOT_WRITABLE = "notWritable"
    NOT_ASKED = "notAsked"
    MISLEADS = "misleads"
    BESIDE = "beside"


class Key(NamedTuple):
    """A label key to pin by: the values that only chosen nodes carry, and how many of these carry one of them."""

    key: str
    tried: Tried
    values: tuple[str, ...] = ()
    nodes: int = 0
    pin: Pin | None = None


class Rule(StrEnum):
    """What an UPDATE goes by, and an object that something else made."""

    NOT_OURS = "notOurs"
    CHILD = "child"
    NOT_STARTED = "notStarted"
    WITHOUT_OUR_PIN = "withoutOurPin"
    OUR_PIN_STAYS = "ourPinStays"
    STARTED = "started"
    PUT_BACK = "putBack"
    UNCHANGED = "unchanged"
    NOT_WRITABLE = "notWritable"


class Unpinned(StrEnum):
    """Why one candidate is chosen and no pin is looked for."""

    NEVER = "never"
    ALONE = "alone"
    MIXED = "mixed"
    QUEUE = "queue"


class Refused(StrEnum):
    """Why a pool is not the one that a job is given. SELECTORS: the job's own contradict it. FIELDS: what it takes
    cannot be written. NODES: none there that the job could land on. CANDIDATES: none there that would be chosen."""

    SELECTORS = "selectors"
    FIELDS = "fields"
    NODES = "nodes"
    CANDIDATES = "candidates"


class PoolTried(NamedTuple):
    """An AcceleratorPool that the job may be given, and why that is not the one; None: it has a candidate."""

    pool: str
    refused: Refused | None


@frozen
class Pools:
    """The AcceleratorPools that were tried, and the one in which the job is decided; empty: in none."""

    tried: tuple[PoolTried, ...]
    taken: str


@frozen
class Pooled:
    """The target pool that counts from here on; nothing that was told of an earlier one does."""

    pool: TargetPool


@frozen
class Kept:
    """The pin that was there before settles the choice."""

    record: PinRecord
    candidate: Candidate


@frozen
class Chosen:
    """What the choice was among, and by which criteria, in their order."""

    among: tuple[Candidate, ...]
    criteria: tuple[tuple[Criterion, Rank], ...]

    @property
    def narrowed(self) -> tuple[Narrowed, ...]:
        """The choice criterion by criterion, until one candidate is left."""
        return tuple(_narrowed(self.among, self.criteria))


@frozen
class Keys:
    """The label keys that were tried, in their order, over so many chosen nodes, and the pin that was made of one."""

    keys: tuple[Key, ...]
    nodes: int
    pin: Pin | None


Note: TypeAlias = Rule | Unpinned | Pools | Pooled | Kept | Chosen | Keys
Tell: TypeAlias = Callable[[Note], None]


def untold(_: Note) -> None:
    """Nobody listens."""


def _narrowed(among: tuple[Candidate, ...], criteria: tuple[tuple[Criterion, Rank], ...]) -> Iterator[Narrowed]:
    for criterion, rank in criteria:
        if len(among) == 1:
            return
        ranks = [(rank(one),) for one in among]
        best = min(ranks)
        among = tuple(one for one, its in zip(among, ranks, strict=True) if its == best)
        yield Narrowed(criterion, among)
