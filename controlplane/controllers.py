"""Runs the controllers of the projects whose jobs we read, as they run in a cluster, their own webhooks included."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from controlplane.build import ControlPlaneError, Group, build
from controlplane.crds import CrdSet
from controlplane.rig import ControlPlane, free_ports, is_ok

Json = dict[str, Any]

ControllerName: TypeAlias = Literal["jobset", "lws", "mpi-operator", "trainer", "kuberay", "training-operator", "kueue"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a controller runs: with a certificate in `certificates`, and its configuration, if any, in `config`."""

    folder: Path
    webhook_port: int
    health_port: int

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    @property
    def certificates(self) -> Path:
        # Where controller-runtime looks by default, `folder` being its TMPDIR.
        return self.folder / "k8s-webhook-server" / "serving-certs"


@dataclass(frozen=True, slots=True)
class _Controller:
    group: Group
    """Its program `controller`, and `webhooks`, what kubectl kustomize makes its webhook configurations of."""
    crds: tuple[CrdSet, ...]
    account: tuple[str, str]
    """Namespace and name of its ServiceAccount in its project's manifests."""
    flags: Callable[[_Place], tuple[str, ...]]
    configuration: Callable[[_Place], Json] | None = None
    health: Callable[[_Place], str] = lambda place: f"http://127.0.0.1:{place.health_port}/readyz"
    webhook_prefix: str = ""
    """What comes before the names of its webhook configurations, by which the API server orders its calls."""
    needs: tuple[ControllerName, ...] = ()
    objects: tuple[Json, ...] = ()
    """What must be there before it starts."""
    brings: tuple[str, ...] = ()
    """Files of the group that its project installs with it."""
    certificate_folder: Path | None = None
    """Where it insists on a certificate, whatever it is told."""


@contextmanager
def running(control_plane: ControlPlane, *names: ControllerName) -> Iterator[None]:
    """Runs these controllers, and those that they need, with their kinds registered, until the block ends.

    Each goes by a ServiceAccount, as in a cluster, but with all rights. Building one the first time takes minutes.
    Raises KubectlError, ProcessError, ControlPlaneError; BuildError and GoUnavailableError where the cache lacks one.
    """
    with ExitStack() as undo:
        for name in _with_needs(names):
            undo.enter_context(_running(control_plane, name))
        yield


def build_controllers() -> None:
    """Fills the cache with what it lacks. Raises GoUnavailableError, BuildError."""
    for controller in _CONTROLLERS.values():
        build(controller.group)


def _with_needs(names: tuple[ControllerName, ...]) -> dict[ControllerName, None]:
    found: dict[ControllerName, None] = {}
    for name in names:
        found |= _with_needs(_CONTROLLERS[name].needs) | {name: None}
    return found


@contextmanager
def _running(control_plane: ControlPlane, name: ControllerName) -> Iterator[None]:
    controller = _CONTROLLERS[name]
    built = build(controller.group)
    process = f"{name}-controller"
    place = _Place(control_plane.directory / process, *free_ports(2))
    _write_files(control_plane, controller, place)
    control_plane.install_crds(*controller.crds)
    control_plane.apply(*account(*controller.account), *controller.objects)
    kubeconfig = control_plane.kubeconfig_for(":".join(("system:serviceaccount", *controller.account)))
    environment = {"KUBECONFIG": str(kubeconfig), "TMPDIR": str(place.folder)}
    control_plane.processes.start(process, [built / "controller", *controller.flags(place)], environment)
    try:
        control_plane.processes.wait(process, lambda: is_ok(controller.health(place)))
        with _webhooks(control_plane, name, place, built / "webhooks"):
            for file in controller.brings:
                control_plane.kubectl("apply", "-f", built / file)
            yield
    finally:
        control_plane.processes.stop(process, grace_s=5)


