"""From a pydantic model to the structural schema of a CustomResourceDefinition.

The API server takes less than JSON Schema, and refuses the rest with 400 or 422 (k8s.io/apiextensions-apiserver,
pkg/apis/apiextensions/validation and pkg/apiserver/schema): no references, no unions, no null but by `nullable`.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]

_KEPT = frozenset(
    {
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "nullable",
        "pattern",
        "required",
        "type",
    }
)
_DROPPED = frozenset({"$defs", "deprecated", "discriminator", "examples", "title"})
"""Said elsewhere, or of no use to the API server."""
_NOTHING: tuple[object, ...] = (None, "", [], {})
"""Defaults that a field need not be there for."""

_DEEPEST = 32


class StructuralError(TypeError):
    """A part of a model for which there is no structural schema; the message begins with its place."""


def structural(model: type[BaseModel]) -> Schema:
    """The schema by which the API server checks what the model reads, as far as it can. Raises StructuralError."""
    schema = model.model_json_schema()
    return _converted(schema, schema.get("$defs", {}), (model.__name__,))


def _converted(written: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> Schema:
    one = _resolved(written, defs, path)
    made: Schema = {}
    for key, value in one.items():
        if key in _KEPT or key.startswith("x-kubernetes-"):
            made[key] = value
        elif key == "properties":
            made[key] = {name: _converted(part, defs, (*path, name)) for name, part in value.items()}
        elif key == "items":
            made[key] = _converted(value, defs, (*path, "[]"))
        elif key == "additionalProperties" and isinstance(value, Mapping):
            made[key] = _converted(value, defs, (*path, "{}"))
        elif key == "additionalProperties":
            # False beside properties: a strict client and the API server's pruning do that.
            if value:
                made["x-kubernetes-preserve-unknown-fields"] = True
        elif key == "const":
            made["enum"] = [value]
        elif key in ("exclusiveMinimum", "exclusiveMaximum"):
            made |= {key.removeprefix("exclusive").lower(): value, key: True}
        elif key == "uniqueItems":
            made["x-kubernetes-list-type"] = "set"
        elif key not in (*_DROPPED, "default"):
            raise StructuralError(f"{'.'.join(path)}: no structural schema has {key}")
    if (default := _default(one, made)) is not None:
        made["default"] = default
    if "type" not in made and "x-kubernetes-int-or-string" not in made:
        made["x-kubernetes-preserve-unknown-fields"] = True
    return made


def _default(one: Mapping[str, Any], made: Schema) -> object:
    """What the API server fills in; None for nothing. Of an object with fields it is `{}`, which these fill in turn."""
    said = one.get("default")
    if "properties" not in made:
        return None if said in _NOTHING else said
    return {} if said and any("default" in field for field in made["properties"].values()) else None


def _resolved(written: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    """Without `$ref` and `anyOf`; what is said beside them counts before what they lead to."""
    one = dict(written)
    if "$ref" in one:
        name = one.pop("$ref").removeprefix("#/$defs/")
        if len(path) > _DEEPEST:
            raise StructuralError(f"{'.'.join(path[:4])}…: {name} holds itself")
        return _resolved(defs[name] | one, defs, path)
    if "anyOf" not in one:
        return one
    some = one.pop("anyOf")
    parts = [part for part in some if part.get("type") != "null"]
    nullable = {"nullable": True} if len(parts) < len(some) else {}
    if len(parts) == 1:
        return {**_resolved(parts[0] | one, defs, path), **nullable}
    if sorted(part.get("type", "") for part in parts) == ["integer", "string"]:
        return one | nullable | {"x-kubernetes-int-or-string": True}
    raise StructuralError(f"{'.'.join(path)}: a union of {len(parts)} kinds")
