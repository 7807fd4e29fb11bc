"""What earlier runs of a training taught: recipes, the profiles kept of them, and what these say of one job.

Memory is MiB of one device, times are seconds since the epoch. Models are named by product, as the catalog does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from webhook.model.demand import Demand
from webhook.model.frozen import frozen

_LAST_S = 253_402_300_799
"""The last second of the year 9999, beyond which a date cannot be told."""


class Allocator(StrEnum):
    """How a framework takes device memory, which decides what a peak says.

    CACHING: it keeps what it once got, so that a peak is an upper bound (PyTorch, and others with their growth
    setting). PREALLOCATING: it takes a share of the card at once, whatever it needs (JAX 75 %, TensorFlow nearly all).
    """

    CACHING = "Caching"
    PREALLOCATING = "Preallocating"
    UNKNOWN = "Unknown"


@frozen
class Recipe:
    """The fingerprint of what decides the memory of a training; two submissions of the same training have the same.

    `digest` covers everything, `family` all but the micro-batch: recipes of one family are neighbours. `micro_batch` is
    the one that was read, None where none was.
    """

    digest: str
    family: str
    micro_batch: int | None = None
    allocator: Allocator = Allocator.UNKNOWN


@frozen
class OutOfMemory:
    """Devices that ran out of memory: the last time, on whole devices of the model, and how many times in a row since a
    run ended well there. `job` is what it happened to."""

    at: float
    job: str
    in_a_row: int = 1


@frozen
class Observation:
    """Runs of one recipe on one model.

    `memory_mib` is what its devices report in all. `runs` ended well, the last of them at `good_at`. `peak_mib` is the
    most that any rank was seen to hold in a run that ended well or goes on; None where nothing was measured.
    `imbalance`: of runs that were mixed over models, the fraction of the time that this model's ranks waited for
    others, as their devices' activity shows; None where that was not seen.
    """

    product: str
    memory_mib: float
    runs: int = 0
    good_at: float | None = None
    peak_mib: float | None = None
    seen_at: float = 0
    out_of_memory: OutOfMemory | None = None
    imbalance: float | None = None


@frozen
class Profile:
    """What is kept of one recipe in one namespace. `name` is the object's."""

    namespace: str
    name: str
    recipe: Recipe
    observations: tuple[Observation, ...] = ()


KEPT_S = 90 * 24 * 3600
"""An observation counts, and is kept, for so long after something was seen last: long enough for what is trained once a
quarter, and no longer than drivers, images and clusters stay the same. It is no field of the object, so that nobody
keeps one for ever."""

_NONE: Mapping[tuple[str, str], Sequence[Profile]] = MappingProxyType({})


@frozen
class Profiles:
    """All profiles in view, by namespace and digest, and by namespace and family."""

    by_digest: Mapping[tuple[str, str], Sequence[Profile]] = field(default_factory=lambda: _NONE)
    by_family: Mapping[tuple[str, str], Sequence[Profile]] = field(default_factory=lambda: _NONE)

    def __bool__(self) -> bool:
        return bool(self.by_digest)


NO_PROFILES = Profiles()


@frozen
class RanOut:
    """Devices of a model, each with so much memory, ran out of it: the last time, and how many times in a row.

    `profile` is the object that says so, `job` what it happened to, and `micro_batch` the smaller one of a neighbour
    whose run that was; None: a run of the recipe itself.
    """

    at: float
    job: str
    times: int
    memory_mib: float
    profile: str = ""
    micro_batch: int | None = None


@frozen
class Fits:
    """Runs ended well on devices of a model, each with so much memory: how many did, and when the last.

    `profile` and `micro_batch` as in RanOut, of a neighbour the larger one. `since`: devices have run out of memory
    since then, once, which is not enough to put the model out.
    """

    runs: int
    at: float
    memory_mib: float
    profile: str = ""
    micro_batch: int | None = None
    since: RanOut | None = None


@frozen
class Lessons:
    """What profiles teach about one job. Models are named by the catalog's one form of all spellings of a product.

    `fits` and `out` are facts of runs: the recipe's own go before whatever is declared, and those of neighbours put
    nothing out. A product is in one of them at most.
    `demand` is what peaks come to, or the line through those of neighbours with the micro-batches in `batches`; None
    where they say nothing. `mixed` is the fraction of the time that the ranks of each model were seen to wait in runs
    over several. `demand_from` names the profiles that the demand rests on; facts name their own.
    """

    recipe: Recipe | None = None
    fits: Mapping[str, Fits] = field(default_factory=dict)
    out: Mapping[str, RanOut] = field(default_factory=dict)
    demand: Demand | None = None
    demand_from: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    mixed: Mapping[str, float] = field(default_factory=dict)


NO_LESSONS = Lessons()


def day(at: float) -> str:
    """The day of a time, in UTC, as messages tell it."""
    return _day(int(min(max(at, 0), _LAST_S)) // 86_400)


@lru_cache(maxsize=64)
def _day(since_the_epoch: int) -> str:
    return datetime.fromtimestamp(since_the_epoch * 86_400, UTC).strftime("%Y-%m-%d")
