"""The engines that are measured beside one another, each told to name one GPU model for the jobs of its namespace."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controlplane.build import artifact
from controlplane.nodes import hard_fleet
from controlplane.peers import start_gatekeeper, start_kyverno
from controlplane.rig import ControlPlane, free_ports
from demo.serving import start_webhook
from tests.samples import Json
from webhook.server.certificates import self_signed

KEY = "nvidia.com/gpu.product"
MODEL = "NVIDIA-H100-80GB-HBM3"
NONE = "no webhook"

_POLICY = "admissionregistration.k8s.io/v1"
_JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
_PATCH = f'[JSONPatch{{op: "add", path: "/spec/template/spec/nodeSelector", value: {{"{KEY}": "{MODEL}"}}}}]'
_MUTATIONS = [{"patchType": "JSONPatch", "jsonPatch": {"expression": _PATCH}}]
_CHECK = f"'{KEY}' in object.spec.template.spec.?nodeSelector.orValue({{}})"
_WEBHOOK = {"admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "sideEffects": "None", "rules": [_JOBS]}


@dataclass(frozen=True, slots=True)
class Engine:
    """`namespace` is whose jobs it changes, `processes` what it runs as (none: the API server itself). `prepare` makes
    it change jobs or, with True, check what came of that as well; it may be called again. `alone`: it cannot be in
    force at the same time as the others, and is measured in rounds of its own."""

    name: str
    namespace: str
    processes: tuple[str, ...] = ()
    prepare: Callable[[bool], None] = lambda _: None
    ready_s: float | None = None
    alone: bool = False


def start_engines(cluster: ControlPlane, folder: Path) -> list[Engine]:
    """All of them, started one after the other, each in force for its namespace. Raises ControlPlaneError."""
    starts = (_none, _native, null_engine, _gatekeeper, _kyverno, _samestep, _samestep_of(4), _samestep_of(1_000))
    found: list[Engine] = []
    for start in starts:
        found.extend(start(cluster, folder))
    return found


def _none(cluster: ControlPlane, _: Path) -> list[Engine]:
    _namespace(cluster, "bench-none")
    return [Engine(NONE, "bench-none")]


def _native(cluster: ControlPlane, _: Path) -> list[Engine]:
    namespace = _namespace(cluster, "bench-native")
    constraints = {"namespaceSelector": _only(namespace), "resourceRules": [_JOBS]}
    cluster.apply(
        {
            "apiVersion": _POLICY,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "bench"},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": constraints,
                "mutations": _MUTATIONS,
            },
        },
        {
            "apiVersion": _POLICY,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "bench"},
            "spec": {"policyName": "bench"},
        },
    )

    def prepare(checks: bool) -> None:
        if not checks:
            return
        cluster.apply(
            {
                "apiVersion": _POLICY,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": "bench"},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": constraints,
                    "validations": [{"expression": _CHECK}],
                },
            },
            {
                "apiVersion": _POLICY,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": "bench"},
                "spec": {"policyName": "bench", "validationActions": ["Deny"]},
            },
        )

    return [Engine("native policy", namespace, prepare=prepare)]


def null_engine(cluster: ControlPlane, folder: Path) -> list[Engine]:
    """Two null webhooks in Go: one that names a model for every job, and one that lets everything through."""
    namespace = _namespace(cluster, "bench-null")
    patch = [{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {KEY: MODEL}}]
    started = time.monotonic()
    mutating = _start_null(cluster, folder, "null-mutating", f"-patch={json.dumps(patch)}")
    cluster.apply(_configuration("Mutating", "null", namespace, mutating))
    ready_s = time.monotonic() - started
    validating = _start_null(cluster, folder, "null-validating")
    return [
        Engine(
            "null webhook",
            namespace,
            ("null-mutating", "null-validating"),
            _checking(cluster, _configuration("Validating", "null", namespace, validating)),
            ready_s,
        )
    ]


def _start_null(cluster: ControlPlane, folder: Path, name: str, *options: str) -> Json:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    ca, *pair = self_signed(["127.0.0.1"])
    files = [folder / f"{name}.{end}" for end in ("crt", "key")]
    for file, content in zip(files, pair, strict=True):
        file.write_bytes(content)
    cert, key = files
    cluster.processes.start(
        name, [artifact("nullwebhook"), f"-address={address}", f"-cert={cert}", f"-key={key}", *options]
    )
    return {"url": f"https://{address}/", "caBundle": base64.b64encode(ca).decode()}


def _gatekeeper(cluster: ControlPlane, _: Path) -> list[Engine]:
    namespace = _namespace(cluster, "bench-gatekeeper")
    started = time.monotonic()
    mutating, validating = start_gatekeeper(cluster)
    ready_s = time.monotonic() - started
    assign = {
        "apiVersion": "mutations.gatekeeper.sh/v1",
        "kind": "Assign",
        "metadata": {"name": "bench"},
        "spec": {
            "applyTo": [{"groups": ["batch"], "versions": ["v1"], "kinds": ["Job"]}],
            "match": {"scope": "Namespaced", "namespaces": [namespace]},
            "location": f'spec.template.spec.nodeSelector."{KEY}"',
            "parameters": {"assign": {"value": MODEL}},
        },
    }
    cluster.apply(assign, _limited(mutating, namespace))
    rego = f"""package bench
