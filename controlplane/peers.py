"""Runs the engines that platform teams use for admission, as they run in a cluster, to be measured beside ours.

Each is told about the objects of its own namespaces alone, so that several can run at once. Sources: Gatekeeper's and
Kyverno's charts, of the versions in controlplane/go.
"""

import base64
import json
import re
import time
from pathlib import Path
from typing import Any

from controlplane.build import MODULES, Group, build
from controlplane.controllers import account
from controlplane.crds import install_folder
from controlplane.rig import ControlPlane, free_ports, is_ok

Json = dict[str, Any]

GATEKEEPER = Group(
    "gatekeeper",
    {"gatekeeper": "github.com/open-policy-agent/gatekeeper/v3"},
    {"crds": ("github.com/open-policy-agent/gatekeeper/v3", "charts/gatekeeper/crds")},
)
KYVERNO = Group(
    "kyverno",
    {"kyverno": "github.com/kyverno/kyverno/cmd/kyverno"},
    {
        f"crds-{name}": ("github.com/kyverno/kyverno", f"config/crds/{name}")
        for name in ("kyverno", "policies.kyverno.io", "policyreport", "reports")
    },
)
LOADER = Group("loader", {"loader": "samestep/controlplane/loader"})

_JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}


def build_peers() -> None:
    """Fills the cache with what it lacks, in minutes. Raises GoUnavailableError, BuildError."""
    for group in (LOADER, GATEKEEPER, KYVERNO):
        build(group)


def versions() -> dict[str, str]:
    """Of the API server and the engines, as controlplane/go pins them."""
    modules = {
        "Kubernetes": ("kubernetes", "k8s.io/kubernetes"),
        "Gatekeeper": ("gatekeeper", "github.com/open-policy-agent/gatekeeper/v3"),
        "Kyverno": ("kyverno", "github.com/kyverno/kyverno"),
    }
    return {name: _pinned(group, module) for name, (group, module) in modules.items()}


def _pinned(group: str, module: str) -> str:
    content = (MODULES / group / "go.mod").read_text("utf-8")
    [version] = re.findall(rf"^(?:require)?\s*{re.escape(module)} v(\S+)", content, re.MULTILINE)
    return str(version)


def start_gatekeeper(control_plane: ControlPlane) -> tuple[list[Json], float]:
    """Starts it, and waits until it is ready: its webhook configurations, without a selector of namespaces, for whoever
    registers them; and the seconds from the start of its process, with its CRDs installed before, until it was ready.
    Raises KubectlError, ProcessError; BuildError and GoUnavailableError where the cache lacks it."""
    folder, namespace = build(GATEKEEPER), "gatekeeper-system"
    install_folder(control_plane.api, control_plane.processes, folder / "crds")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": "gatekeeper"},
        "spec": {"serviceAccountName": "gatekeeper-admin", "containers": [{"name": "manager", "image": "gatekeeper"}]},
    }
    control_plane.apply(*account(namespace, "gatekeeper-admin"))
    control_plane.apply(pod)
    port, health = free_ports(2)
    place = control_plane.directory / "gatekeeper"
    certificates = _certificates(control_plane, place)
    kubeconfig = control_plane.kubeconfig_for(f"system:serviceaccount:{namespace}:gatekeeper-admin")
    started = time.monotonic()
    control_plane.processes.start(
        "gatekeeper",
        [
            folder / "gatekeeper",
            *(f"--operation={one}" for one in ("webhook", "mutation-webhook", "mutation-status", "status", "generate")),
            "--disable-cert-rotation",
            f"--cert-dir={certificates}",
            "--host=127.0.0.1",
            f"--port={port}",
            f"--health-addr=127.0.0.1:{health}",
            "--metrics-backend=prometheus",
            f"--prometheus-port={free_ports(1)[0]}",
            "--log-level=WARNING",
            "--logtostderr",
        ],
        {"KUBECONFIG": str(kubeconfig), "POD_NAME": "gatekeeper", "POD_NAMESPACE": namespace},
    )
    control_plane.processes.wait("gatekeeper", lambda: is_ok(f"http://127.0.0.1:{health}/readyz"), timeout_s=120)
    ready_s = time.monotonic() - started
    bundle = base64.b64encode(control_plane.ca_file.read_bytes()).decode()
    configurations: list[Json] = [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "gatekeeper"},
            "webhooks": [
                {
                    "name": name,
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle},
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "rules": [_JOBS],
                }
            ],
        }
        for kind, name, path in (
            ("Mutating", "mutation.gatekeeper.sh", "/v1/mutate"),
            ("Validating", "validation.gatekeeper.sh", "/v1/admit"),
        )
    ]
    return configurations, ready_s


