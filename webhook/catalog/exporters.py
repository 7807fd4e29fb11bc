"""Exporters of device metrics: by which names and labels Prometheus knows the memory of devices (exporters.yaml)."""

from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_MIB_PER = {"B": 1 / (1 << 20), "KiB": 1 / (1 << 10), "MiB": 1.0, "GiB": 1024.0}
_Name = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")]
_Names = tuple[_Name, ...]


class Exporter(BaseModel):
    """The fields are explained where they are filled in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    used: Annotated[_Names, Field(min_length=1)]
    unit: Literal["B", "KiB", "MiB", "GiB"]
    pods: tuple[tuple[_Name, _Name], ...] = ()
    nodes: _Names = ()
    devices: Annotated[_Names, Field(min_length=1)]
    active: Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")] | None = None
    source: str

    @property
    def mib_per_unit(self) -> float:
        return _MIB_PER[self.unit]


@cache
def exporters() -> tuple[Exporter, ...]:
    """Those of the catalog. Raises pydantic's ValidationError on a bad file (a test)."""
    text = files("webhook.catalog").joinpath("exporters.yaml").read_text("utf-8")
    return TypeAdapter(tuple[Exporter, ...]).validate_python(yaml.safe_load(text))
