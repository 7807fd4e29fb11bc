"""What the API server does with a new object, and what kubectl prints of it, for where there is neither."""

import base64
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import jsonpatch
import urllib3

from demo.serving import Webhook
from webhook.catalog.workloads import workloads
from webhook.model.workload import Workload

Object = dict[str, Any]


@dataclass(slots=True)
class Submission:
    """What became of one object. `denied_by` is the name of the webhook that refused it, or empty."""

    obj: Object
    warnings: list[str] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    denied_by: str = ""
    message: str = ""

    def output(self, path: str) -> Iterator[str]:
        """The lines of `kubectl apply -f PATH`."""
        yield from (f"Warning: {warning}" for warning in self.warnings)
        if self.denied_by:
            yield (
                f'Error from server (Forbidden): error when creating "{path}": '
                f'admission webhook "{self.denied_by}" denied the request: {self.message}'
            )
        else:
            group = self.obj["apiVersion"].rpartition("/")[0]
            yield f"{self.obj['kind'].lower()}.{group}/{self.obj['metadata']['name']} created"


class Submitter:
    """Sends AdmissionReviews to the webhooks that the configurations name, mutating ones first."""

    def __init__(self, webhook: Webhook) -> None:
        context = ssl.create_default_context(cadata=webhook.ca.decode())
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, timeout=5)
        self._hooks = [hook for configuration in webhook.configurations() for hook in configuration["webhooks"]]

    def create(self, obj: Object) -> Submission:
        """Raises urllib3's HTTPError where the webhook gives no answer."""
        submission = Submission(obj)
        kind = _kind(obj)
        for hook in self._hooks:
            if kind.plural not in hook["rules"][0]["resources"] or submission.denied_by:
                continue
            answer = self._ask(hook["clientConfig"]["url"], _review(submission.obj, kind))
            submission.warnings += answer.get("warnings", ())
            if not answer["allowed"]:
                submission.denied_by, submission.message = hook["name"], answer["status"]["message"]
            elif "patch" in answer:
                operations = json.loads(base64.b64decode(answer["patch"]))
                submission.operations += operations
                submission.obj = jsonpatch.apply_patch(submission.obj, operations)
        return submission

    def _ask(self, url: str, review: Object) -> Object:
        answer = self._pool.request("POST", url, json=review)
        if answer.status != 200:
            raise urllib3.exceptions.HTTPError(f"{answer.status} {answer.data.decode(errors='replace').strip()}")
        response: Object = answer.json()["response"]
        return response


def _kind(obj: Object) -> Workload:
    return next(one for one in workloads().entries if one.kind == obj["kind"])


def _review(obj: Object, kind: Workload) -> Object:
    version = kind.versions[0]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid4()),
            "kind": {"group": kind.group, "version": version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": version, "resource": kind.plural},
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "submitter@example.com", "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }
