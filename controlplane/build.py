"""Builds the control plane's programs from pinned, verified Go modules into a cache outside the clone."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(__file__).parent / "go"

_GOOS = platform.system().lower()
_GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_FLAGS = ("-trimpath", "-buildvcs=false")


class ControlPlaneError(Exception):
    """The control plane could not be built or run; the message is for the person who started it."""


class GoUnavailableError(ControlPlaneError):
    """There is no Go, or one too old, to build what is not in the cache yet."""


class BuildError(ControlPlaneError):
    """A Go build failed; the message ends with what Go said."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one Go module, the folder `name` below controlplane/go, gives."""

    name: str
    binaries: Mapping[str, str] = field(default_factory=dict)
    """Name of the program: its main package."""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a file or a folder of files: the module whose zip has it, and its path there."""
    ldflags: str = "-s -w"

    @property
    def artifacts(self) -> tuple[str, ...]:
        return (*self.binaries, *self.files)


# Cheap ones first, so that a broken set-up is seen before the long build.
GROUPS = (
    Group(
        "crds",
        files={
            "training-operator": ("github.com/kubeflow/training-operator", "manifests/base/crds"),
            "pytorchjobs.yaml": (
                "github.com/kubeflow/training-operator",
                "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
            ),
            "mpi-operator": ("github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
            "trainer": ("github.com/kubeflow/trainer/v2", "manifests/base/crds"),
            "trainer-2.1": ("samestep/trainer-2.1", "manifests/base/crds"),
            "trainer-2.0": ("samestep/trainer-2.0", "manifests/base/crds"),
            "kuberay": ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases"),
            "jobset": ("sigs.k8s.io/jobset", "config/components/crd/bases"),
            "lws": ("sigs.k8s.io/lws", "config/crd/bases"),
            "appwrapper": ("github.com/project-codeflare/appwrapper", "config/crd/bases"),
            "kueue": ("sigs.k8s.io/kueue", "config/components/crd/bases"),
            "argo-workflows": (
                "github.com/argoproj/argo-workflows/v4",
                "manifests/base/crds/full/argoproj.io_workflows.yaml",
            ),
        },
    ),
    # Kinds of what is often installed beside us, and of which manifests/ has objects.
    Group(
        "neighbours",
        files={
            f"{plural}.yaml": (f"github.com/{module}", f"{folder}/{group}_{plural}.yaml")
            for module, folder, group, plurals in (
                ("cert-manager/cert-manager", "deploy/crds", "cert-manager.io", ("certificates", "issuers")),
                (
                    "prometheus-operator/prometheus-operator",
                    "example/prometheus-operator-crd",
                    "monitoring.coreos.com",
                    ("servicemonitors", "prometheusrules"),
                ),
            )
            for plural in plurals
        },
    ),
    Group("nullwebhook", {"nullwebhook": "samestep/controlplane/nullwebhook"}),
    Group("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Group(
        "kwok",
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        {
            f"{stage}.yaml": ("sigs.k8s.io/kwok", f"kustomize/stage/{folder}/fast/{stage}.yaml")
            for folder, stage in (("node", "node-initialize"), ("pod", "pod-ready"), ("pod", "pod-delete"))
        },
    ),
    Group(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        # Without a version of its own kubectl, like most clients, cannot parse the server's.
        ldflags="-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3",
    ),
)

# Beside the control plane, not part of it: what reads the metrics, and what checks the alert rules.
MONITORING = Group(
    "prometheus",
    {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
)
# Needs Docker to make a cluster; without, it still reads a configuration of one.
KIND = Group("kind", {"kind": "sigs.k8s.io/kind"})


def build_all() -> None:
    """Fills the cache with what it lacks. Raises GoUnavailableError, BuildError."""
    for group in GROUPS:
        build(group)


def artifact(name: str) -> Path:
    """The path of a program or file of `GROUPS`, `MONITORING` or `KIND`, built first if the cache lacks it.

    Raises GoUnavailableError, BuildError; KeyError for a name that no group has.
    """
    for group in (*GROUPS, MONITORING, KIND):
        if name in group.artifacts:
            return build(group) / name
    raise KeyError(name)


def build(group: Group) -> Path:
    """The folder with the group's artifacts: at once from the cache, or after minutes of building.

    Safe to call from several processes: one builds, the others wait. Raises GoUnavailableError, BuildError.
    """
    folder = _cache() / f"{group.name}-{_key(group)}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / f"{group.name}.lock", group):
        if not folder.exists():
            _require_go(group)
            _say(f"building {group.name}: {', '.join(group.artifacts)} (once; kept in {folder})")
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"{group.name}-", dir=folder.parent) as scratch:
                into = Path(scratch) / "out"
                into.mkdir()
                _build_binaries(group, into)
                _copy_files(group, into)
                into.rename(folder)
            _say(f"built {group.name} in {time.monotonic() - started:.0f} s")
    return folder


def _build_binaries(group: Group, into: Path) -> None:
    if not group.binaries:
        return
    # One package may be built under any name; several are named by Go after their folders.
    output = f"{into}/" if len(group.binaries) > 1 else str(into / next(iter(group.binaries)))
    _go(group, "build", *_FLAGS, "-ldflags", group.ldflags, "-o", output, *group.binaries.values())


def _copy_files(group: Group, into: Path) -> None:
    for name, (module, path) in group.files.items():
        source = Path(json.loads(_go(group, "mod", "download", "-json", module))["Dir"]) / path
        # File by file, since the module cache's folders are not writable, and copies of them would not be either.
        for file in (each for each in (source, *source.rglob("*")) if each.is_file()):
            target = into / name / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _go(group: Group, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=MODULES / group.name, env=_environment(), capture_output=True, text=True
    )
    if done.returncode != 0:
        said = "\n".join(done.stderr.splitlines()[-20:])
        raise BuildError(f"go {arguments[0]} failed for {group.name}:\n{said}")
    return done.stdout


def _environment() -> dict[str, str]:
    # A leftover -mod, workspace or target in the caller's environment must not change what is built.
    fixed = {"GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
    return os.environ | fixed | {"GOOS": _GOOS, "GOARCH": _GOARCH}


def _require_go(group: Group) -> None:
    needed = re.findall(r"^go (\d+)\.(\d+)", (MODULES / group.name / "go.mod").read_text(), re.MULTILINE)[0]
    programs = ", ".join(name for each in GROUPS for name in each.binaries)
    cannot = f"needed to build the control plane ({programs}), without which nothing that uses it can run"
    wanted = f"Go {'.'.join(needed)} or newer"
    if shutil.which("go") is None:
        raise GoUnavailableError(f"no Go found: {wanted} is {cannot}")
    try:
        version = _go(group, "env", "GOVERSION").strip()
    except BuildError as error:
        raise GoUnavailableError(f"{wanted} is {cannot}.\n{error}") from error
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found and tuple(map(int, found.groups())) < tuple(map(int, needed)):
        raise GoUnavailableError(f"found {version}, too old: {wanted} is {cannot}")


def _key(group: Group) -> str:
    content = hashlib.sha256(repr((group, _FLAGS, _GOOS, _GOARCH)).encode())
    for path in sorted((MODULES / group.name).iterdir()):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:16]


def _cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home.absolute() / "samestep" / "controlplane"


@contextmanager
def _lock(path: Path, group: Group) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another process that builds {group.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(message: str) -> None:
    print(f"control plane: {message}", file=sys.stderr, flush=True)
