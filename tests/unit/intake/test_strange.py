from typing import Any

import pytest

from tests.unit.intake.jobs import GPU, JOB, container, outside, template
from webhook.answer.wording import own_sentence
from webhook.model.request import Kind

STRANGE = Kind("example.com", "v1", "Trainer")


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ({"spec": template(container("x"))["spec"]}, "spec.containers[0]"),
        (
            {"spec": {"groups": [{"a": 1}, {"template": template({}, container("x"))}]}},
            "spec.groups[1].template.spec.containers[1]",
        ),
        ({"spec": {"containers": [{"resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}}]}}, "spec.containers[0]"),
    ],
)
def test_an_unknown_kind_that_asks_for_accelerators_is_told(source: dict[str, Any], where: str) -> None:
    (finding,) = outside(source, STRANGE).findings
    assert (finding.code, finding.where, finding.facts["kind"]) == ("SST102", where, "Trainer.example.com")


@pytest.mark.parametrize(
    "source",
    [
        {},
        None,
        [],
        "x",
        {"spec": template(container("x", gpus=0))},
        {"spec": template(container("x", gpus="many"))},
        {"spec": {"containers": {GPU: 1}}},
        {"spec": {"limits": {GPU: 1}}},
    ],
)
def test_an_unknown_kind_that_asks_for_none_is_not(source: object) -> None:
    assert outside(source, STRANGE).findings == ()


def test_a_version_that_the_catalog_does_not_know_is_unknown() -> None:
    assert "Job.batch" in outside({}, Kind("batch", "v2", "Job")).because


def test_depth_without_end_is_not_followed() -> None:
    deep: dict[str, Any] = {"containers": [container("x")]}
    for _ in range(100_000):
        deep = {"a": deep}
    assert outside(deep, STRANGE).findings == ()


def test_an_object_that_is_no_map_is_outside() -> None:
    (finding,) = outside([], JOB).findings
    assert own_sentence(finding) == ": expected a map, got a list"
