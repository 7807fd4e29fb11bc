"""What answers of Prometheus say of the ranks of a run. Nothing of them is believed that cannot be."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webhook.catalog.exporters import Exporter, exporters
from webhook.evidence.questions import EXPORTER, OF_POLICY
from webhook.model.run import Device, Rank

Place: TypeAlias = Callable[[Rank], Device | None]
"""What the devices of a rank are; None where they are no whole devices of one known model."""

# A driver reports a few percent more or less than the catalog. More than that is another unit.
_ABOVE = 1.2
_LEAST_MIB = 1.0
IDLE_MIB = 256.0
"""The context alone that a process opens on a device takes more than this."""
_PER_BYTE = 1 / (1 << 20)


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer, at one time."""

    labels: Mapping[str, str]
    value: float


def peaks_of(samples: Iterable[Sample], ranks: Sequence[Rank], place: Place, dropped: Counter[str]) -> dict[str, float]:
    """By uid of a rank, the most that one of its devices held, in MiB. What is left out is counted, by why."""
    found: dict[str, float] = {}
    for rank, sample in _attributed(samples, _Book.of_pods(ranks), dropped):
        _take(found, rank, sample, place, dropped)
    return found


def peaks_by_node(
    samples: Iterable[Sample], ranks: Sequence[Rank], place: Place, dropped: Counter[str]
) -> dict[str, float]:
    """The same of answers that name nodes and no pods: for ranks that hold every device of their node."""
    found: dict[str, float] = {}
    for rank, sample in _attributed(samples, _Book.of_nodes(ranks, place), dropped):
        _take(found, rank, sample, place, dropped)
    return found


def whole_nodes(ranks: Iterable[Rank], place: Place) -> dict[str, Rank]:
    """By node, the rank that holds all its devices."""
    found = {}
    for one in ranks:
        device = place(one) if one.node else None
        if device is not None and sum(one.devices.values()) >= device.count:
            found[one.node] = one
    return found


def activity_of(samples: Iterable[Sample], ranks: Sequence[Rank], dropped: Counter[str]) -> dict[str, float]:
    """By uid of a rank, the part of the time in which its devices had work."""
    found = {}
    for rank, sample in _attributed(samples, _Book.of_pods(ranks), dropped):
        if 0 <= sample.value <= 1:
            found[rank.uid] = sample.value
        else:
            dropped["no part of a whole"] += 1
    return found


def pods_that_held(samples: Iterable[Sample]) -> set[tuple[str, str]]:
    """Namespaces and names of the pods that held so much memory of a device that they used it.

    Where the scrape does not honour the labels of an exporter, the bare ones name its own pod, and a device that nobody
    has carries no others; but that holds next to nothing.
    """
    found = set()
    for one in samples:
        pairs = [pair for known in exporters() if known.name == one.labels.get(EXPORTER) for pair in known.pods]
        named = [(one.labels.get(namespace, ""), one.labels.get(pod, "")) for namespace, pod in pairs]
        pod = next((names for names in named if all(names)), None)
        if pod is not None and one.value * _mib_per_unit(one.labels) >= IDLE_MIB:
            found.add(pod)
    return found


@dataclass(frozen=True, slots=True)
class _Book:
    """Which rank the labels of a sample mean."""

    by_pod: Mapping[tuple[str, str], Rank]
    by_node: Mapping[str, Rank]

    @classmethod
    def of_pods(cls, ranks: Iterable[Rank]) -> "_Book":
        return cls({(one.namespace, one.name): one for one in ranks}, {})

    @classmethod
    def of_nodes(cls, ranks: Iterable[Rank], place: Place) -> "_Book":
        return cls({}, whole_nodes(ranks, place))

    def find(self, labels: Mapping[str, str]) -> Rank | None:
        known = [one for one in exporters() if labels.get(EXPORTER) in (one.name, OF_POLICY)]
        for namespace, pod in (pair for one in known for pair in one.pods):
            rank = self.by_pod.get((labels.get(namespace, ""), labels.get(pod, "")))
            if rank is not None:
                return rank
        for node in (label for one in known for label in one.nodes):
            rank = self.by_node.get(labels.get(node, ""))
            if rank is not None:
                return rank
        return None


def _attributed(samples: Iterable[Sample], book: _Book, dropped: Counter[str]) -> Iterator[tuple[Rank, Sample]]:
    for sample in samples:
        rank = book.find(sample.labels)
        if rank is None:
            # A policy's own query names the devices of everyone.
            if sample.labels.get(EXPORTER) != OF_POLICY:
                dropped["of no rank"] += 1
        elif math.isfinite(sample.value):
            yield rank, sample
        else:
            dropped["not a number"] += 1


def _take(found: dict[str, float], rank: Rank, sample: Sample, place: Place, dropped: Counter[str]) -> None:
    device = place(rank)
    if device is None:
        dropped["of no known model"] += 1
        return
    mib = sample.value * _mib_per_unit(sample.labels)
    if mib > device.memory_mib * _ABOVE:
        dropped["more than a device has"] += 1
    elif mib < _LEAST_MIB:
        dropped["less than 1 MiB"] += 1
    else:
        found[rank.uid] = max(found.get(rank.uid, 0.0), mib)


def _mib_per_unit(labels: Mapping[str, str]) -> float:
    named = (one for one in exporters() if one.name == labels.get(EXPORTER))
    exporter: Exporter | None = next(named, None)
    return exporter.mib_per_unit if exporter else _PER_BYTE
