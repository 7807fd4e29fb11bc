"""An AdmissionReview, decoded from JSON or YAML, as a `Request`."""

from webhook.model.request import Kind, Object, Request, Stage, User

API_VERSION = "admission.k8s.io/v1"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class NotAReview(ValueError):
    """The document is no AdmissionReview; the message begins with the place of the fault."""


def read_request(document: object, *, stage: Stage, now: float) -> Request:
    """The request of an AdmissionReview (admission.k8s.io/v1), as yet without a look into its objects.

    `now` is in seconds since the epoch. On DELETE, which carries no new object, `Request.object` is empty. Raises
    NotAReview.
    """
    review = _an_object(document, "")
    if (review.get("apiVersion"), review.get("kind")) != (API_VERSION, "AdmissionReview"):
        raise NotAReview(f"kind: expected AdmissionReview of {API_VERSION}, got {_kind_of(review)}")
    request = _an_object(review.get("request"), "request", present="request" in review)
    operation = _text(request, "operation")
    if operation not in _OPERATIONS:
        raise NotAReview(f"request.operation: expected one of {', '.join(_OPERATIONS)}, got {operation[:40]!r}")
    _a_reference(request, "resource", "resource")
    return Request(
        kind=Kind(*_a_reference(request, "kind", "kind")),
        operation=operation,
        object=_the_object(request, operation),
        old_object=_optional_object(request, "oldObject"),
        stage=stage,
        namespace=_optional_text(request, "namespace"),
        subresource=_optional_text(request, "subResource"),
        user=_user(request),
        dry_run=_flag(request, "dryRun"),
        uid=_text(request, "uid"),
        now=now,
        raw={key: value for key, value in request.items() if key not in ("object", "oldObject")},
    )


def _the_object(request: Object, operation: str) -> Object:
    if operation in ("CREATE", "UPDATE"):
        return _an_object(request.get("object"), "request.object", present="object" in request)
    return _optional_object(request, "object") or {}


def _user(request: Object) -> User:
    info = _optional_object(request, "userInfo") or {}
    groups = info.get("groups") or []
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise NotAReview(f"request.userInfo.groups: expected a list of strings, got {_type_of(groups)}")
    return User(_optional_text(info, "username", "request.userInfo"), tuple(groups))


def _a_reference(request: Object, field: str, name: str) -> tuple[str, str, str]:
    """Group, version and kind, or group, version and resource."""
    here = f"request.{field}"
    reference = _an_object(request.get(field), here, present=field in request)
    group = _optional_text(reference, "group", here)
    return group, _text(reference, "version", here), _text(reference, name, here)


def _an_object(value: object, place: str, *, present: bool = True) -> Object:
    if not isinstance(value, dict):
        got = _type_of(value) if present else "nothing"
        raise NotAReview(f"{place or 'document'}: expected an object, got {got}")
    return value


def _optional_object(request: Object, field: str) -> Object | None:
    value = request.get(field)
    return None if value is None else _an_object(value, f"request.{field}")


def _text(parent: Object, field: str, place: str = "request") -> str:
    value = parent.get(field)
    if not isinstance(value, str) or not value:
        got = "nothing" if field not in parent else "an empty string" if value == "" else _type_of(value)
        raise NotAReview(f"{place}.{field}: expected a string, got {got}")
    return value


def _optional_text(parent: Object, field: str, place: str = "request") -> str:
    value = parent.get(field)
    if value is not None and not isinstance(value, str):
        raise NotAReview(f"{place}.{field}: expected a string, got {_type_of(value)}")
    return value or ""


def _flag(request: Object, field: str) -> bool:
    value = request.get(field)
    if value is not None and not isinstance(value, bool):
        raise NotAReview(f"request.{field}: expected true or false, got {_type_of(value)}")
    return bool(value)


def _kind_of(review: Object) -> str:
    version, kind = review.get("apiVersion"), review.get("kind")
    return f"{kind[:60]} of {version[:60]}" if isinstance(version, str) and isinstance(kind, str) else "something else"


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case dict():
            return "an object"
        case _:
            return "a list"
