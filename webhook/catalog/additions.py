"""`Accelerator` objects: products that a platform team adds to the catalog, or whose figures it overrides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel

from webhook.catalog.accelerators import Accelerators, Figure, Product
from webhook.model.quantity import GRAMMAR, LONGEST, MEBI, QuantityError, units
from webhook.model.request import Object


class AdditionError(ValueError):
    """Not an Accelerator that the catalog can take; the message begins with the field."""


def _memory(text: str) -> str:
    try:
        if units(text) < MEBI:
            raise ValueError(f"expected at least 1Mi, got {text!r}")
    except QuantityError as error:
        raise ValueError(str(error)) from None
    return text


_Object = TypeVar("_Object", bound=Object)
_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Positive = Annotated[StrictInt, Field(gt=0, le=1_000_000_000)]
_Memory = Annotated[
    str,
    AfterValidator(_memory),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": LONGEST,
            "pattern": f"^{GRAMMAR}$",
            "x-kubernetes-validations": [
                {
                    "rule": "isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0",
                    "message": "expected at least 1Mi",
                }
            ],
        }
    ),
]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=False, use_attribute_docstrings=True
    )


class AcceleratorSpec(_Part):
    """What a product is called, and its figures. What is left out is as the catalog has it."""

    product: _Name
    """The product as nodes spell it. Spellings that the catalog takes for one are one here."""
    aliases: tuple[_Name, ...] = ()
    """Other whole spellings: what clouds, or labels of your own, call it."""
    vendor: _Name
    """A vendor of the catalog."""
    memory: _Memory | None = None
    """Memory of one device as its driver reports it, as a Kubernetes quantity. A node's own label comes first."""
    bf16_tflops: _Positive | None = None
    """Dense BF16 TFLOPS."""
    bandwidth_gbps: Annotated[_Positive | None, Field(alias="bandwidthGBps")] = None
    """Memory bandwidth in gigabytes a second."""
    source: _Name
    """Where the figures are from: whoever reads them next will ask."""


class _Metadata(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: _Name


class Accelerator(_Part):
    """A product that is added to Samestep's catalog of accelerators, or of which some figures are overridden."""

    api_version: Literal["samestep.dev/v1alpha1"]
    kind: Literal["Accelerator"]
    metadata: _Metadata
    spec: AcceleratorSpec


def is_accelerator(obj: Mapping[str, Any]) -> bool:
    """Whether an object is meant to be one of ours."""
    return obj.get("kind") == "Accelerator" and str(obj.get("apiVersion")).startswith("samestep.dev/")


def extended(catalog: Accelerators, objects: Iterable[Mapping[str, Any]]) -> Accelerators:
    """The catalog with the products of these Accelerator objects, later ones over earlier ones.

    Raises AdditionError for an object that is not valid, names no vendor of the catalog, or calls one product by the
    name of another.
    """
    for obj in objects:
        catalog = catalog.with_products([_product(obj, catalog)])
    return catalog


@dataclass(frozen=True, slots=True)
class Added:
    """The catalog with the Accelerator objects of a cluster. `good` are those that count, by name; `faults` tell of
    those that cannot be taken as they are now."""

    catalog: Accelerators
    good: Mapping[str, Object] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def added(catalog: Accelerators, objects: Iterable[Object], before: Mapping[str, Object]) -> Added:
    """The catalog with these objects, the younger over the older. `before` are those that counted until now: one that
    cannot be taken any more counts as it was then, and one that never could is left out."""
    good: dict[str, Object] = {}
    faults: list[str] = []
    for obj in by_age(objects):
        name = str(obj["metadata"]["name"])
        try:
            catalog, good[name] = extended(catalog, [obj]), obj
        except AdditionError as error:
            last = _extended(catalog, before.get(name))
            if last is not None:
                catalog, good[name] = last, before[name]
            faults.append(f"{name}: {error} ({'left out' if last is None else 'counts as it was before'})")
    return Added(catalog, good, tuple(faults))


def by_age(objects: Iterable[_Object]) -> list[_Object]:
    """Objects of a cluster, the oldest first, those of one second by name."""
    return sorted(objects, key=lambda obj: (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]))


def _extended(catalog: Accelerators, obj: Object | None) -> Accelerators | None:
    try:
        return None if obj is None else extended(catalog, [obj])
    except AdditionError:
        return None


def _product(obj: Mapping[str, Any], catalog: Accelerators) -> Product:
    try:
        spec = Accelerator.model_validate(obj).spec
    except ValidationError as error:
        first = error.errors()[0]
        raise AdditionError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    vendors = {one.name.casefold(): one.name for one in catalog.vendors}
    vendor = vendors.get(spec.vendor.casefold())
    if vendor is None:
        raise AdditionError(f"spec.vendor: expected one of {', '.join(vendors.values())}, got {spec.vendor!r}")
    known = catalog.product(spec.product)
    for alias in spec.aliases:
        other = catalog.product(alias)
        if other is not None and other is not known:
            raise AdditionError(f"spec.aliases: {alias!r} is {other.product}")
    if known is not None and known.vendor != vendor:
        raise AdditionError(f"spec.vendor: {known.product} is a product of {known.vendor}")
    return Product(
        product=spec.product,
        source=(spec.source,),
        vendor=vendor,
        aliases=dict.fromkeys(spec.aliases, spec.source),
        memory=_figure(units(spec.memory) // MEBI if spec.memory else None, spec.source),
        bf16=_figure(spec.bf16_tflops, spec.source),
        bandwidth=_figure(spec.bandwidth_gbps, spec.source),
    )


def _figure(value: float | None, source: str) -> Figure | None:
    return None if value is None else Figure(float(value), (source,))
