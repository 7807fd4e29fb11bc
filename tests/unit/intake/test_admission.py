"""An AdmissionReview becomes a request, or an error that names the place."""

from typing import Any

import pytest

from webhook.intake.admission import NotAReview, read_request
from webhook.model.request import Kind, Request, Stage, User


def review(**changes: object) -> dict[str, Any]:
    request: dict[str, Any] = {
        "uid": "u-1",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "ada", "groups": ["dev"]},
        "object": {"metadata": {"generateName": "train-"}},
        "oldObject": None,
        "options": {"kind": "CreateOptions"},
        **changes,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {key: value for key, value in request.items() if value != "absent"},
    }


def read(document: object) -> Request:
    return read_request(document, stage=Stage.VALIDATE, now=7.0)


def test_a_create_without_a_name_or_namespace_in_its_object_is_read() -> None:
    request = read(review())

    assert request.kind == Kind("batch", "v1", "Job")
    assert request.object == {"metadata": {"generateName": "train-"}}
    assert (request.operation, request.namespace, request.user) == ("CREATE", "team-a", User("ada", ("dev",)))
    assert (request.uid, request.stage, request.now) == ("u-1", Stage.VALIDATE, 7.0)
    assert (request.old_object, request.subresource, request.dry_run) == (None, "", False)


def test_the_raw_request_is_kept_without_its_objects() -> None:
    raw = read(review()).raw

    assert raw["options"] == {"kind": "CreateOptions"}
    assert raw.keys().isdisjoint({"object", "oldObject"})


def test_an_update_carries_both_objects_subresource_and_dry_run() -> None:
    request = read(review(operation="UPDATE", oldObject={"spec": {}}, subResource="status", dryRun=True))

    assert (request.old_object, request.subresource, request.dry_run) == ({"spec": {}}, "status", True)


@pytest.mark.parametrize("absent", [None, "absent"])
def test_a_delete_has_no_new_object(absent: object) -> None:
    assert read(review(operation="DELETE", object=absent, oldObject={"spec": {}})).object == {}


def test_a_kind_of_the_core_group_may_leave_the_group_out() -> None:
    assert read(review(kind={"version": "v1", "kind": "Pod"})).kind == Kind("", "v1", "Pod")


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ([], "document: expected an object, got a list"),
        (None, "document: expected an object, got null"),
        ("review", "document: expected an object, got a string"),
        ({}, "kind: expected AdmissionReview of admission.k8s.io/v1, got something else"),
        (
            {"apiVersion": "batch/v1", "kind": "Job"},
            "kind: expected AdmissionReview of admission.k8s.io/v1, got Job of batch/v1",
        ),
        (
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
            "request: expected an object, got nothing",
        ),
        (
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": None},
            "request: expected an object, got null",
        ),
        (review(uid="absent"), "request.uid: expected a string, got nothing"),
        (review(uid=7), "request.uid: expected a string, got a number"),
        (review(resource=None), "request.resource: expected an object, got null"),
        (review(resource={"version": "v1"}), "request.resource.resource: expected a string, got nothing"),
        (review(kind="Job"), "request.kind: expected an object, got a string"),
        (review(kind={"version": "v1", "kind": ""}), "request.kind.kind: expected a string, got an empty string"),
        (
            review(kind={"group": 1, "version": "v1", "kind": "Job"}),
            "request.kind.group: expected a string, got a number",
        ),
        (
            review(operation="PATCH"),
            "request.operation: expected one of CREATE, UPDATE, DELETE, CONNECT, got 'PATCH'",
        ),
        (review(object=None), "request.object: expected an object, got null"),
        (review(object="absent"), "request.object: expected an object, got nothing"),
        (review(object=[1]), "request.object: expected an object, got a list"),
        (review(operation="DELETE", object=True), "request.object: expected an object, got a boolean"),
        (review(oldObject=1.5), "request.oldObject: expected an object, got a number"),
        (review(userInfo="ada"), "request.userInfo: expected an object, got a string"),
        (review(userInfo={"username": {}}), "request.userInfo.username: expected a string, got an object"),
        (review(userInfo={"groups": [1]}), "request.userInfo.groups: expected a list of strings, got a list"),
        (review(dryRun="yes"), "request.dryRun: expected true or false, got a string"),
        (review(namespace=3), "request.namespace: expected a string, got a number"),
    ],
)
def test_what_is_no_review_is_refused_with_the_place(document: object, fault: str) -> None:
    with pytest.raises(NotAReview) as refused:
        read(document)
    assert str(refused.value) == fault
