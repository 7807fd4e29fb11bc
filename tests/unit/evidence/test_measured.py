"""What of Prometheus's answers is believed, and what a run has shown then."""

from collections import Counter

import pytest

from tests.unit.evidence.observed import LARGE, MEMORY_MIB, SMALL, rank, run
from webhook.evidence.measured import Sample, activity_of, peaks_by_node, peaks_of
from webhook.evidence.questions import EXPORTER, OF_POLICY, memory_of_pods
from webhook.evidence.runs import run_of
from webhook.model.run import Device, Ending, Measured, Rank, Shown

DCGM, AMD, ALL_SMI = "DCGM exporter", "AMD Device Metrics Exporter", "all-smi"


def place(one: Rank) -> Device | None:
    product = {"node-a": SMALL, "node-b": LARGE}.get(one.node)
    return Device(product, MEMORY_MIB[product], 4) if product else None


def sample(value: float, exporter: str = DCGM, **labels: str) -> Sample:
    return Sample({EXPORTER: exporter, **(labels or {"exported_namespace": "team", "exported_pod": "a-0"})}, value)


@pytest.mark.parametrize(
    "told",
    [
        sample(20_000),
        sample(20_000, namespace="team", pod="a-0"),
        sample(20_000, exported_namespace="team", exported_pod="a-0", namespace="gpu-operator", pod="dcgm-x"),
        sample(20_000, AMD, namespace="team", pod="a-0", gpu_id="0"),
        sample(20_000 * 2**20, OF_POLICY, namespace="team", pod="a-0"),
    ],
)
def test_a_pod_is_known_by_the_labels_of_any_exporter(told: Sample) -> None:
    assert peaks_of([told], [rank()], place, Counter()) == {"a-0": 20_000}


def test_the_most_of_several_devices_counts() -> None:
    told = [sample(value, exported_namespace="team", exported_pod="a-0", UUID=str(value)) for value in (9e3, 2e4, 1e4)]
    assert peaks_of(told, [rank()], place, Counter()) == {"a-0": 20_000}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (sample(float("nan")), "not a number"),
        (sample(float("inf")), "not a number"),
        (sample(20_000 * 2**20), "more than a device has"),
        (sample(1.21 * MEMORY_MIB[SMALL]), "more than a device has"),
        (sample(0.5), "less than 1 MiB"),
        (sample(-7), "less than 1 MiB"),
        (sample(20_000, UUID="GPU-1"), "of no rank"),
        (sample(20_000, exported_namespace="other", exported_pod="a-0"), "of no rank"),
        (sample(20_000, "Unheard Of", namespace="team", pod="a-0"), "of no rank"),
    ],
)
def test_what_cannot_be_is_not_believed(told: Sample, why: str) -> None:
    dropped = Counter[str]()
    assert peaks_of([told], [rank()], place, dropped) == {}
    assert dropped == {why: 1}


def test_a_node_stands_for_the_pod_that_holds_all_its_devices() -> None:
    told = [sample(value, Hostname="node-a", gpu=str(value)) for value in (9e3, 2e4)]
    assert peaks_by_node(told, [rank(gpus=4)], place, Counter()) == {"a-0": 20_000}
    assert peaks_by_node(told, [rank(gpus=2), rank("a-1", gpus=2)], place, Counter()) == {}
    told = [sample(20_000 * 2**20, ALL_SMI, exported_instance="node-a", instance="10.0.0.1:9090")]
    assert peaks_by_node(told, [rank(gpus=4)], place, Counter()) == {"a-0": 20_000}


def test_activity_is_a_part_of_a_whole() -> None:
    dropped = Counter[str]()
    assert activity_of([sample(0.6)], [rank()], dropped) == {"a-0": 0.6}
    assert activity_of([sample(60)], [rank()], dropped) == {}
    assert dropped == {"no part of a whole": 1}


def test_names_that_are_none_are_not_asked_for() -> None:
    asked = list(memory_of_pods([rank('a"} or up{x="'), rank("a.b-0")], 0, 100))
    assert [one.expression.count("a\\\\.b-0") for one in asked] == [6]
    assert "up{" not in asked[0].expression


def test_a_long_run_is_asked_for_in_pieces_and_no_further_back_than_eight_days() -> None:
    day = 86_400
    assert [one.at for one in memory_of_pods([rank()], 0, 2.5 * day)] == [2.5 * day, 1.5 * day, 0.5 * day]
    assert len(list(memory_of_pods([rank()], 0, 100 * day))) == 8


def test_a_run_shows_something_on_each_model_that_it_ran_on() -> None:
    ranks = [rank(), rank("b-0", node="node-b", out_of_memory_at=90.0), rank("c-0", node="elsewhere")]
    found = run_of(run(ending=Ending.BADLY), ranks, place, Measured({"a-0": 20_000.0}))
    assert found.shown == (
        Shown(SMALL, MEMORY_MIB[SMALL], peak_mib=20_000),
        Shown(LARGE, MEMORY_MIB[LARGE], out_of_memory_at=90),
    )
    assert found.unplaced == 1


def test_a_pod_that_failed_and_was_replaced_did_not_end_well() -> None:
    ranks = [rank(ending=Ending.BADLY), rank("b-0", node="node-b", ending=Ending.WELL)]
    assert {one.product: one.well for one in run_of(run(), ranks, place).shown} == {SMALL: False, LARGE: True}


def test_devices_that_held_nothing_did_not_train() -> None:
    (shown,) = run_of(run(), [rank(ending=Ending.WELL)], place, Measured({"a-0": 4.0})).shown
    assert (shown.well, shown.peak_mib) == (False, None)


def test_ranks_of_the_idler_model_waited_for_the_others() -> None:
    ranks = [rank(), rank("b-0", node="node-b")]
    shown = run_of(run(), ranks, place, Measured(active={"a-0": 0.9, "b-0": 0.45})).shown
    assert {one.product: one.imbalance for one in shown} == {SMALL: 0.0, LARGE: 0.5}
    (alone,) = run_of(run(), ranks[:1], place, Measured(active={"a-0": 0.9})).shown
    assert alone.imbalance is None
