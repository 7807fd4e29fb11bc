"""The CustomResourceDefinitions of our kinds, as manifests/base/crds has them, and their schemas for editors, as
schemas/ has them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field, TypeAdapter

from webhook.catalog.additions import Accelerator
from webhook.policy.accelerator_pool import AcceleratorPool
from webhook.policy.exception import TrainingPolicyException
from webhook.policy.policy_test import PolicyTest
from webhook.policy.structural import Schema, structural
from webhook.policy.training_policy import TrainingPolicy
from webhook.policy.training_profile import TrainingProfile

GROUP = "samestep.dev"
VERSION = "v1alpha1"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LABELS = {"app.kubernetes.io/name": "samestep", "app.kubernetes.io/part-of": "samestep"}
_READY = '.status.conditions[?(@.type=="Ready")].status'


@dataclass(frozen=True, slots=True)
class _Kind:
    """`columns` are what `kubectl get` shows: the type and the path by title, the last of them only with `-o wide`
    where `wide` says how many."""

    model: type[BaseModel]
    plural: str
    short: str
    columns: Mapping[str, tuple[str, str]]
    wide: int = 0
    namespaced: bool = False


_KINDS = (
    _Kind(
        Accelerator,
        "accelerators",
        "accel",
        {"Product": ("string", ".spec.product"), "Memory": ("string", ".spec.memory")},
    ),
    _Kind(
        AcceleratorPool,
        "acceleratorpools",
        "apool",
        {
            "Order": ("integer", ".spec.order"),
            "Max": ("integer", ".spec.capacity.max"),
            "Queue": ("string", ".spec.inject.queueName"),
            "Ready": ("string", _READY),
        },
    ),
    _Kind(
        TrainingPolicy,
        "trainingpolicies",
        "tpol",
        {
            "Priority": ("integer", ".spec.priority"),
            "Action": ("string", ".spec.validationActions[0]"),
            "Ready": ("string", _READY),
            "Pin": ("string", ".spec.pin.when"),
            "Likeness": ("string", ".spec.likeness.require"),
            "Room": ("string", ".spec.room"),
        },
        wide=3,
    ),
    _Kind(
        TrainingPolicyException,
        "trainingpolicyexceptions",
        "tpex",
        {
            "Policies": ("string", ".spec.policies"),
            "Until": ("string", ".spec.until"),
            "Ready": ("string", _READY),
            "Codes": ("string", ".spec.codes"),
            "Reason": ("string", ".spec.reason"),
        },
        wide=2,
        namespaced=True,
    ),
    _Kind(
        TrainingProfile,
        "trainingprofiles",
        "tprof",
        {
            "Kind": ("string", ".spec.training.kind"),
            "Models": ("string", ".spec.summary.models"),
            "Runs": ("integer", ".spec.summary.runs"),
            "OOM": ("string", ".spec.summary.outOfMemory"),
            "Peak": ("string", ".spec.summary.peak"),
            "Seen": ("date", ".spec.summary.lastSeen"),
            "Model": ("string", ".spec.training.model"),
            "Image": ("string", ".spec.training.image"),
            "Batch": ("integer", ".spec.recipe.microBatch"),
        },
        wide=3,
        namespaced=True,
    ),
)
MODELS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {one.model.__name__: one.model for one in _KINDS} | {PolicyTest.__name__: PolicyTest}
)
"""All our kinds by name: custom resources, and those that are only files."""

_Ours: Any = Annotated[
    Accelerator | AcceleratorPool | TrainingPolicy | TrainingPolicyException | TrainingProfile | PolicyTest,
    Field(discriminator="kind"),
]


def definitions() -> dict[str, str]:
    """Each definition as YAML, by the name of its file."""
    return {f"{one.plural}.{GROUP}.yaml": _yaml(_definition(one)) for one in _KINDS}


def schemas() -> dict[str, str]:
    """The JSON Schema of each kind, by the name of its file: the name that kubeconform and its like look for."""
    return {f"{name.lower()}_{VERSION}.json": schema_of(name) for name in MODELS}


def definition_of(kind: str) -> str | None:
    """The definition of one of `MODELS` as YAML; None where it is no custom resource."""
    return next((_yaml(_definition(one)) for one in _KINDS if one.model.__name__ == kind), None)


def schema_of(kind: str | None) -> str:
    """The JSON Schema of one of `MODELS`, or (None) of an object that is of one of these kinds."""
    if kind is not None:
        return _json(MODELS[kind].model_json_schema())
    return _json(TypeAdapter[object](_Ours).json_schema())


def _definition(one: _Kind) -> dict[str, Any]:
    kind = one.model.__name__
    schema = structural(one.model)
    has_status = "status" in schema["properties"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{one.plural}.{GROUP}", "labels": dict(_LABELS)},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": one.plural,
                "singular": kind.lower(),
                "shortNames": [one.short],
                "categories": ["samestep"],
            },
            "scope": "Namespaced" if one.namespaced else "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if has_status else {}),
                    "additionalPrinterColumns": _columns(one),
                    "schema": {"openAPIV3Schema": _of_object(schema)},
                }
            ],
        },
    }


def _columns(one: _Kind) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = [
        {"name": title, "type": of, "jsonPath": path} for title, (of, path) in one.columns.items()
    ]
    for column in columns[len(columns) - one.wide :]:
        column["priority"] = 1
    return [*columns, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


def _of_object(schema: Schema) -> Schema:
    """The API server has rules of its own for the head of an object, and takes no others but for its name."""
    head: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    rest = {name: part for name, part in schema["properties"].items() if name not in head}
    required = [name for name in schema["required"] if name not in head]
    return {
        "type": "object",
        "description": schema["description"],
        **({"required": required} if required else {}),
        "properties": head | rest,
    }


def _yaml(definition: dict[str, Any]) -> str:
    told = "# Generated from the models that read our kinds: make docs\n"
    return told + yaml.dump(definition, Dumper=_Plain, sort_keys=False, width=120)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _json(schema: Schema) -> str:
    return json.dumps({"$schema": _DIALECT} | _for_editors(schema), ensure_ascii=False, indent=2) + "\n"


def _for_editors(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Without what only the API server takes, and without titles, which say again what the field is called."""
    if isinstance(schema, list):
        return [_for_editors(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: one for key, one in schema.items() if not key.startswith("x-kubernetes-")}
    if isinstance(kept.get("title"), str):
        del kept["title"]
    return {key: _for_editors(one) for key, one in kept.items()}
