"""Who controls an object, as its metadata says."""

import pytest

from webhook.model.owner import Owner, controller_of
from webhook.model.request import Kind

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1-2", "controller": True}


def test_the_owner_that_controls_it_counts_and_no_other() -> None:
    others = [{**OWNER, "name": "other", "controller": value} for value in (False, None, "true")]
    found = controller_of({"ownerReferences": [*others, OWNER, {**OWNER, "name": "later"}]})
    assert found == Owner(Kind("batch", "v1", "Job"), "train", "1-2")
    assert controller_of({"ownerReferences": others}) is None


def test_one_of_the_core_group_has_no_group() -> None:
    found = controller_of({"ownerReferences": [{**OWNER, "apiVersion": "v1", "kind": "Pod"}]})
    assert found is not None
    assert found.kind == Kind("", "v1", "Pod")


@pytest.mark.parametrize("metadata", [None, "text", {}, {"ownerReferences": "text"}, {"ownerReferences": ["text", 7]}])
def test_whatever_says_of_no_owner_has_none(metadata: object) -> None:
    assert controller_of(metadata) is None


def test_what_a_reference_does_not_say_is_empty() -> None:
    odd: dict[str, object] = {"controller": True, "apiVersion": 7, "kind": None, "name": ["x"], "uid": {}}
    assert controller_of({"ownerReferences": [odd]}) == Owner(Kind("", "", ""), "", "")
