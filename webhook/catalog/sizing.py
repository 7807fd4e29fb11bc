"""What estimates rest on beside layer counts: constants as intervals, each with its source (sizing.yaml)."""

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

_CONFIG = ConfigDict(alias_generator=to_camel, extra="forbid")
_Amount = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Interval:
    """The leanest, the likely and the heaviest value, and where they are from; `ends` are the three of them, put
    together once, because an estimate is made inside a request."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    low: _Amount
    likely: _Amount
    high: _Amount
    source: Annotated[str, Field(min_length=1)]
    ends: tuple[float, float, float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", (self.low, self.likely, self.high))
        if not self.low <= self.likely <= self.high:
            raise ValueError(f"low, likely and high must rise, got {self.low}, {self.likely}, {self.high}")


@dataclass(frozen=True, slots=True)
class LogitBytes:
    """Bytes of one logit at the peak, by how cross entropy is computed."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    upcast: Interval
    half: Interval
    chunked: Interval
    fused: Interval


@dataclass(frozen=True, slots=True)
class Figure:
    """A kind of published figure, and which parts of the device's memory it leaves out."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    leaves_out: tuple[Literal["context", "fragmentation"], ...]
    source: str


@dataclass(frozen=True, slots=True)
class Sizing:
    """All of it; the comments of sizing.yaml say what each is."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    context_mib: Interval
    nccl_mib: Interval
    slack: Interval
    engine_slack: Interval
    activations: Interval
    logit_bytes: LogitBytes
    nf4_bytes: Interval
    adapter_rank: Interval
    adapter_input_bytes: Interval
    unpacked: Interval
    unknown_length: Interval
    bucket_elements: Interval
    live_elements: Interval
    sub_group_elements: Interval
    gathered_layers: Interval
    ddp_buckets: Interval
    step_scratch: Interval
    figures: dict[Literal["allocated", "reserved", "device"], Figure]


def read_sizing(text: str) -> Sizing:
    """The constants written in this YAML. Raises pydantic's ValidationError, naming the field."""
    return TypeAdapter(Sizing).validate_python(yaml.safe_load(text))


@cache
def sizing() -> Sizing:
    """The constants that come with the package."""
    return read_sizing(files(__package__).joinpath("sizing.yaml").read_text(encoding="utf-8"))
