"""The engines that are measured beside one another, each told to name one GPU model for the jobs of its namespace."""

import base64
import json
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from controlplane.build import artifact
from controlplane.nodes import hard_fleet
from controlplane.peers import start_gatekeeper, start_kyverno
from controlplane.rig import ControlPlane, free_ports
from demo.serving import MANIFESTS, start_webhook
from tests.bench.kinds import JOB, Kind
from tests.samples import Json
from webhook.server.certificates import self_signed

KEY = "nvidia.com/gpu.product"
MODEL = "NVIDIA-H100-80GB-HBM3"

NONE = "no webhook"
NATIVE = "native policy"
NULL = "null webhook"
NULL_LIKE = "null webhook with our conditions"
GATEKEEPER = "Gatekeeper"
KYVERNO = "Kyverno ClusterPolicy"
KYVERNO_TYPED = "Kyverno MutatingPolicy"
OURS = "samestep"
OURS_OF = {4: "samestep (4 nodes)", 1_000: "samestep (1000 nodes)"}

_POLICY = "admissionregistration.k8s.io/v1"
_PATCH = f'[JSONPatch{{op: "add", path: "{JOB.pod_specs[0]}/nodeSelector", value: {{"{KEY}": "{MODEL}"}}}}]'
_MUTATIONS = [{"patchType": "JSONPatch", "jsonPatch": {"expression": _PATCH}}]
_CHECK = f"'{KEY}' in object.spec.template.spec.?nodeSelector.orValue({{}})"


@dataclass(frozen=True, slots=True)
class Engine:
    """`namespace` is whose jobs it changes, `processes` what it runs as (none: the API server itself). `prepare` makes
    it change jobs or, with True, check what came of that as well; it may be called again. `change`: kind and name of
    the object without which it only checks, and refuses. `alone`: it cannot be in force at the same time as the others,
    and is measured in rounds of its own."""

    name: str
    namespace: str
    processes: tuple[str, ...] = ()
    prepare: Callable[[bool], None] = lambda _: None
    ready_s: float | None = None
    change: tuple[str, str] | None = None
    alone: bool = False


def names(kind: Kind) -> list[str]:
    """Of the engines that there are for jobs of this kind."""
    return [name for several in _starts(kind) for name in several]


def start_engines(cluster: ControlPlane, folder: Path, chosen: Collection[str] = (), kind: Kind = JOB) -> list[Engine]:
    """Those chosen, or all there are for this kind, started one after the other; and no webhook, whatever is chosen.

    Raises ControlPlaneError.
    """
    wanted = {NONE, *(chosen or names(kind))}
    found: list[Engine] = []
    for several, start in _starts(kind).items():
        if wanted.intersection(several):
            found.extend(one for one in start(cluster, folder) if one.name in wanted)
    return found


def _starts(kind: Kind) -> dict[tuple[str, ...], "_Start"]:
    def null(cluster: ControlPlane, folder: Path) -> list[Engine]:
        return null_engine(cluster, folder, kind)

    def null_like(cluster: ControlPlane, folder: Path) -> list[Engine]:
        return _null_like_ours(cluster, folder, kind)

    webhooks: dict[tuple[str, ...], _Start] = {(NULL,): null, (NULL_LIKE,): null_like, (OURS,): _samestep}
    if kind is not JOB:  # for which no policies are written here
        return {(NONE,): _none, **webhooks}
    return {
        (NONE,): _none,
        (NATIVE,): _native,
        (GATEKEEPER,): _gatekeeper,
        (KYVERNO, KYVERNO_TYPED): _kyverno,
        **webhooks,
        **{(name,): _samestep_of(nodes) for nodes, name in OURS_OF.items()},
    }


_Start = Callable[[ControlPlane, Path], list[Engine]]


def _none(cluster: ControlPlane, _: Path) -> list[Engine]:
    return [Engine(NONE, _namespace(cluster, "bench-none"))]


def _native(cluster: ControlPlane, _: Path) -> list[Engine]:
    namespace = _namespace(cluster, "bench-native")
    constraints = {"namespaceSelector": _only(namespace), "resourceRules": [JOB.rule]}
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

    return [Engine(NATIVE, namespace, prepare=prepare, change=("MutatingAdmissionPolicyBinding", "bench"))]


