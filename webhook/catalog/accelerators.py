"""Accelerators: how vendors' nodes describe their devices, and what is known of each product (accelerators.yaml)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

_CONFIG = ConfigDict(alias_generator=to_camel, extra="forbid")
_Key = Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")]
_Resource = Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+\*?$")]
_LONGEST = 253
_Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class MemoryKey:
    """A label that gives the memory of one device; `unit` is what a bare number in it means."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    key: _Key
    unit: Literal["MiB", "GiB"]


@dataclass(frozen=True, slots=True)
class Vendor:
    """How the nodes of one vendor describe their devices. Keys and patterns in the order in which they count.

    `share_products` and `invalid_products` are shell patterns over product names, `share_labels` patterns over label
    values that make a node's devices shares. `count_key` and `replicas_key` give the physical devices of the labelled
    model and into how many shares each is cut. `prefixes` and `suffixes` are words that tell no product from another;
    a suffix may end in *.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    resources: tuple[_Resource, ...]
    product_keys: tuple[_Key, ...]
    share_resources: tuple[_Resource, ...] = ()
    memory_keys: tuple[MemoryKey, ...] = ()
    count_key: _Key | None = None
    replicas_key: _Key | None = None
    share_products: tuple[str, ...] = ()
    share_labels: dict[_Key, tuple[str, ...]] = field(default_factory=dict)
    invalid_products: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    @property
    def label_keys(self) -> tuple[str, ...]:
        """Every label key from which something is read."""
        optional = (key for key in (self.count_key, self.replicas_key) if key)
        return (*self.product_keys, *(one.key for one in self.memory_keys), *optional, *self.share_labels)

    def is_share(self, resource: str) -> bool:
        """Whether this resource of the vendor is a share of a device by its very name (`nvidia.com/mig-3g.20gb`)."""
        return resource not in self.resources

    def names_share(self, product: str) -> bool:
        """Whether a product label tells of a share ("NVIDIA-L4-SHARED")."""
        return _matches(product, self.share_products)

    def names_nothing(self, product: str) -> bool:
        """Whether a product label tells of no model at all: it is missing or in a half-set state."""
        return not product or _matches(product, self.invalid_products)

    def labels_share(self, labels: Mapping[str, str]) -> bool:
        """Whether some other label says that the node's devices are shares."""
        return any(_matches(labels[key], patterns) for key, patterns in self.share_labels.items() if key in labels)


@dataclass(frozen=True, slots=True)
class Product:
    """One product. `memory_mib` is what the driver reports, `bf16_tflops` dense, `bandwidth_gbps` memory bandwidth in
    gigabytes a second; None where no source is sure. A `display` card is never a target for a job."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    product: str
    source: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    short_name: str = ""
    memory_mib: Annotated[int, Field(gt=0)] | None = None
    bf16_tflops: _Positive | None = None
    bandwidth_gbps: _Positive | None = None
    display: bool = False


class Accelerators:
    """The catalog, with its look-ups; one instance serves the whole process and nothing changes it.

    `product_keys` are the label keys of all vendors that name a product.
    """

    def __init__(self, vendors: tuple[Vendor, ...], products: tuple[Product, ...]) -> None:
        self.vendors = vendors
        self.products = products
        self.product_keys = frozenset(key for vendor in vendors for key in vendor.product_keys)
        self._by_resource = {name: vendor for vendor in vendors for name in vendor.resources + vendor.share_resources}
        self._by_prefix = tuple(
            (name.removesuffix("*"), vendor) for name, vendor in self._by_resource.items() if name.endswith("*")
        )
        self._prefix = _words((word for vendor in vendors for word in vendor.prefixes), r"\A(?:{})+")
        self._suffix = _words((word for vendor in vendors for word in vendor.suffixes), r"(?:{})+\Z")
        self._by_name = {self._bare(one.product).casefold(): one for one in products}
        self._by_alias = {alias.casefold(): one for one in products for alias in one.aliases}

    def vendor_of(self, resource: str) -> Vendor | None:
        """The vendor whose devices, or shares of devices, pods ask for by this resource name."""
        vendor = self._by_resource.get(resource)
        if vendor is None:
            vendor = next((vendor for prefix, vendor in self._by_prefix if resource.startswith(prefix)), None)
        return vendor

    def is_device(self, resource: str) -> bool:
        """Whether this resource is an accelerator or a share of one."""
        return self.vendor_of(resource) is not None

    def product(self, name: str) -> Product | None:
        """The product of this name in any of its spellings; never by a part of the name (A10 is not A100)."""
        return self._by_alias.get(name.casefold()) or self._by_name.get(self._bare(name).casefold())

    def canonical(self, name: str) -> str:
        """One form for all spellings of a product, for comparison and never for people."""
        known = self.product(name)
        return self._bare(known.product if known else name).casefold()

    def short_name(self, name: str) -> str:
        """What messages call a product: the catalog's short name, else the product without the vendor's words."""
        known = self.product(name)
        return known.short_name or self._bare(known.product) if known else self._bare(name)

    def _bare(self, name: str) -> str:
        if len(name) > _LONGEST:
            return name
        name = name.replace(" ", "-").replace("_", "-")
        return self._suffix.sub("", self._prefix.sub("", name)) or name


@cache
def accelerators() -> Accelerators:
    """The catalog that comes with the package."""
    text = files(__package__).joinpath("accelerators.yaml").read_text(encoding="utf-8")
    read = TypeAdapter(_File).validate_python(yaml.safe_load(text))
    return Accelerators(read.vendors, read.products)


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    vendors: tuple[Vendor, ...]
    products: tuple[Product, ...]
    sources: dict[str, str]

    def __post_init__(self) -> None:
        for one in self.products:
            unknown = [source for source in one.source if source not in self.sources]
            if unknown or not one.source:
                raise ValueError(f"{one.product}: source must name entries of `sources`, got {list(one.source)}")


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _words(words: Iterable[str], pattern: str) -> re.Pattern[str]:
    choices = "|".join(re.escape(word).replace(r"\*", ".*") for word in words)
    return re.compile(pattern.format(choices), re.IGNORECASE | re.DOTALL)
