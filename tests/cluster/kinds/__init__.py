"""One small manifest for each kind of the catalog, in a file each: a job of four pods with two GPUs each.

Roles of the kind that need no devices are there too, without any. Declared memory fits the large model of the seed's
fleet alone, so that there is one right pin.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controlplane.crds import CrdSet
from controlplane.rig import ControlPlane
from webhook.catalog.workloads import workloads
from webhook.model.request import Kind
from webhook.model.workload import Workload

Json = dict[str, Any]

_CRDS: dict[str, CrdSet | None] = {
    "v1": None,
    "apps/v1": None,
    "batch/v1": None,
    "kubeflow.org/v1": "training-operator",
    "ray.io/v1": "kuberay",
    "jobset.x-k8s.io/v1alpha2": "jobset",
    "leaderworkerset.x-k8s.io/v1": "lws",
    "batch.volcano.sh/v1alpha1": "volcano",
    "workload.codeflare.dev/v1beta2": "appwrapper",
    "argoproj.io/v1alpha1": "argo-workflows",
    "trainer.kubeflow.org/v1alpha1": "trainer",
    # Its MPIJob takes the place of the one of kubeflow.org/v1, so it comes last.
    "kubeflow.org/v2beta1": "mpi-operator",
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file's object, and what the tests need to know of its kind. `crds` is None where the API server has it."""

    stem: str
    source: Json
    crds: CrdSet | None

    @property
    def workload(self) -> Workload:
        """Its entry in the catalog."""
        group, _, version = self.source["apiVersion"].rpartition("/")
        found = workloads().of(Kind(group, version, self.source["kind"]))
        assert found is not None
        return found

    @property
    def lists_are_atomic(self) -> bool:
        """Whether one manager owns the list of its pod templates as a whole: the definition names no key for items."""
        return self.crds in ("kuberay", "volcano")

    @property
    def resource(self) -> str:
        """As kubectl takes it: the plural alone is another kind's too (jobs)."""
        group, _, version = self.source["apiVersion"].rpartition("/")
        return ".".join(part for part in (self.workload.plural, version if group else "", group) if part)

    @property
    def collection(self) -> str:
        """The path of its collection in the namespace `default`."""
        base = f"/apis/{self.source['apiVersion']}" if "/" in self.source["apiVersion"] else "/api/v1"
        scope = "" if self.workload.cluster_scoped else "/namespaces/default"
        return f"{base}{scope}/{self.workload.plural}"

    def named(self, name: str) -> Json:
        """The object under another name."""
        found = deepcopy(self.source)
        found["metadata"]["name"] = name
        return found


def _read() -> Iterator[Manifest]:
    for path in Path(__file__).parent.glob("*.yaml"):
        source = yaml.safe_load(path.read_text("utf-8"))
        yield Manifest(path.stem, source, _CRDS[source["apiVersion"]])


MANIFESTS = sorted(_read(), key=lambda one: ([*_CRDS].index(one.source["apiVersion"]), one.stem))
"""Those of one set of definitions beside each other, so that each set is installed once."""
JOBS = [one for one in MANIFESTS if one.workload.roles]
WRAPPERS = [one for one in MANIFESTS if one.workload.holds]


def installed(control_plane: ControlPlane, manifest: Manifest) -> Manifest:
    """The manifest, once its kind is served."""
    if manifest.crds is not None:
        control_plane.install_crds(manifest.crds)
    return manifest


def pod_specs(value: object) -> Iterator[Json]:
    """Every pod spec in an object of whatever kind."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from pod_specs(one)


def asks(spec: Json) -> bool:
    """Whether a pod asks for GPUs."""
    return any("nvidia.com/gpu" in one.get("resources", {}).get("limits", {}) for one in spec["containers"])
