"""Kinds of training job: where each keeps its roles, replicas, templates and states (workloads.yaml)."""

from functools import cache
from importlib.resources import files

import yaml
from pydantic import TypeAdapter

from webhook.model.workload import Workload, Workloads


def read_workloads(text: str) -> Workloads:
    """The catalog written in this YAML. Raises pydantic's ValidationError, or ValueError, naming the entry."""
    return Workloads(TypeAdapter(tuple[Workload, ...]).validate_python(yaml.safe_load(text)))


@cache
def workloads() -> Workloads:
    """The catalog that comes with the package."""
    return read_workloads(files(__package__).joinpath("workloads.yaml").read_text(encoding="utf-8"))
