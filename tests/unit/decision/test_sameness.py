"""Hosts and fabrics that differ inside the chosen model."""

from dataclasses import replace

import pytest

from controlplane.nodes import H100, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, codes, nodes, patched, pod, products, pytorchjob, worker
from webhook.answer.document import document
from webhook.answer.response import admission_response
from webhook.answer.warnings import warnings
from webhook.model.policy import Differing, PinWhen, Policy, Sameness
from webhook.model.request import Stage
from webhook.model.verdict import Pin, Review, Verdict

TYPE = "node.kubernetes.io/instance-type"
RACK = Policy(fabric=Sameness(Differing.WARN, ("fabric", "rack")))
SMALL = nodes((RTX_5090, 1, 8))
ONE_RACK = Policy(fabric=Sameness(Differing.REQUIRE, ("rack",)))


def hosts(*labels: dict[str, str], cpus: tuple[str, ...] = (), memory: tuple[str, ...] = ()) -> list[Json]:
    """Nodes of one model, with these labels and amounts one after the other."""
    known = nodes((H100, max(len(labels), len(cpus), len(memory)), 8))
    for node, own in zip(known, labels, strict=False):
        node["metadata"]["labels"] |= own
    for resource, amounts in (("cpu", cpus), ("memory", memory)):
        for node, amount in zip(known, amounts, strict=False):
            node["status"]["allocatable"][resource] = amount
    return known


def messages(outcome: Review) -> list[str]:
    return [one["message"] for one in document(outcome, "")["findings"] if one["code"] in ("SST601", "SST602")]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (hosts({TYPE: "a"}, {TYPE: "a"}), ""),
        (hosts({TYPE: "a"}, {TYPE: "b"}), f"hosts of H100-80GB-HBM3 differ: {TYPE} a, b"),
        (hosts({TYPE: "a"}, {}), ""),
        (hosts(*({TYPE: name} for name in "edcba")), f"hosts of H100-80GB-HBM3 differ: {TYPE} (> 3)"),
        (hosts(cpus=("64", "70")), ""),
        (hosts(cpus=("64", "71")), "hosts of H100-80GB-HBM3 differ: cpu 64–71"),
        (hosts(cpus=("64", "95500m", "80")), "hosts of H100-80GB-HBM3 differ: cpu 64–95.5"),
        (hosts(memory=("512Gi", "1Ti")), "hosts of H100-80GB-HBM3 differ: memory 512–1024 GiB"),
        (hosts({TYPE: "a"}, {TYPE: "b"}, cpus=("8", "9")), f"hosts of H100-80GB-HBM3 differ: {TYPE} a, b; cpu 8–9"),
    ],
)
def test_labels_and_amounts_are_compared(known: list[Json], message: str) -> None:
    outcome = ask(pytorchjob(), known)
    assert outcome.verdict is Verdict.ADMIT
    assert messages(outcome) == ([message] if message else [])


def test_the_labels_of_fabrics_are_the_policys() -> None:
    known = hosts({"fabric": "x", "rack": "1"}, {"fabric": "x", "rack": "2"})
    assert codes(ask(pytorchjob(), known)) == []
    outcome = ask(pytorchjob(), known, policy=RACK)
    assert codes(outcome) == ["SST602"]
    assert messages(outcome)[0].endswith("differ: rack 1, 2")


def test_where_one_value_is_required_a_job_is_kept_to_the_one_with_most_devices() -> None:
    known = hosts({"rack": "1"}, {"rack": "2"}, {"rack": "2"})
    outcome = ask(pytorchjob(memory_per_device="20Gi"), known, policy=ONE_RACK)
    assert (outcome.verdict, outcome.decision.pin) == (Verdict.PIN, Pin("rack", ("2",), (0,)))
    assert warnings(outcome) == ["SST301 pinned to H100-80GB-HBM3 (rack)"]
    on_one = pytorchjob(pod(nodeSelector={"rack": "1"}), memory_per_device="20Gi")
    assert ask(on_one, known, policy=ONE_RACK).verdict is Verdict.ADMIT


def test_beside_a_pin_to_one_model_stands_the_selector_of_each_label() -> None:
    small = nodes((RTX_5090, 1, 8))
    small[0]["metadata"]["labels"] |= {"rack": "2", "rail": "a"}
    known = [*hosts({"rack": "1", "rail": "a"}, {"rack": "2", "rail": "a"}, {"rack": "2", "rail": "b"}), *small]
    policy = Policy(fabric=Sameness(Differing.REQUIRE, ("rack", "rail")))
    outcome = ask(pytorchjob(memory_per_device="44Gi", workers=2), known, policy=policy)
    written = patched(outcome)["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"]
    assert written == {"nvidia.com/gpu.product": H100.product, "rack": "2", "rail": "a"}
    assert products(outcome) == [H100.product]


