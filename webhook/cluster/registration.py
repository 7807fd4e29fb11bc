"""The webhook configurations: which requests the API server sends here at all.

`samestep webhooks` prints them, and manifests/base/webhooks.yaml is what it prints without a policy. The conditions are
generated from the catalog, so that a kind or a device known there is one that reaches us. Each step into an object is
optional: a condition that fails on what it looks at would, under `failurePolicy: Fail`, refuse a job that is none of
our business.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from webhook.catalog.accelerators import accelerators
from webhook.catalog.workloads import workloads
from webhook.cluster.handlers import STAGES
from webhook.cluster.lease import LABELS
from webhook.model.request import Stage
from webhook.model.workload import Children, Each, Roles, Workload, Workloads

NAMESPACE = "samestep-system"
LEFT_OUT = ("kube-system", NAMESPACE)
"""Namespaces in which nothing is sent here, as in each that has the label `IGNORE_LABEL`."""
IGNORE_LABEL = "samestep.dev/ignore"

# The validating one may take longer: it is called last, when all mutating ones have had their time.
_TIMEOUT_S = {Stage.MUTATE: 2, Stage.VALIDATE: 3}

# What CEL takes behind a dot (cel-spec, SELECTOR and RESERVED); any other name of a field is an index.
_SELECTOR = re.compile(
    r"(?!(?:as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true"
    r"|var|void|while)\Z)[A-Za-z_]\w*\Z",
    re.ASCII,
)


def webhook_configurations(client_config: Mapping[str, Any], kinds: Workloads | None = None) -> list[dict[str, Any]]:
    """The mutating and the validating configuration, for these kinds (those of the catalog where None).

    `client_config` says where we are, without the path: {"service": {...}} or {"url": "https://…"}, with or without
    "caBundle".
    """
    known = workloads() if kinds is None else kinds
    return [_configuration(handler, stage, client_config, known) for handler, stage in STAGES.items()]


def manifest(kinds: Workloads | None = None) -> str:
    """Both for our Service, as YAML; manifests/base/webhooks.yaml where no other kinds than the catalog's are given."""
    service = {"service": {"name": "samestep", "namespace": NAMESPACE, "port": 443}}
    told = "# Generated from the kinds of job that can be read: samestep webhooks\n"
    return told + yaml.safe_dump_all(webhook_configurations(service, kinds), sort_keys=False, width=1000)


def fail_closed() -> str:
    """JSON patch, as YAML, of the validating configuration: while no replica answers, what trains cannot be created.

    Never a pod, which may be anyone's, and no update: queues and controllers release, resize and end jobs by updates,
    and an outage of ours must not keep them from it. So each such kind has two entries, one for each operation.
    """
    known = workloads()
    patch: list[dict[str, Any]] = []
    at = len(known.reviewed)
    for index, entry in enumerate(known.reviewed):
        if entry.children is not Children.DECIDED or entry.kind == "Pod":
            continue
        name, here = webhook_name(entry, known), f"/webhooks/{index}"
        patch += [
            {"op": "test", "path": f"{here}/name", "value": f"{name}.check.samestep.dev"},
            {"op": "copy", "from": here, "path": f"/webhooks/{at}"},
            {"op": "replace", "path": f"/webhooks/{at}/name", "value": f"{name}.check-update.samestep.dev"},
            {"op": "replace", "path": f"/webhooks/{at}/rules/0/operations", "value": ["UPDATE"]},
            {"op": "replace", "path": f"{here}/rules/0/operations", "value": ["CREATE"]},
            {"op": "replace", "path": f"{here}/failurePolicy", "value": "Fail"},
        ]
        at += 1
    return "# Generated from the kinds of job that can be read: make docs\n" + yaml.safe_dump(patch, sort_keys=False)


def _configuration(handler: str, stage: Stage, client_config: Mapping[str, Any], known: Workloads) -> dict[str, Any]:
    kind = "MutatingWebhookConfiguration" if stage is Stage.MUTATE else "ValidatingWebhookConfiguration"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "samestep", "labels": {"app.kubernetes.io/name": "samestep", **LABELS}},
        "webhooks": [_webhook(entry, handler, stage, client_config, known) for entry in known.reviewed],
    }


