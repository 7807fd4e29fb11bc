"""Hosts and fabrics that differ inside the chosen model."""

from dataclasses import replace

import pytest

from controlplane.nodes import H100, RTX_5090
from tests.samples import Json, ask, codes, nodes, pod, pytorchjob
from webhook.answer.document import document
from webhook.answer.response import admission_response
from webhook.answer.warnings import warnings
from webhook.model.policy import Differing, Policy, Sameness
from webhook.model.verdict import Review, Verdict

TYPE = "node.kubernetes.io/instance-type"
RACK = Policy(fabric=Sameness(Differing.WARN, ("fabric", "rack")))
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


def test_where_one_value_is_required_the_submitter_is_warned() -> None:
    known = hosts({"rack": "1"}, {"rack": "2"})
    outcome = ask(pytorchjob(memory_per_device="20Gi"), known, policy=ONE_RACK)
    assert warnings(outcome) == ["SST602 fabrics of H100-80GB-HBM3 differ: rack 1, 2"]
    mixed = [*known, *nodes((RTX_5090, 1, 8))]
    pinned = ask(pytorchjob(memory_per_device="44Gi"), mixed, policy=ONE_RACK)
    assert [one.split()[0] for one in warnings(pinned)] == ["SST301", "SST602"]
    on_one = pytorchjob(pod(nodeSelector={"rack": "1"}), memory_per_device="20Gi")
    assert warnings(ask(on_one, known, policy=ONE_RACK)) == []


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
