"""Accelerators: how vendors' nodes describe their devices, and what is known of each product (accelerators.yaml)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
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
    """A label that gives memory; `unit` is what a bare number in it means. `per` node: that of all cards together,
    which the vendor's `card_keys` count."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    key: _Key
    unit: Literal["B", "MiB", "GiB"]
    per: Literal["device", "node"] = "device"


@dataclass(frozen=True, slots=True)
class Slices:
    """How a vendor's DRA driver describes devices in ResourceSlices: the attribute with the product, the capacity with
    the memory, and for `whole` an attribute with the value that whole devices have."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    driver: str
    product: str
    memory: str | None = None
    whole: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vendor:
    """How the nodes of one vendor describe their devices. Keys and patterns in the order in which they count.

    `stack` is the software that the devices of a job must share. `product_keys` are the labels of the vendor's own
    discovery and always count; `cloud_keys` those of clouds and provisioners, whose names count where the catalog knows
    them; `instance_types` maps patterns of machine types to products. A product of `share_products` (shell patterns),
    or a label of `share_labels` with a value that matches, says that each device is shared by several; `slice_products`
    and `slice_labels` that devices are cut into slices with memory of their own. `count_key` gives the devices of the
    labelled product, `replicas_key` into how many each is cut, `card_keys` the physical cards of any product. Of
    `counted_keys` there is one label for each value ("….vram.64G": "4"); two of them are two products. `registers` are
    annotations in which fractional plugins list devices. `prefixes` and `suffixes` are words that tell no product from
    another; a suffix may end in *.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    name: str
    stack: str
    resources: tuple[_Resource, ...] = ()
    share_resources: tuple[_Resource, ...] = ()
    fraction_resources: frozenset[str] = frozenset()
    product_keys: tuple[_Key, ...] = ()
    cloud_keys: tuple[_Key, ...] = ()
    instance_types: dict[str, str] = field(default_factory=dict)
    memory_keys: tuple[MemoryKey, ...] = ()
    count_key: _Key | None = None
    replicas_key: _Key | None = None
    card_keys: tuple[_Key, ...] = ()
    counted_keys: tuple[_Key, ...] = ()
    share_products: tuple[str, ...] = ()
    slice_products: tuple[str, ...] = ()
    share_labels: dict[_Key, tuple[str, ...]] = field(default_factory=dict)
    slice_labels: dict[_Key, tuple[str, ...]] = field(default_factory=dict)
    invalid_products: tuple[str, ...] = ()
    registers: tuple[_Key, ...] = ()
    slices: Slices | None = None
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    @property
    def naming_keys(self) -> tuple[str, ...]:
        """Every label that tells one product from another, in the order in which they count."""
        return (*self.product_keys, *self.cloud_keys, *(INSTANCE_TYPE_KEYS if self.instance_types else ()))

    @property
    def label_keys(self) -> tuple[str, ...]:
        """Every label key from which something is read, but for `counted_keys`."""
        optional = (key for key in (self.count_key, self.replicas_key) if key)
        memory = (one.key for one in self.memory_keys)
        return (*self.naming_keys, *memory, *optional, *self.card_keys, *self.share_labels, *self.slice_labels)

    def is_share(self, resource: str) -> bool:
        """Whether this resource of the vendor is a share of a device by its very name (`nvidia.com/mig-3g.20gb`)."""
        whole = self.slices is not None and resource == self.slices.driver
        return not whole and not _matches(resource, self.resources)

    def names_share(self, product: str) -> bool:
        """Whether a product label tells of devices that several share ("NVIDIA-L4-SHARED")."""
        return _matches(product, self.share_products)

    def names_slice(self, product: str) -> bool:
        """Whether a product label tells of slices with memory of their own ("…-MIG-1g.5gb")."""
        return _matches(product, self.slice_products)

    def names_nothing(self, product: str) -> bool:
        """Whether a product label tells of no model at all: it is missing or in a half-set state."""
        return not product or _matches(product, self.invalid_products)

    def sharing_label(self, labels: Mapping[str, str]) -> str:
        """The first label that says that each device is shared by several; empty where none does."""
        return _saying(labels, self.share_labels)

    def slicing_label(self, labels: Mapping[str, str]) -> str:
        """The first label that says that devices are cut into slices; empty where none does."""
        return _saying(labels, self.slice_labels)

    def product_of_machine(self, labels: Mapping[str, str]) -> str:
        """The product that machines of the node's type have; empty where that is not known."""
        types = (labels[key] for key in INSTANCE_TYPE_KEYS if key in labels)
        return next((product for one in types if (product := self._of_type(one))), "")

    def _of_type(self, machine: str) -> str:
        return next((product for one, product in self.instance_types.items() if fnmatchcase(machine, one)), "")