violation[{{"msg": "no model"}}] {{ not input.review.object.spec.template.spec.nodeSelector["{KEY}"] }}
"""

    def prepare(checks: bool) -> None:
        if not checks:
            return
        cluster.apply(
            {
                "apiVersion": "templates.gatekeeper.sh/v1",
                "kind": "ConstraintTemplate",
                "metadata": {"name": "bench"},
                "spec": {
                    "crd": {"spec": {"names": {"kind": "Bench"}}},
                    "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": rego}],
                },
            }
        )
        path = "/apis/constraints.gatekeeper.sh/v1beta1/bench"
        cluster.processes.wait("gatekeeper", lambda: _served(cluster, path))
        kinds = [{"apiGroups": ["batch"], "kinds": ["Job"]}]
        cluster.apply(
            {
                "apiVersion": "constraints.gatekeeper.sh/v1beta1",
                "kind": "Bench",
                "metadata": {"name": "bench"},
                "spec": {"match": {"kinds": kinds, "namespaces": [namespace]}},
            },
            _limited(validating, namespace),
        )

    return [Engine("Gatekeeper", namespace, ("gatekeeper",), prepare, ready_s)]


def _kyverno(cluster: ControlPlane, _: Path) -> list[Engine]:
    """Its two ways of writing policies, in turn: its webhooks go by one selector of namespaces for both."""
    namespace = _namespace(cluster, "bench-kyverno")
    started = time.monotonic()
    start_kyverno(cluster, _only(namespace))
    ready_s = time.monotonic() - started
    change = {"mutate": {"patchStrategicMerge": {"spec": {"template": {"spec": {"nodeSelector": {KEY: MODEL}}}}}}}
    pattern = {"spec": {"template": {"spec": {"nodeSelector": {KEY: "?*"}}}}}
    check = {"validate": {"failureAction": "Enforce", "message": "no model", "pattern": pattern}}
    classic = [_cluster_policy("bench-change", namespace, change), _cluster_policy("bench-check", namespace, check)]
    typed = [
        _typed_policy("MutatingPolicy", {"mutations": _MUTATIONS}),
        _typed_policy(
            "ValidatingPolicy",
            {"validationActions": ["Deny"], "validations": [{"expression": _CHECK, "message": "no model"}]},
        ),
    ]

    def only(mine: list[Json], others: list[Json]) -> Callable[[bool], None]:
        def prepare(checks: bool) -> None:
            for one in others:
                cluster.kubectl("delete", "--ignore-not-found", one["kind"], one["metadata"]["name"])
            cluster.apply(*(mine if checks else mine[:1]))

        return prepare

    return [
        Engine("Kyverno ClusterPolicy", namespace, ("kyverno",), only(classic, typed), ready_s),
        Engine("Kyverno MutatingPolicy", namespace, ("kyverno",), only(typed, classic), ready_s, alone=True),
    ]


def _typed_policy(kind: str, does: Json) -> Json:
    constraints = {"resourceRules": [_JOBS]}
    autogen: Json = {"podControllers": {"controllers": []}}
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": kind,
        "metadata": {"name": "bench"},
        "spec": {"matchConstraints": constraints, "autogen": autogen, **does},
    }


def _cluster_policy(name: str, namespace: str, rule: Json) -> Json:
    resources = {"kinds": ["batch/v1/Job"], "namespaces": [namespace], "operations": ["CREATE"]}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}},
        "spec": {
            "background": False,
            "rules": [{"name": name, "match": {"any": [{"resources": resources}]}, **rule}],
        },
    }


def _samestep(cluster: ControlPlane, folder: Path) -> list[Engine]:
    """With the cluster's own nodes."""
    namespace = _namespace(cluster, "bench-samestep")
    started = time.monotonic()
    webhook = start_webhook(cluster.processes, folder, f"--kubeconfig={cluster.kubeconfig}")
    ready_s = time.monotonic() - started
    mutating, validating = (_limited(one, namespace) for one in webhook.configurations())
    cluster.apply(mutating)
    return [Engine("samestep", namespace, ("samestep",), _checking(cluster, validating), ready_s)]


def _samestep_of(nodes: int) -> Callable[[ControlPlane, Path], list[Engine]]:
    """With so many nodes out of a file: what the size of a fleet costs."""

    def start(cluster: ControlPlane, folder: Path) -> list[Engine]:
        name = f"samestep-{nodes}"
        namespace = _namespace(cluster, f"bench-{name}")
        fleet = folder / f"{name}.json"
        fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(hard_fleet(nodes))}))
        webhook = start_webhook(cluster.processes, folder, f"--fleet={fleet}", name=name)
        mutating, validating = (_limited(one, namespace) for one in webhook.configurations())
        for one in (mutating, validating):
            one["metadata"] = {"name": name}
        cluster.apply(mutating)
        return [Engine(f"samestep, {nodes:,} nodes", namespace, (name,), _checking(cluster, validating))]

    return start


def _checking(cluster: ControlPlane, configuration: Json) -> Callable[[bool], None]:
    def prepare(checks: bool) -> None:
        if checks:
            cluster.apply(configuration)

    return prepare


def _configuration(kind: str, name: str, namespace: str, client: Json) -> Json:
    return {
        "apiVersion": _POLICY,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.bench.samestep.dev",
                "clientConfig": client,
                "namespaceSelector": _only(namespace),
                **_WEBHOOK,
            }
        ],
    }


def _limited(configuration: Json, namespace: str) -> Json:
    hooks = [hook | {"namespaceSelector": _only(namespace)} for hook in configuration["webhooks"]]
    return configuration | {"webhooks": hooks}


def _only(namespace: str) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _namespace(cluster: ControlPlane, name: str) -> str:
    cluster.create_namespace(name)
    return name


def _served(cluster: ControlPlane, path: str) -> bool:
    return cluster.kubectl("get", "--raw", path, check=False).returncode == 0
