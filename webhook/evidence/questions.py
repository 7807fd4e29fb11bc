"""What Prometheus is asked about the devices of a run, in PromQL."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from webhook.catalog.exporters import Exporter, exporters
from webhook.model.run import Rank

EXPORTER = "samestep_exporter"
"""The label that says in an answer which exporter of the catalog a value is from."""
OF_POLICY = "policy"
"""Its value for those that a policy's own query gives."""

_AT_ONCE = 100
# So much of a run at once: Prometheus loads every sample of the window, 50 million at the most by its own default.
_WINDOW_S = 24 * 3600.0
_WINDOWS = 8
_STEP = "30s"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class Question:
    """A PromQL expression, and the time at which it is to be evaluated, in seconds since the epoch."""

    expression: str
    at: float


def memory_of_pods(ranks: Sequence[Rank], since: float, until: float) -> Iterator[Question]:
    """The most that each device of these pods held in this time."""
    for namespace, pods in _named(ranks):
        for at, seconds in _windows(since, until):
            yield _joined(
                at,
                (
                    (one, f"max by ({_listed(*pair, *one.devices)}) (max_over_time({metric}{chosen}[{seconds}s]))")
                    for one in exporters()
                    for metric in one.used
                    for pair in one.pods
                    for chosen in [_of_pods(pair, namespace, pods)]
                ),
            )


def memory_by_query(query: str, since: float, until: float) -> Iterator[Question]:
    """The most that each device of the cluster held in this time, by a policy's own expression for the memory in use on
    a device, in bytes."""
    for at, seconds in _windows(since, until):
        kept = _listed(*dict.fromkeys(label for one in exporters() for label in _labels(one)))
        yield Question(_marked(f"max by ({kept}) (max_over_time(({query})[{seconds}s:{_STEP}]))", OF_POLICY), at)


def memory_of_nodes(nodes: Iterable[str], since: float, until: float) -> Iterator[Question]:
    """The most that each device of these nodes held in this time."""
    for some in _some(nodes):
        for at, seconds in _windows(since, until):
            yield _joined(
                at,
                (
                    (one, f"max by ({_listed(label, *one.devices)}) (max_over_time({metric}{chosen}[{seconds}s]))")
                    for one in exporters()
                    for metric in one.used
                    for label in one.nodes
                    for chosen in [f"{{{label}=~{_any_of(some)}}}"]
                ),
            )


def activity_of_pods(ranks: Sequence[Rank], since: float, until: float) -> Iterator[Question]:
    """The part of the time in which the units of these pods' devices had work, as far as an exporter tells: over the
    last piece of a long run."""
    at, seconds = next(_windows(since, until))
    for namespace, pods in _named(ranks):
        yield _joined(
            at,
            (
                (one, f"avg by ({_listed(*pair)}) (avg_over_time({one.active}{chosen}[{seconds}s]))")
                for one in exporters()
                if one.active
                for pair in one.pods
                for chosen in [_of_pods(pair, namespace, pods)]
            ),
        )


def memory_by_pod(since: float, until: float) -> Question:
    """The most that each pod of the cluster held of a device in this time."""
    seconds = max(round(until - since), 1)
    return _joined(
        until,
        (
            (one, f"max by ({names}) (max_over_time({metric}[{seconds}s]))")
            for one in exporters()
            for metric in one.used
            if (names := _listed(*(label for pair in one.pods for label in pair)))
        ),
    )


def _named(ranks: Sequence[Rank]) -> Iterator[tuple[str, list[str]]]:
    """Namespaces with some of their pods each."""
    by_namespace: dict[str, list[str]] = {}
    for one in ranks:
        if _NAME.match(one.namespace):
            by_namespace.setdefault(one.namespace, []).append(one.name)
    for namespace, names in by_namespace.items():
        for some in _some(names):
            yield namespace, some


def _some(names: Iterable[str]) -> Iterator[list[str]]:
    known = sorted({one for one in names if _NAME.match(one)})
    for start in range(0, len(known), _AT_ONCE):
        yield known[start : start + _AT_ONCE]


def _windows(since: float, until: float) -> Iterator[tuple[float, int]]:
    """The pieces of a time, by end and length, the last one first. What is longer ago than they reach is left out."""
    for _ in range(_WINDOWS):
        seconds = max(round(min(until - since, _WINDOW_S)), 1)
        yield until, seconds
        until -= seconds
        if until <= since:
            return


def _joined(at: float, parts: Iterable[tuple[Exporter, str]]) -> Question:
    return Question(" or ".join(_marked(part, exporter.name) for exporter, part in parts), at)


def _marked(part: str, source: str) -> str:
    return f'label_replace({part}, "{EXPORTER}", {json.dumps(source)}, "", "")'


def _of_pods(pair: tuple[str, str], namespace: str, pods: Iterable[str]) -> str:
    return f"{{{pair[0]}={json.dumps(namespace)},{pair[1]}=~{_any_of(pods)}}}"


def _any_of(names: Iterable[str]) -> str:
    return json.dumps("|".join(one.replace(".", "\\.") for one in names))


def _labels(exporter: Exporter) -> Iterator[str]:
    for pair in exporter.pods:
        yield from pair
    yield from exporter.nodes
    yield from exporter.devices


def _listed(*labels: str) -> str:
    return ", ".join(labels)