def null_engine(cluster: ControlPlane, folder: Path, kind: Kind = JOB) -> list[Engine]:
    """Two null webhooks in Go: one that names a model for every job, and one that lets everything through."""
    namespace = _namespace(cluster, "bench-null")
    rest = {"admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "sideEffects": "None", "rules": [kind.rule]}

    def configuration(which: str, client: Json) -> Json:
        return {
            "apiVersion": _POLICY,
            "kind": f"{which}WebhookConfiguration",
            "metadata": {"name": "null"},
            "webhooks": [
                {
                    "name": "null.bench.samestep.dev",
                    "clientConfig": client,
                    "namespaceSelector": _only(namespace),
                    **rest,
                }
            ],
        }

    return [_null(cluster, folder, kind, NULL, "null", namespace, configuration)]


def _null_like_ours(cluster: ControlPlane, folder: Path, kind: Kind) -> list[Engine]:
    """The same, registered as Samestep is: with the conditions by which the API server sends only what is for it."""
    namespace = _namespace(cluster, "bench-null-like")
    ours = {one["kind"]: one for one in yaml.safe_load_all((MANIFESTS / "webhooks.yaml").read_text("utf-8"))}

    def configuration(which: str, client: Json) -> Json:
        mine = _limited(ours[f"{which}WebhookConfiguration"], namespace)
        hooks = [hook | {"clientConfig": client} for hook in mine["webhooks"]]
        return mine | {"metadata": {"name": "null-like"}, "webhooks": hooks}

    return [_null(cluster, folder, kind, NULL_LIKE, "null-like", namespace, configuration)]


def _null(
    cluster: ControlPlane,
    folder: Path,
    kind: Kind,
    name: str,
    process: str,
    namespace: str,
    configuration: Callable[[str, Json], Json],
) -> Engine:
    patch = [{"op": "add", "path": f"{place}/nodeSelector", "value": {KEY: MODEL}} for place in kind.pod_specs]
    names = (f"{process}-mutating", f"{process}-validating")
    mutating, ready_s = _start_null(cluster, folder, names[0], f"-patch={json.dumps(patch)}")
    validating, _ = _start_null(cluster, folder, names[1])
    cluster.apply(configuration("Mutating", mutating))
    return Engine(name, namespace, names, _checking(cluster, configuration("Validating", validating)), ready_s)


def _start_null(cluster: ControlPlane, folder: Path, name: str, *options: str) -> tuple[Json, float]:
    port = free_ports(1)[0]
    ca, *pair = self_signed(["127.0.0.1"])
    files = [folder / f"{name}.{end}" for end in ("crt", "key")]
    for file, content in zip(files, pair, strict=True):
        file.write_bytes(content)
    cert, key = files
    started = time.monotonic()
    cluster.processes.start(
        name, [artifact("nullwebhook"), f"-address=127.0.0.1:{port}", f"-cert={cert}", f"-key={key}", *options]
    )
    cluster.processes.wait(name, lambda: _listens(port))
    ready_s = time.monotonic() - started
    return {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(ca).decode()}, ready_s


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _gatekeeper(cluster: ControlPlane, _: Path) -> list[Engine]:
    namespace = _namespace(cluster, "bench-gatekeeper")
    (mutating, validating), ready_s = start_gatekeeper(cluster)
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

    return [Engine(GATEKEEPER, namespace, ("gatekeeper",), prepare, ready_s, _mutating("gatekeeper"))]


def _kyverno(cluster: ControlPlane, _: Path) -> list[Engine]:
    """Its two ways of writing policies, in turn: its webhooks go by one selector of namespaces for both."""
    namespace = _namespace(cluster, "bench-kyverno")
    ready_s = start_kyverno(cluster, _only(namespace))
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

    kyverno = Engine(KYVERNO, namespace, ("kyverno",), only(classic, typed), ready_s, ("ClusterPolicy", "bench-change"))
    as_typed = replace(
        kyverno, name=KYVERNO_TYPED, prepare=only(typed, classic), change=("MutatingPolicy", "bench"), alone=True
    )
    return [kyverno, as_typed]


def _typed_policy(kind: str, does: Json) -> Json:
    constraints = {"resourceRules": [JOB.rule]}
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
    return [Engine(OURS, namespace, ("samestep",), _checking(cluster, validating), ready_s, _mutating("samestep"))]


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
        return [Engine(OURS_OF[nodes], namespace, (name,), _checking(cluster, validating), change=_mutating(name))]

    return start


def _checking(cluster: ControlPlane, configuration: Json) -> Callable[[bool], None]:
    def prepare(checks: bool) -> None:
        if checks:
            cluster.apply(configuration)

    return prepare


def _mutating(name: str) -> tuple[str, str]:
    return "MutatingWebhookConfiguration", name


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