@pytest.mark.parametrize("stage", [Stage.MUTATE, Stage.VALIDATE])
def test_a_job_that_is_kept_to_one_value_is_left_alone_when_it_comes_back(stage: Stage) -> None:
    known = [*hosts({"rack": "1"}, {"rack": "2"}), *SMALL]
    stored = patched(ask(pytorchjob(memory_per_device="44Gi"), known, policy=ONE_RACK))
    assert ask(stored, known, policy=ONE_RACK, stage=stage).verdict is Verdict.ADMIT
    assert ask(stored, known, policy=ONE_RACK, old=stored, stage=stage).verdict is Verdict.ADMIT


def test_a_value_without_room_for_the_gang_is_not_taken_and_where_none_has_it_the_submitter_is_warned() -> None:
    wide = pytorchjob(pod(gpus=8), workers=2, memory_per_device="20Gi")
    racks = hosts({"rack": "1"}, {"rack": "1"}, {"rack": "2"})
    pin = ask(wide, racks, policy=ONE_RACK).decision.pin
    assert pin is not None
    assert pin.values == ("1",)
    apart = hosts({"rack": "1"}, {"rack": "2"})
    outcome = ask(wide, apart, policy=ONE_RACK)
    assert warnings(outcome) == ["SST602 fabrics of H100-80GB-HBM3 differ: rack 1, 2"]


def test_the_model_that_was_chosen_is_kept_to_one_value_also_where_another_has_more_devices_there() -> None:
    known = nodes((H100, 2, 8), (RTX_5090, 1, 12), (RTX_PRO_6000, 1, 12))
    for node, rack in zip(known, "1212", strict=True):
        node["metadata"]["labels"]["rack"] = rack
    obj = pytorchjob(pod(gpus=2), workers=2, memory_per_device="20Gi")
    outcome = ask(obj, known, policy=ONE_RACK)
    assert products(outcome) == [H100.product]
    written = worker(patched(outcome))["nodeSelector"]
    assert written == {"nvidia.com/gpu.product": H100.product, "rack": "1"}
    assert ask(patched(outcome), known, policy=ONE_RACK).verdict is Verdict.ADMIT


def test_jobs_that_nothing_is_written_into_are_warned() -> None:
    known = hosts({"rack": "1"}, {"rack": "2"})
    never = replace(ONE_RACK, pin_when=PinWhen.NEVER)
    outcome = ask(pytorchjob(memory_per_device="20Gi"), known, policy=never)
    assert (outcome.verdict, warnings(outcome)) == (
        Verdict.ADMIT,
        ["SST602 fabrics of H100-80GB-HBM3 differ: rack 1, 2"],
    )


def test_a_policy_may_ignore_both() -> None:
    known = hosts({TYPE: "a", "rack": "1"}, {TYPE: "b", "rack": "2"})
    assert codes(ask(pytorchjob(), known, policy=RACK)) == ["SST601", "SST602"]
    ignoring = Policy(host=Sameness(Differing.IGNORE, (TYPE,)), fabric=Sameness(Differing.IGNORE, ("rack",)))
    assert codes(ask(pytorchjob(), known, policy=ignoring)) == []


def test_only_the_nodes_of_the_chosen_model_are_compared() -> None:
    known = [*hosts({TYPE: "a"}, {TYPE: "a"}), *nodes((RTX_5090, 1, 8))]
    known[-1]["metadata"]["labels"][TYPE] = "b"
    outcome = ask(pytorchjob(memory_per_device="44Gi"), known)
    assert (outcome.verdict, "SST601" in codes(outcome)) == (Verdict.PIN, False)


def test_it_is_told_in_audit_annotations_and_to_programs_and_not_as_a_warning() -> None:
    outcome = ask(pytorchjob(memory_per_device="20Gi"), hosts({TYPE: "a"}, {TYPE: "b"}))
    response = admission_response(outcome)
    assert response["auditAnnotations"]["codes"] == "SST601"
    assert "warnings" not in response
    assert [one["severity"] for one in document(outcome, "")["findings"]] == ["Info"]


def test_the_tolerance_is_the_policys() -> None:
    known = hosts(cpus=("64", "128"))
    loose = Policy(host=replace(Policy().host, resources=(("cpu", 100),)))
    assert codes(ask(pytorchjob(), known)) == ["SST601"]
    assert codes(ask(pytorchjob(), known, policy=loose)) == []
