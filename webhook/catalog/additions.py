"""`Accelerator` objects: products that a platform team adds to the catalog, or whose figures it overrides."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic.alias_generators import to_camel

from webhook.catalog.accelerators import Accelerators, Figure, Product
from webhook.model.quantity import MEBI, QuantityError, units


class AdditionError(ValueError):
    """Not an Accelerator that the catalog can take; the message begins with the field."""


def _memory(text: str) -> str:
    try:
        if units(text) < MEBI:
            raise ValueError(f"expected at least 1Mi, got {text!r}")
    except QuantityError as error:
        raise ValueError(str(error)) from None
    return text


_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Positive = Annotated[StrictInt, Field(gt=0)]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=False, use_attribute_docstrings=True
    )


class AcceleratorSpec(_Part):
    product: _Name
    """The product as nodes spell it. Spellings that the catalog takes for one are one here."""
    aliases: tuple[_Name, ...] = ()
    """Other whole spellings: what clouds, or labels of your own, call it."""
    vendor: _Name
    """A vendor of the catalog."""
    memory: Annotated[str, AfterValidator(_memory)] | None = None
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