def _webhook(
    entry: Workload, handler: str, stage: Stage, client_config: Mapping[str, Any], known: Workloads
) -> dict[str, Any]:
    webhook: dict[str, Any] = {
        "name": f"{webhook_name(entry, known)}.{handler}.samestep.dev",
        "clientConfig": _with_path(client_config, f"/admit/{handler}"),
        "rules": [
            {
                "apiGroups": [entry.group],
                "apiVersions": list(entry.versions),
                "resources": [entry.plural],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Cluster" if entry.cluster_scoped else "Namespaced",
            }
        ],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": list(LEFT_OUT),
                },
                {"key": IGNORE_LABEL, "operator": "DoesNotExist"},
            ]
        },
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in match_conditions(entry, known).items()
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": _TIMEOUT_S[stage],
    }
    if stage is Stage.MUTATE:
        webhook["reinvocationPolicy"] = "IfNeeded"
    return webhook


def webhook_name(entry: Workload, known: Workloads) -> str:
    """A name of its own for each entry: two versions of one kind may be two entries (MPIJob)."""
    resource = f"{entry.plural}.{entry.group}" if entry.group else entry.plural
    alike = [one for one in known.entries if (one.group, one.plural) == (entry.group, entry.plural)]
    return resource if len(alike) == 1 else f"{entry.versions[0]}.{resource}"


def match_conditions(entry: Workload, known: Workloads | None = None) -> dict[str, str]:
    """CEL by name of condition; all must hold for an object of this kind to be sent here."""
    conditions = {
        "spec-is-new": "request.operation == 'CREATE' || object.?spec != oldObject.?spec",
        "not-being-deleted": "!object.?metadata.?deletionTimestamp.hasValue()",
        "no-child-of-a-decided-job": _no_child(workloads() if known is None else known),
    }
    if entry.only_with:
        conditions["said-to-train"] = f"object.?metadata.?annotations[?'{entry.only_with}'].hasValue()"
    if entry.roles:
        conditions["asks-for-devices"] = " || ".join(f"({_asks(roles)})" for roles in entry.roles)
    return conditions


def _no_child(known: Workloads) -> str:
    """Anyone can write ownerReferences, so the requester counts too. Without --use-service-account-credentials the
    controllers of Kubernetes write under one name for all."""
    owners = dict.fromkeys((one.kind, one.group) for one in known.entries if one.children is not Children.UNDECIDED)
    kinds = " || ".join(
        f"(o.kind == '{kind}' && o.apiVersion.startsWith('{group}/'))"
        if group
        else f"(o.kind == '{kind}' && !o.apiVersion.contains('/'))"
        for kind, group in owners
    )
    by_controller = (
        "request.userInfo.username.startsWith('system:serviceaccount:')"
        " || request.userInfo.username == 'system:kube-controller-manager'"
    )
    owned = f"object.?metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && ({kinds}))"
    return f"!(({by_controller}) && {owned})"


def _asks(roles: Roles) -> str:
    at, pod = f"object{_optional(roles.at)}", _optional((*roles.template, "spec"))
    if roles.each is Each.ONE:
        return _pod_asks(f"{at}{pod}")
    one = "".join(("object", *(f".{step}" if _SELECTOR.match(step) else f"['{step}']" for step in roles.at), "[r]"))
    return _any("r", (at,), _pod_asks(f"{'r' if roles.each is Each.ITEM else one}{pod}"))


def _optional(path: Iterable[str]) -> str:
    return "".join(f".?{step}" if _SELECTOR.match(step) else f"[?'{step}']" for step in path)


def _pod_asks(spec: str) -> str:
    named = _any("k", ("c.?resources.?limits", "c.?resources.?requests"), " || ".join(_is_device("k")))
    return _any("c", (f"{spec}.?containers", f"{spec}.?initContainers"), f"{named} || c.?resources.?claims.hasValue()")


def _any(each: str, optionals: Iterable[str], holds: str) -> str:
    """Whether it holds for any element of any of these. A null is there, and an error for all that is asked of it: the
    API server itself writes one for the containers of a pod that has none. `dyn`: CEL takes the type of what is behind
    an index from the first use of it, and would hold it for a null."""
    return f"[{', '.join(optionals)}].exists(o, o.orValue(dyn(null)) != null && o.value().exists({each}, {holds}))"


def _is_device(key: str) -> Iterator[str]:
    resources = [name for vendor in accelerators().vendors for name in vendor.resources + vendor.share_resources]
    whole = ", ".join(f"'{name}'" for name in sorted(resources) if not name.endswith("*"))
    yield f"{key} in [{whole}]"
    for name in resources:
        if name.endswith("*"):
            yield f"{key}.startsWith('{name[:-1]}')"


def _with_path(client_config: Mapping[str, Any], path: str) -> dict[str, Any]:
    if "url" in client_config:
        return {**client_config, "url": f"{client_config['url'].rstrip('/')}{path}"}
    return {**client_config, "service": {**client_config["service"], "path": path}}
