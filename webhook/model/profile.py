"""What earlier runs of a training taught: recipes, the profiles kept of them, and what these say of one job.

Memory is MiB of one device, times are seconds since the epoch. Models are named by product, as the catalog does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from webhook.model.demand import Demand


class Allocator(StrEnum):
    """How a framework takes device memory, which decides what a peak says.

    CACHING: it keeps what it once got, so that a peak is an upper bound (PyTorch, and others with their growth
    setting). PREALLOCATING: it takes a share of the card at once, whatever it needs (JAX 75 %, TensorFlow nearly all).
    """

    CACHING = "Caching"
    PREALLOCATING = "Preallocating"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The fingerprint of what decides the memory of a training; two submissions of the same training have the same.

    `digest` covers everything, `family` all but the micro-batch: recipes of one family are neighbours. `micro_batch` is
    the one that was read, None where none was.
    """

    digest: str
    family: str
    micro_batch: int | None = None
    allocator: Allocator = Allocator.UNKNOWN


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Devices that ran out of memory: the last time, on whole devices of the model, and how many times in a row since a
    run ended well there. `job` is what it happened to."""

    at: float
    job: str
    in_a_row: int = 1


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Profile:
    """What is kept of one recipe in one namespace. `name` is the object's."""

    namespace: str
    name: str
    recipe: Recipe
    observations: tuple[Observation, ...] = ()


_NONE: Mapping[tuple[str, str], Sequence[Profile]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles in view, by namespace and digest, and by namespace and family."""

    by_digest: Mapping[tuple[str, str], Sequence[Profile]] = field(default_factory=lambda: _NONE)
    by_family: Mapping[tuple[str, str], Sequence[Profile]] = field(default_factory=lambda: _NONE)

    def __bool__(self) -> bool:
        return bool(self.by_digest)


NO_PROFILES = Profiles()


@dataclass(frozen=True, slots=True)
class Fits:
    """A run of the recipe ended well on a model: how many did, and when the last."""

    runs: int
    at: float


@dataclass(frozen=True, slots=True)
class Lessons:
    """What profiles teach about one job.

    `fits` and `out` are facts of runs, by product: these go before whatever is declared. A product is in one of them at
    most. `demand` is what peaks, or a neighbour's line, come to; None where they say nothing. `profile` is the name of
    the profile that all this rests on, empty where there is none, and `mixed` what the ranks of each model were seen to
    wait in runs over several.
    """

    recipe: Recipe | None = None
    profile: str = ""
    fits: Mapping[str, Fits] = field(default_factory=dict)
    out: Mapping[str, OutOfMemory] = field(default_factory=dict)
    demand: Demand | None = None
    mixed: Mapping[str, float] = field(default_factory=dict)


NO_LESSONS = Lessons()