INSTANCE_TYPE_KEYS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with the sources that give it, and what others say. No value: sources disagree and none is better."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    value: _Positive | None = None
    source: tuple[str, ...] = ()
    disagree: dict[str, _Positive] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.value is None) == bool(self.source):
            raise ValueError("a value needs a source, and a source a value")
        if self.value is None and len(self.disagree) < 2:
            raise ValueError("neither a value nor two sources that disagree")


@dataclass(frozen=True, slots=True)
class Fact:
    """A text with its sources."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    value: str
    source: Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Product:
    """One product. `source` says where its spelling was seen, `aliases` gives other whole spellings, each with its
    source. `memory` is MiB as the driver reports them, `bf16` and `fp16` dense TFLOPS, `bandwidth` GB/s of device
    memory; None where no source is sure. A `display` card is never a target for a job; `unified` memory is the host's.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    product: str
    source: Annotated[tuple[str, ...], Field(min_length=1)]
    vendor: str = ""
    aliases: dict[str, str] = field(default_factory=dict)
    short_name: str = ""
    memory: Annotated[Figure | None, Field(alias="memoryMib")] = None
    bf16: Annotated[Figure | None, Field(alias="bf16Tflops")] = None
    fp16: Annotated[Figure | None, Field(alias="fp16Tflops")] = None
    bandwidth: Annotated[Figure | None, Field(alias="bandwidthGbps")] = None
    interconnect: Fact | None = None
    display: bool = False
    unified: bool = False

    @property
    def memory_mib(self) -> int | None:
        """What the driver reports."""
        value = _value(self.memory)
        return None if value is None else int(value)

    @property
    def bf16_tflops(self) -> float | None:
        """Dense BF16."""
        return _value(self.bf16)

    @property
    def bandwidth_gbps(self) -> float | None:
        """Memory bandwidth in gigabytes a second."""
        return _value(self.bandwidth)

    @property
    def figures(self) -> dict[str, Figure]:
        """The numbers there are, by their name in the file."""
        named = {
            "memoryMib": self.memory,
            "bf16Tflops": self.bf16,
            "fp16Tflops": self.fp16,
            "bandwidthGbps": self.bandwidth,
        }
        return {name: figure for name, figure in named.items() if figure is not None}