def _write_files(control_plane: ControlPlane, controller: _Controller, place: _Place) -> None:
    folders = {place.certificates, controller.certificate_folder or place.certificates}
    # The API server's own certificate, which is good for 127.0.0.1, where controllers serve too.
    for folder in (each for each in folders if not (each / "tls.crt").exists()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(control_plane.ca_file.with_suffix(".key"), folder / "tls.key")
            shutil.copyfile(control_plane.ca_file, folder / "tls.crt")
        except PermissionError as error:
            raise ControlPlaneError(f"{controller.group.name} insists on a certificate in {folder}: {error}") from error
    if controller.configuration:
        place.config.write_text(json.dumps(controller.configuration(place), indent=1))


def account(namespace: str, name: str) -> tuple[Json, ...]:
    """A namespace with a ServiceAccount that may do everything."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-{name}"},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        },
    )


@contextmanager
def _webhooks(control_plane: ControlPlane, name: ControllerName, place: _Place, folder: Path) -> Iterator[None]:
    """Registers the controller's webhooks once they are served, until the block ends."""
    if not folder.exists():
        yield
        return
    bundle = base64.b64encode(control_plane.ca_file.read_bytes()).decode()
    configurations = []
    for configuration in yaml.safe_load_all(control_plane.kubectl("kustomize", folder).stdout):
        if not configuration["kind"].endswith("WebhookConfiguration"):
            continue
        metadata = configuration["metadata"]
        metadata["name"] = _CONTROLLERS[name].webhook_prefix + metadata["name"]
        configurations.append(configuration)
        for hook in configuration["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            url = f"https://127.0.0.1:{place.webhook_port}{path}"
            hook["clientConfig"] = {"url": url, "caBundle": bundle}
            # It answers 200 to anything where it serves a webhook.
            control_plane.processes.wait(f"{name}-controller", partial(is_ok, url))
    control_plane.apply(*configurations)
    try:
        yield
    finally:
        for configuration in configurations:
            control_plane.kubectl("delete", configuration["kind"], configuration["metadata"]["name"])


def _config_flag(place: _Place) -> tuple[str, ...]:
    return (f"--config={place.config}",)


def _configuration(api_version: str, *, cert_dir: bool = True, **fields: Json) -> Callable[[_Place], Json]:
    """A Configuration as the projects that use controller-runtime have it, each in its own API group.

    cert_dir: whether it has a field for where the certificate is; else that is below TMPDIR.
    """
    return lambda place: {
        "apiVersion": api_version,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {
            "host": "127.0.0.1",
            "port": place.webhook_port,
            **({"certDir": str(place.certificates)} if cert_dir else {}),
        },
        "clientConnection": {"qps": 500, "burst": 500},
        **fields,
    }


_NO_CERTIFICATES = {"enable": False}
"""The controller is given a certificate, and makes none for itself."""

# jobset and lws: sigs.k8s.io/{jobset,lws} api/config/v1alpha1; trainer: pkg/apis/config/v1alpha1; the accounts and
# names of webhook configurations are those of each project's `config/default` or `manifests/overlays/manager`.
_CONTROLLERS: dict[ControllerName, _Controller] = {
    "jobset": _Controller(
        Group(
            "jobset",
            {"controller": "sigs.k8s.io/jobset"},
            {"webhooks": ("sigs.k8s.io/jobset", "config/components/webhook")},
        ),
        crds=("jobset",),
        account=("jobset-system", "jobset-controller-manager"),
        flags=_config_flag,
        configuration=_configuration("config.jobset.x-k8s.io/v1alpha1", internalCertManagement=_NO_CERTIFICATES),
        webhook_prefix="jobset-",
    ),
    "lws": _Controller(
        Group(
            "lws",
            {"controller": "sigs.k8s.io/lws/cmd"},
            {"webhooks": ("sigs.k8s.io/lws", "config/webhook")},
        ),
        crds=("lws",),
        account=("lws-system", "lws-controller-manager"),
        flags=_config_flag,
        configuration=_configuration("config.lws.x-k8s.io/v1alpha1", internalCertManagement=_NO_CERTIFICATES),
        webhook_prefix="lws-",
    ),
    "trainer": _Controller(
        Group(
            "trainer",
            {"controller": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"},
            {
                "webhooks": ("github.com/kubeflow/trainer/v2", "manifests/base/webhook"),
                "torch.yaml": ("github.com/kubeflow/trainer/v2", "manifests/base/runtimes/torch_distributed.yaml"),
            },
        ),
        crds=("trainer",),
        account=("kubeflow-system", "kubeflow-trainer-controller-manager"),
        flags=_config_flag,
        configuration=_configuration(
            "config.trainer.kubeflow.org/v1alpha1", cert_dir=False, certManagement=_NO_CERTIFICATES
        ),
        needs=("jobset",),
        brings=("torch.yaml",),
    ),
    "mpi-operator": _Controller(
        Group("mpi-operator", {"controller": "github.com/kubeflow/mpi-operator/cmd/mpi-operator"}),
        crds=("mpi-operator",),
        account=("mpi-operator", "mpi-operator"),
        flags=lambda _: ("--lock-namespace=mpi-operator", "--kube-api-qps=500", "--kube-api-burst=500"),
        health=lambda _: "http://127.0.0.1:8080/healthz",  # it has no flag for the port
    ),
    "kuberay": _Controller(
        # Without ENABLE_WEBHOOKS=true it serves none, which is its default.
        Group("kuberay", {"controller": "github.com/ray-project/kuberay/ray-operator"}),
        crds=("kuberay",),
        account=("ray-system", "kuberay-operator"),
        flags=lambda place: (
            "--metrics-addr=0",
            f"--health-probe-bind-address=127.0.0.1:{place.health_port}",
            "--enable-leader-election=false",
        ),
    ),
    "training-operator": _Controller(
        Group(
            "training-operator",
            {"controller": "github.com/kubeflow/training-operator/cmd/training-operator.v1"},
            {"webhooks": ("github.com/kubeflow/training-operator", "manifests/base/webhook")},
        ),
        crds=("training-operator",),
        account=("kubeflow", "training-operator"),
        flags=lambda place: (
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{place.health_port}",
            f"--webhook-server-port={place.webhook_port}",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
        ),
        # Its certificates cannot be turned off: it puts new ones into this Secret and this configuration, and waits for
        # the Secret to be mounted. The webhooks that it serves, with the certificate that we gave it, are registered
        # under another name.
        webhook_prefix="rig-",
        objects=(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"namespace": "kubeflow", "name": "training-operator-webhook-cert"},
            },
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "validator.training-operator.kubeflow.org"},
                "webhooks": [
                    {
                        "name": "nothing.training-operator.kubeflow.org",
                        "clientConfig": {"url": "https://127.0.0.1/"},
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                    }
                ],
            },
        ),
        certificate_folder=Path("/tmp/k8s-webhook-server/serving-certs"),
    ),
    "kueue": _Controller(
        Group(
            "kueue",
            {"controller": "sigs.k8s.io/kueue/cmd/kueue"},
            {"webhooks": ("sigs.k8s.io/kueue", "config/components/webhook")},
        ),
        crds=("kueue",),
        account=("kueue-system", "kueue-controller-manager"),
        flags=lambda place: (*_config_flag(place), "--feature-gates=VisibilityOnDemand=false"),
        configuration=_configuration(
            "config.kueue.x-k8s.io/v1beta2",
            internalCertManagement=_NO_CERTIFICATES,
            integrations={"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        ),
        webhook_prefix="kueue-",
        certificate_folder=Path("/etc/kueue/metrics/certs"),
    ),
}
