"""Which questions are asked about a run, and what becomes of the answers."""

from collections.abc import Callable

from tests.unit.evidence.observed import LARGE, MEMORY_MIB, SMALL, rank
from webhook.cluster.measuring import measure
from webhook.cluster.prometheus import Outcome, PrometheusError
from webhook.evidence.measured import Sample
from webhook.evidence.questions import EXPORTER, OF_POLICY, Question
from webhook.model.run import Device, Rank

MINE = {"exported_namespace": "team", "exported_pod": "a-0"}


class Asked:
    """Answers each question by the first of these texts that stands in it, and remembers it."""

    def __init__(self, **answers: list[Sample] | PrometheusError) -> None:
        self.answers = answers
        self.questions: list[Question] = []

    async def __call__(self, question: Question) -> tuple[Sample, ...]:
        self.questions.append(question)
        for text, answer in self.answers.items():
            if text in question.expression:
                if isinstance(answer, PrometheusError):
                    raise answer
                return tuple(answer)
        return ()

    def about(self, text: str) -> list[Question]:
        return [one for one in self.questions if text in one.expression]


def dcgm(value: float, **labels: str) -> Sample:
    return Sample({EXPORTER: "DCGM exporter", **labels}, value)


def on(products: dict[str, str]) -> Callable[[Rank], Device | None]:
    return lambda one: Device(products[one.node], MEMORY_MIB[products[one.node]], 4) if one.node in products else None


async def test_a_pod_that_has_its_node_to_itself_is_told_by_the_node_while_it_had_it() -> None:
    ranks = [rank(gpus=4, began_at=100.0), rank("b-0", node="node-b", gpus=4, began_at=130.0, ended_at=400.0)]
    ask = Asked(Hostname=[dcgm(20_000, Hostname="node-a"), dcgm(21_000, Hostname="node-b")])
    found = await measure(ask, ranks, 100, 500, place=on({"node-a": SMALL, "node-b": SMALL}))
    assert found.peaks_mib == {"a-0": 20_000, "b-0": 21_000}
    (asked,) = ask.about("Hostname")
    assert asked.at == 400
    assert "[270s]" in asked.expression


async def test_a_pod_that_shares_its_node_is_told_by_no_node() -> None:
    ask = Asked(Hostname=[dcgm(20_000, Hostname="node-a")])
    found = await measure(ask, [rank(gpus=2)], 0, 500, place=on({"node-a": SMALL}))
    assert found.peaks_mib == {}
    assert ask.about("Hostname") == []


async def test_what_is_told_by_pod_is_not_asked_for_by_node() -> None:
    ask = Asked(exported_pod=[dcgm(20_000, **MINE)])
    found = await measure(ask, [rank(gpus=4)], 0, 500, place=on({"node-a": SMALL}))
    assert found.peaks_mib == {"a-0": 20_000}
    assert ask.about("Hostname") == []


async def test_a_query_of_a_policy_that_fails_costs_only_itself() -> None:
    wrong = PrometheusError(Outcome.REFUSED, "parse error")
    ask = Asked(my_query=wrong, exported_pod=[dcgm(20_000, **MINE)])
    found = await measure(ask, [rank()], 0, 500, place=on({"node-a": SMALL}), query="my_query(")
    assert found.peaks_mib == {"a-0": 20_000}
    assert found.dropped == {"of a query that failed": 1}


async def test_a_query_of_a_policy_names_the_devices_of_everyone() -> None:
    others = [
        Sample({EXPORTER: OF_POLICY, "namespace": "team", "pod": f"other-{index}"}, 2.0**34) for index in range(9)
    ]
    mine = Sample({EXPORTER: OF_POLICY, "namespace": "team", "pod": "a-0"}, 2.0**34)
    found = await measure(
        Asked(my_query=[*others, mine]), [rank()], 0, 500, place=on({"node-a": SMALL}), query="my_query"
    )
    assert (found.peaks_mib, found.dropped) == ({"a-0": 16_384}, {})


async def test_activity_is_asked_for_where_a_run_is_mixed() -> None:
    ranks = [rank(), rank("b-0", node="node-b")]
    busy = [dcgm(0.9, **MINE), dcgm(0.3, exported_namespace="team", exported_pod="b-0")]
    ask = Asked(SM_ACTIVE=busy)
    assert (await measure(ask, ranks, 0, 500, place=on({"node-a": SMALL, "node-b": SMALL}))).active == {}
    assert ask.about("SM_ACTIVE") == []
    found = await measure(ask, ranks, 0, 500, place=on({"node-a": SMALL, "node-b": LARGE}))
    assert found.active == {"a-0": 0.9, "b-0": 0.3}
