"""Someone who submits jobs to one namespace with kubectl, and what comes of them."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from controlplane.rig import ControlPlane
from tests.samples import pod

Json = dict[str, Any]
Sample: TypeAlias = Callable[..., Json]
Done = subprocess.CompletedProcess[str]

PRODUCT = "nvidia.com/gpu.product"
LARGE, SMALL = RTX_PRO_6000.product, RTX_5090.product
PER_SAMPLE: Json = {"memory_fixed": "2Gi", "memory_per_sample": "684Mi"}
"""Declares demand so that a micro-batch of 16 fits both models, one of 64 the large one, and one of 256 none."""


@dataclass(frozen=True, slots=True)
class Team:
    """`cluster` and a namespace in it."""

    cluster: ControlPlane
    namespace: str

    def kubectl(self, *arguments: str | Path, stdin: str | Json = "", check: bool = True) -> Done:
        """kubectl in the team's namespace; `stdin` is a manifest, which may name another one."""
        if isinstance(stdin, dict):
            stdin = json.dumps(stdin | {"metadata": stdin["metadata"] | {"namespace": self.namespace}})
        return self.cluster.kubectl(*arguments, "-n", self.namespace, stdin=stdin, check=check)

    def apply(self, manifest: str | Json, *arguments: str, check: bool = True) -> Done:
        return self.kubectl("apply", *arguments, "-f", "-", stdin=manifest, check=check)

    def refused(self, manifest: str | Json, *arguments: str) -> str:
        """What kubectl prints as it fails to apply this."""
        done = self.apply(manifest, *arguments, check=False)
        assert done.returncode == 1, done
        return done.stderr

    def get(self, kind: str, name: str) -> Json:
        found: Json = json.loads(self.kubectl("get", kind, name, "-o", "json").stdout)
        return found

    def models_of(self, job: str, workers: int) -> list[str]:
        """The GPU model under each pod of a Job, once `workers` of them run."""
        self.kubectl("wait", f"job/{job}", f"--for=jsonpath={{.status.ready}}={workers}", "--timeout=90s")
        return self._models()

    def models_of_pods(self, pods: list[Json]) -> list[str]:
        """The GPU model under each of these, which are created first; nothing else may run in the namespace."""
        self.cluster.api.create(f"/api/v1/namespaces/{self.namespace}/pods", pods)
        self.kubectl("wait", "pods", "--all", "--for=condition=Ready", "--timeout=90s")
        return self._models()

    def _models(self) -> list[str]:
        nodes = self.cluster.api.get("/api/v1/nodes")["items"]
        models = {node["metadata"]["name"]: node["metadata"]["labels"][PRODUCT] for node in nodes}
        pods = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [models[pod["spec"]["nodeName"]] for pod in pods]


def spread_pod(*, gpus: int = 2, batch: int = 64, **spec: object) -> Json:
    """A pod of four ranks; asking for CPUs too, four of them go to four nodes where nothing pins them."""
    command = ("torchrun", "--nnodes=4", "train.py", f"--per_device_train_batch_size={batch}")
    found = {**pod(gpus=gpus, command=command), **spec}
    # Amounts as text, which is how they are stored: kubectl takes another form for a change.
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    found["containers"][0]["resources"] = {"requests": {"cpu": "4"}, **limits}
    return found
