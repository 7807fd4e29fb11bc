"""Runs of trainings as they were observed. Times are seconds since the epoch, memory is MiB of one device."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from webhook.model.frozen import frozen
from webhook.model.profile import Recipe


class Ending(StrEnum):
    """How a run, or one pod of it, stands. BADLY: whatever ended it, if not as it was meant to."""

    GOES_ON = "GoesOn"
    WELL = "Well"
    BADLY = "Badly"


@frozen
class Rank:
    """A pod with devices, as far as its end and its place are looked at.

    `owner` is the uid of its controller, empty where it has none. `devices` are the amounts that it asks for by
    resource; none where it asks by claims. `node` is empty until it is bound. `out_of_memory_at` is when one of its
    containers ended because a device ran out of memory, by what it said, the last of several times; None where none
    did. `began_at` is when the kubelet took it, or it was created.
    """

    uid: str
    namespace: str
    name: str
    owner: str
    node: str
    devices: Mapping[str, int]
    began_at: float
    ending: Ending = Ending.GOES_ON
    ended_at: float | None = None
    out_of_memory_at: float | None = None


@frozen
class Device:
    """What the devices of one node are: whole ones of one model. `count` is how many of them the node has."""

    product: str
    memory_mib: float
    count: int


@frozen
class Measured:
    """Of a run's ranks, by uid: the most memory that a device of each was seen to hold, and the part of the time in
    which the units of its devices had work. `dropped` counts values that were not believed, by why."""

    peaks_mib: Mapping[str, float] = field(default_factory=dict)
    active: Mapping[str, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)


NOT_MEASURED = Measured()


@frozen
class Shown:
    """What one run showed on one model: whether its ranks there came to a good end, the most that one of them held,
    when a device ran out of memory there, and the part of the time that its ranks there waited for others."""

    product: str
    memory_mib: float
    well: bool = False
    peak_mib: float | None = None
    out_of_memory_at: float | None = None
    imbalance: float | None = None


@frozen
class Run:
    """One job of a recipe, and what it showed by then (`at`): its end, where it has ended."""

    namespace: str
    job: str
    recipe: Recipe
    began_at: float
    at: float
    ending: Ending
    shown: tuple[Shown, ...] = ()
    unplaced: int = 0
    """Pods with devices of which no one known model of whole devices could be told."""
