"""The CustomResourceDefinitions of our kinds, as manifests/crds has them."""

from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel

from webhook.catalog.additions import Accelerator, AcceleratorSpec
from webhook.policy.structural import Schema, structural

GROUP = "samestep.dev"
VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class _Kind:
    """`model` reads the whole object, `spec` its spec. `columns` are what `kubectl get` shows, by title the path."""

    model: type[BaseModel]
    spec: type[BaseModel]
    plural: str
    scope: str
    columns: dict[str, str]


_KINDS = (_Kind(Accelerator, AcceleratorSpec, "accelerators", "Cluster", {"Product": "product", "Memory": "memory"}),)


def definitions() -> dict[str, str]:
    """Each definition as YAML, by the name of its file."""
    return {f"{one.plural}.{GROUP}.yaml": _yaml(_definition(one)) for one in _KINDS}


def _definition(one: _Kind) -> dict[str, Any]:
    kind = one.model.__name__
    columns = [{"name": name, "type": "string", "jsonPath": f".spec.{path}"} for name, path in one.columns.items()]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{one.plural}.{GROUP}", "labels": {"app.kubernetes.io/name": "samestep"}},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": one.plural,
                "singular": kind.lower(),
                "categories": ["samestep"],
            },
            "scope": one.scope,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        *columns,
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    "schema": {"openAPIV3Schema": _schema(one)},
                }
            ],
        },
    }


def _schema(one: _Kind) -> Schema:
    return {
        "type": "object",
        "description": one.model.__doc__,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(one.spec),
        },
    }


def _yaml(definition: dict[str, Any]) -> str:
    told = "# Generated from the models that read our kinds: make docs\n"
    return told + yaml.safe_dump(definition, sort_keys=False, width=120)
