"""Folders of policies, fleets and jobs, as commands read them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.samples import Json

API_VERSION = "samestep.dev/v1alpha1"


def policy(name: str = "one", **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    return _ours("TrainingPolicy", name, spec)


def pool(name: str = "gold", **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    return _ours("AcceleratorPool", name, {"nodeSelector": {}} | spec)


def exception(name: str = "while-it-lasts", **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    some = {"policies": ["one"], "reason": "a deadline", "until": "2999-01-31T00:00:00Z"}
    obj = _ours("TrainingPolicyException", name, some | spec)
    return obj | {"metadata": {"name": name, "namespace": "team-a"}}


def policy_test(*cases: Json, **spec: Any) -> Json:  # noqa: ANN401 - fields of a spec
    return _ours("PolicyTest", "some", {"fleet": ["fleet.yaml"], "cases": list(cases)} | spec)


def case(name: str = "a job", *, jobs: str = "job.yaml", expect: Json | None = None, **more: Any) -> Json:  # noqa: ANN401
    return {"name": name, "jobs": [jobs], "expect": expect or {"verdict": "Pin"}} | more


def write(folder: Path, files: Mapping[str, str | Json | list[Json]]) -> None:
    """Each file with its text, object or objects."""
    for name, held in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(held, str):
            held = yaml.safe_dump_all(held if isinstance(held, list) else [held], sort_keys=False)
        path.write_text(held, "utf-8")


def _ours(kind: str, name: str, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