class Accelerators:
    """The catalog, with its look-ups; nothing changes it. `product_keys` are the label keys of all vendors and clouds
    that name a product, machine types aside; `sources` says what the names of sources stand for."""

    def __init__(
        self, vendors: tuple[Vendor, ...], products: tuple[Product, ...], sources: Mapping[str, str] | None = None
    ) -> None:
        self.vendors = vendors
        self.products = products
        self.sources = sources or {}
        self.product_keys = frozenset(key for one in vendors for key in (*one.product_keys, *one.cloud_keys))
        self.registers = {key: vendor for vendor in vendors for key in vendor.registers}
        self.fractions = frozenset(name for vendor in vendors for name in vendor.fraction_resources)
        self.drivers = {vendor.slices.driver: vendor for vendor in vendors if vendor.slices}
        self._by_resource = {name: vendor for vendor in vendors for name in vendor.resources + vendor.share_resources}
        # What pods ask for through claims: a driver names the device class of whole devices after itself.
        self._by_resource |= self.drivers
        self._by_prefix = {
            name.removesuffix("*"): vendor for name, vendor in self._by_resource.items() if name.endswith("*")
        }
        self._prefixes = tuple(self._by_prefix)
        self._prefix = _words((word for vendor in vendors for word in vendor.prefixes), r"\A(?:{})+")
        self._suffix = _words((word for vendor in vendors for word in vendor.suffixes), r"(?:{})+\Z")
        self._by_name = {self._bare(one.product).casefold(): one for one in products}
        self._by_alias = {alias.casefold(): one for one in products for alias in one.aliases}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Accelerators):
            return NotImplemented
        return (self.vendors, self.products) == (other.vendors, other.products)

    __hash__ = None  # type: ignore[assignment]  # equal by content

    def with_products(self, products: Iterable[Product]) -> "Accelerators":
        """The catalog with these products added. One that is known is overridden, field by field."""
        known = {self.canonical(one.product): one for one in self.products}
        for one in products:
            before = known.get(self.canonical(one.product))
            known[self.canonical(one.product)] = _over(before, one) if before else one
        return Accelerators(self.vendors, tuple(known.values()), self.sources)

    def vendor_of(self, resource: str) -> Vendor | None:
        """The vendor whose devices, or shares of devices, pods ask for by this resource name."""
        vendor = self._by_resource.get(resource)
        if vendor is None and resource.startswith(self._prefixes):
            return next(vendor for prefix, vendor in self._by_prefix.items() if resource.startswith(prefix))
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
    products = (replace(one, vendor=vendor) for vendor, ones in read.products.items() for one in ones)
    return Accelerators(read.vendors, tuple(products), read.sources)


@lru_cache(maxsize=1024)
def canonical(name: str) -> str:
    """`Accelerators.canonical` of the catalog that comes with the package, remembered: few products are asked for again
    and again."""
    return accelerators().canonical(name)


@lru_cache(maxsize=1024)
def short_name(name: str) -> str:
    """`Accelerators.short_name` likewise."""
    return accelerators().short_name(name)


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    vendors: tuple[Vendor, ...]
    products: dict[str, tuple[Product, ...]]
    sources: dict[str, str]

    def __post_init__(self) -> None:
        strange = self.products.keys() - {vendor.name for vendor in self.vendors}
        if strange:
            raise ValueError(f"products of no vendor here: {sorted(strange)}")
        for one in (product for products in self.products.values() for product in products):
            unknown = _named(one) - self.sources.keys()
            if unknown:
                raise ValueError(f"{one.product}: `sources` has no {sorted(unknown)}")


def _named(product: Product) -> set[str]:
    """The sources that a product names."""
    named = {*product.source, *product.aliases.values()}
    for figure in product.figures.values():
        named |= {*figure.source, *figure.disagree}
    return named | {*(product.interconnect.source if product.interconnect else ())}


def _over(before: Product, after: Product) -> Product:
    return replace(
        before,
        source=after.source,
        aliases=before.aliases | after.aliases,
        memory=after.memory or before.memory,
        bf16=after.bf16 or before.bf16,
        bandwidth=after.bandwidth or before.bandwidth,
    )


def _value(figure: Figure | None) -> float | None:
    return figure.value if figure else None


def _saying(labels: Mapping[str, str], telling: Mapping[str, Iterable[str]]) -> str:
    return next((key for key, patterns in telling.items() if key in labels and _matches(labels[key], patterns)), "")


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _words(words: Iterable[str], pattern: str) -> re.Pattern[str]:
    choices = "|".join(re.escape(word).replace(r"\*", ".*") for word in words)
    return re.compile(pattern.format(choices), re.IGNORECASE | re.DOTALL)
