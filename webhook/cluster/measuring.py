"""From a run's ranks to what Prometheus measured of them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from webhook.cluster.prometheus import PrometheusError
from webhook.evidence.measured import Place, Sample, activity_of, peaks_by_node, peaks_of, whole_nodes
from webhook.evidence.questions import Question, activity_of_pods, memory_by_query, memory_of_nodes, memory_of_pods
from webhook.model.run import Measured, Rank

Ask: TypeAlias = Callable[[Question], Awaitable[tuple[Sample, ...]]]
"""Raises PrometheusError."""


async def measure(
    ask: Ask, ranks: Sequence[Rank], since: float, until: float, *, place: Place, query: str = ""
) -> Measured:
    """What the devices of these ranks held in this time, and how busy they were where they are of several models.

    A rank that no exporter names is told by its node, where it holds all of that. `query` is the policy's own. Raises
    PrometheusError; what a bad query of a policy says is only left out.
    """
    peaks: dict[str, float] = {}
    dropped = Counter[str]()

    def keep(found: dict[str, float]) -> None:
        peaks.update({uid: max(mib, peaks.get(uid, 0.0)) for uid, mib in found.items()})

    for question in memory_of_pods(ranks, since, until):
        keep(peaks_of(await ask(question), ranks, place, dropped))
    # What names nodes and no pods counts only while all of these pods had them: before and after, they were others'.
    began = max((since, *(one.began_at for one in ranks)))
    ended = min((until, *(one.ended_at for one in ranks if one.ended_at is not None)))
    if query and began < ended:
        try:
            for question in memory_by_query(query, began, ended):
                samples = await ask(question)
                keep(peaks_of(samples, ranks, place, dropped))
                keep(peaks_by_node(samples, ranks, place, dropped))
        except PrometheusError:
            dropped["of a query that failed"] += 1
    alone = [one for one in whole_nodes(ranks, place).values() if one.uid not in peaks]
    if alone and began < ended:
        for question in memory_of_nodes((one.node for one in alone), began, ended):
            keep(peaks_by_node(await ask(question), alone, place, dropped))
    active: dict[str, float] = {}
    if len({device.product for one in ranks if (device := place(one))}) > 1:
        for question in activity_of_pods(ranks, since, until):
            active |= activity_of(await ask(question), ranks, dropped)
    return Measured(peaks, active, dropped)
