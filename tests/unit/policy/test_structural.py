"""Each part of a model has the one form that the API server takes, or is refused."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from webhook.policy.structural import StructuralError, structural


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    text: Annotated[str, Field(pattern="^[a-z]+$", max_length=9)] = "a"
    """What it is."""


class Recursive(BaseModel):
    inner: "Recursive | None" = None


def schema_of(annotation: object) -> object:
    fields: Any = {"field": (annotation, ...)}
    return structural(create_model("Model", **fields))["properties"]["field"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (bool, {"type": "boolean"}),
        (str | None, {"type": "string", "nullable": True}),
        (int | str, {"x-kubernetes-int-or-string": True}),
        (int | str | None, {"x-kubernetes-int-or-string": True, "nullable": True}),
        (Annotated[int, Field(gt=0, le=9)], {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9}),
        (Annotated[int, Field(lt=9)], {"type": "integer", "maximum": 9, "exclusiveMaximum": True}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Colour, {"type": "string", "enum": ["Red", "Blue"]}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (
            list[Part],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {
                            "type": "string",
                            "description": "What it is.",
                            "pattern": "^[a-z]+$",
                            "maxLength": 9,
                            "default": "a",
                        }
                    },
                },
            },
        ),
    ],
)
def test_what_has_a_structural_form_gets_it(annotation: object, schema: dict[str, object]) -> None:
    assert schema_of(annotation) == schema


class Whole(BaseModel):
    part: Part = Part()
    empty: str = ""
    none: str | None = None
    several: tuple[str, ...] = ()
    values: dict[str, int] = {"a": 1}
    off: bool = False
    needed: int


def test_a_default_makes_a_field_optional_and_is_written_where_it_says_something() -> None:
    schema = structural(Whole)
    defaults = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
    assert schema["required"] == ["needed"]
    assert defaults == {"part": {}, "values": {"a": 1}, "off": False}
    assert schema["properties"]["part"]["properties"]["text"]["default"] == "a"


def test_a_part_with_nothing_to_fill_in_is_not_filled_in() -> None:
    class Outer(BaseModel):
        inner: Inner = Inner()

    assert "default" not in structural(Outer)["properties"]["inner"]


class Inner(BaseModel):
    text: str = ""


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        (Decimal, "Model.field: a union of 2 kinds"),
        (int | list[str], "Model.field: a union of 2 kinds"),
        (tuple[int, str], "Model.field: no structural schema has prefixItems"),
        (dict[Annotated[str, Field(pattern="^a")], int], "Model.field: no structural schema has patternProperties"),
        (dict[Colour, int], "Model.field: no structural schema has propertyNames"),
        (Recursive, "Model.field.inner.inner…: Recursive holds itself"),
    ],
)
def test_what_has_none_is_refused_with_its_place(annotation: object, told: str) -> None:
    with pytest.raises(StructuralError) as refused:
        schema_of(annotation)
    assert str(refused.value).startswith(told)