def start_kyverno(control_plane: ControlPlane, namespaces: Json) -> float:
    """Starts it, for the namespaces of this selector alone, and waits until it is ready: the seconds that took, as of
    `start_gatekeeper`. It registers its webhooks itself, seconds after a policy is there. Raises as that does."""
    folder, namespace, name = build(KYVERNO), "kyverno", "kyverno-admission-controller"
    for crds in KYVERNO.files:
        install_folder(control_plane.api, control_plane.processes, folder / crds)
    control_plane.apply(*account(namespace, name))
    port, metrics = free_ports(2)
    labels = {"app.kubernetes.io/component": "admission-controller"}
    container = {"name": "kyverno", "image": "kyverno"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    control_plane.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": "kyverno"},
            "data": {"webhooks": json.dumps({"namespaceSelector": namespaces})},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "kyverno-metrics"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    kubeconfig = control_plane.kubeconfig_for(f"system:serviceaccount:{namespace}:{name}")
    tls = "kyverno-svc.kyverno.svc.kyverno-tls"
    started = time.monotonic()
    control_plane.processes.start(
        "kyverno",
        [
            folder / "kyverno",
            f"--kubeconfig={kubeconfig}",
            f"--serverIP=127.0.0.1:{port}",
            f"--webhookServerPort={port}",
            f"--servicePort={port}",
            f"--caSecretName={tls}-ca",
            f"--tlsSecretName={tls}-pair",
            f"--metricsCASecretName={tls}-metrics-ca",
            f"--metricsTLSSecretName={tls}-metrics-pair",
            f"--backgroundServiceAccountName=system:serviceaccount:{namespace}:kyverno-background-controller",
            f"--reportsServiceAccountName=system:serviceaccount:{namespace}:kyverno-reports-controller",
            "--disableMetrics=true",
            f"--metricsPort={metrics}",
            "--controllerRuntimeMetricsAddress=0",
            "--admissionReports=false",
            "--v=2",
            "--omitEvents=PolicyApplied,PolicySkipped,PolicyViolation,PolicyError",
        ],
        {
            "INIT_CONFIG": "kyverno",
            "METRICS_CONFIG": "kyverno-metrics",
            "KYVERNO_NAMESPACE": namespace,
            "KYVERNO_POD_NAME": "kyverno",
            "KYVERNO_SERVICEACCOUNT_NAME": name,
            "KYVERNO_ROLE_NAME": "kyverno:admission-controller",
            "KYVERNO_SVC": "kyverno-svc",
            "KYVERNO_DEPLOYMENT": name,
        },
    )
    control_plane.processes.wait("kyverno", lambda: is_ok(f"https://127.0.0.1:{port}/health/readiness"), timeout_s=180)
    return time.monotonic() - started


def _certificates(control_plane: ControlPlane, folder: Path) -> Path:
    """The API server's own certificate, which is good for 127.0.0.1, where these serve too."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in (("tls.key", control_plane.ca_file.with_suffix(".key")), ("tls.crt", control_plane.ca_file)):
        (folder / name).write_bytes(source.read_bytes())
    (folder / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
    return folder
