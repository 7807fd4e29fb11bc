from typing import Any

import pytest

from tests.unit.intake.jobs import Json, container, outside, read, template
from webhook.model.placement import Operator, Placement, Requirement, Term, Toleration

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def placement(**spec: Json) -> Placement:
    return read({"spec": {"template": template(container("x"), **spec)}}).roles[0].placement


def test_nothing_said_is_nothing_read() -> None:
    assert placement() == Placement()


def test_selector_terms_and_tolerations_are_read_in_order() -> None:
    terms = [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "gpu", "operator": "Exists"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
        {},
    ]
    found = placement(
        nodeSelector={"pool": "gpu"},
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
        tolerations=[{"operator": "Exists"}, {"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
    )
    assert found == Placement(
        node_selector=(("pool", "gpu"),),
        node_selector_is_a_map=True,
        terms=(
            Term((Requirement("zone", Operator.IN, ("a", "b")), Requirement("gpu", Operator.EXISTS)), (), True),
            Term((), (Requirement("metadata.name", Operator.NOT_IN, ("n1",)),)),
            Term(),
        ),
        affinity_depth=4,
        tolerations=(Toleration("", "Exists"), Toleration("dedicated", "Equal", "x", "NoSchedule")),
    )


@pytest.mark.parametrize(
    ("affinity", "depth", "terms"),
    [
        (None, 0, None),
        ({}, 1, None),
        ({"podAntiAffinity": {}, "nodeAffinity": None}, 1, None),
        ({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, 2, None),
        ({"nodeAffinity": {REQUIRED: None}}, 2, None),
        ({"nodeAffinity": {REQUIRED: {}}}, 3, ()),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}, 4, ()),
    ],
)
def test_the_depth_says_which_parents_are_there(affinity: object, depth: int, terms: object) -> None:
    found = placement(affinity=affinity, nodeSelector=None)
    assert (found.affinity_depth, found.terms, found.node_selector_is_a_map) == (depth, terms, False)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"nodeSelector": {"a/b": 1}}, "nodeSelector[a/b]"),
        ({"tolerations": [{"key": 1}]}, "tolerations[0].key"),
        (
            {
                "affinity": {
                    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"operator": "in"}]}]}}
                }
            },
            f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
    ],
)
def test_a_wrong_type_is_named_by_its_path(spec: dict[str, Any], where: str) -> None:
    (finding,) = outside({"spec": {"template": template(container("x"), **spec)}}).findings
    assert finding.where == f"spec.template.spec.{where}"
