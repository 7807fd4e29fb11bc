"""Documents as the requests that the API server would make of them."""

import time

from webhook.catalog.workloads import workloads
from webhook.cli.documents import Document
from webhook.intake.admission import read_request
from webhook.model.request import Kind, Object, Request, Stage


def request_of(one: Document) -> Request:
    """A manifest is a CREATE; an AdmissionReview is what it says. Raises NotAReview."""
    obj = one.object
    if obj["kind"] == "AdmissionReview":
        return read_request(obj, stage=Stage.MUTATE, now=time.time())
    return creation_of(obj)


def creation_of(obj: Object) -> Request:
    """The creation of an object that has an apiVersion and a kind."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = Kind(group, version, obj["kind"])
    return Request(kind=kind, operation="CREATE", object=obj, namespace=_namespace(kind, obj), now=time.time())


def _namespace(kind: Kind, obj: Object) -> str:
    known = workloads().of(kind)
    if known is not None and known.cluster_scoped:
        return ""
    metadata = obj.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) and namespace else "default"
