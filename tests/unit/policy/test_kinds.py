"""Kinds that a policy teaches: entries as in workloads.yaml, and what is refused."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from webhook.catalog.workloads import workloads
from webhook.model.policy import Policy
from webhook.model.request import Kind
from webhook.model.workload import Each
from webhook.policy.kinds import kinds_of
from webhook.policy.parts import faults
from webhook.policy.training_policy import TrainingPolicy

ENTRY = """
kind: TrainingRun
group: ml.example.com
versions: [v1]
plural: trainingruns
children: Decided
roles:
- {at: spec.groups, each: Item, template: pod, pods: [scale.replicas]}
coupling: {several: Synchronous}
source: the CRD of the platform team
"""
KIND = Kind("ml.example.com", "v1", "TrainingRun")


def taught(*entries: str) -> Policy:
    return TrainingPolicy.model_validate(document(*entries)).resolved()


def refused(*entries: str) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        TrainingPolicy.model_validate(document(*entries))
    return faults(caught.value)


def document(*entries: str) -> dict[str, Any]:
    spec = {"kinds": [yaml.safe_load(entry) for entry in entries]}
    head = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy"}
    return {**head, "metadata": {"name": "mine"}, "spec": spec}


def test_a_taught_kind_stands_beside_those_of_the_catalog() -> None:
    known = kinds_of(taught(ENTRY))
    entry = known.of(KIND)
    assert entry is not None
    assert (entry.roles[0].at, entry.roles[0].each, entry.roles[0].pods) == (
        ("spec", "groups"),
        Each.ITEM,
        (("scale", "replicas"),),
    )
    assert known.entries[:-1] == workloads().entries


def test_without_taught_kinds_it_is_the_catalog() -> None:
    assert kinds_of(Policy()) is workloads()


def test_an_entry_for_a_kind_of_the_catalog_takes_its_place() -> None:
    known = kinds_of(taught(ENTRY.replace("TrainingRun", "Job").replace("ml.example.com", "batch")))
    entry = known.of(Kind("batch", "v1", "Job"))
    assert entry is not None
    assert entry.source == "the CRD of the platform team"
    assert len(known.entries) == len(workloads().entries)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("plural: trainingruns", "plurals: trainingruns", "spec.kinds.0.plural: Field required"),
        ("source:", "comment:", "spec.kinds.0.source: Field required"),
        ("each: Item", "each: Items", "spec.kinds.0.roles.0.each: Input should be 'One', 'Entry' or 'Item'"),
        ("each: Item", "each: One", "spec.kinds.0.roles.0: name: goes with each: One, and only with it"),
        ("pods: [scale.replicas]", "pods: scale.replicas", "spec.kinds.0.roles.0.pods: Input should be a list"),
        ("[scale.replicas]", "[scale..replicas]", "spec.kinds.0.roles.0.pods.0.1: String should have at least 1"),
        ("template: pod", "template: 5", "spec.kinds.0.roles.0.template: Input should be a list"),
        ("coupling: {several: Synchronous}", "", "spec.kinds.0: coupling: goes with roles:"),
        ("several: Synchronous", "several: Maybe", "spec.kinds.0.coupling.several: Input should be 'Synchronous'"),
        ("roles:", "role:", "spec.kinds.0.role: Extra inputs are not permitted"),
        (
            "children: Decided",
            "children: Serving",
            "spec.kinds.0: one of roles:, holds: and runtime:, or children: Ser",
        ),
        ("versions: [v1]", "versions: []", "spec.kinds.0.versions: Tuple should have at least 1 item"),
    ],
)
def test_a_bad_entry_is_named_by_its_place(before: str, after: str, said: str) -> None:
    found = refused(ENTRY.replace(before, after))
    assert found[0].startswith(said), found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "Training Run"),
        ("kind", "O'Run"),
        ("group", "ml_example"),
        ("group", "ML.example.com"),
        ("plural", "TrainingRuns"),
        ("plural", "runs/status"),
        ("only_with", "a b"),
        ("only_with", "example.com/größe"),
        ("suspend", "spec.it's"),
        ("started", "status.a b"),
    ],
)
def test_what_could_not_stand_in_a_webhook_is_refused(field: str, value: str) -> None:
    entry = yaml.safe_load(ENTRY) | {field: value}
    assert refused(yaml.safe_dump(entry))[0].startswith(f"spec.kinds.0.{field}")


@pytest.mark.parametrize("kind", ["Job", "Job.v1", "v1", ".v1.batch"])
def test_what_is_held_as_a_template_has_group_version_and_kind(kind: str) -> None:
    entry = yaml.safe_load(ENTRY)
    del entry["roles"], entry["coupling"]
    entry["children"] = "Undecided"
    entry["holds"] = [{"at": "spec.template", "each": "One", "held": "Template", "kind": kind}]
    assert refused(yaml.safe_dump(entry))[0].startswith("spec.kinds.0.holds.0.kind")
    entry["holds"][0]["kind"] = "Pod.v1."
    assert taught(yaml.safe_dump(entry)).kinds[0].wraps


def test_two_entries_for_one_kind_are_refused() -> None:
    assert refused(ENTRY, ENTRY) == ["spec.kinds: TrainingRun.ml.example.com has two entries for version v1"]


def test_the_second_of_two_entries_is_named_by_its_number() -> None:
    assert refused(ENTRY, "kind: Other")[0].startswith("spec.kinds.1.group: Field required")
