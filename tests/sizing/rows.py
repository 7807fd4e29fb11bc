"""Published peaks as training runs: what a row of the table says, and what its source says of the program."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from webhook.catalog.accelerators import accelerators
from webhook.catalog.models import models
from webhook.catalog.sizing import sizing
from webhook.model.policy import Policy
from webhook.sizing.estimate import Estimate, estimate
from webhook.sizing.training import (
    Attention,
    Checkpointing,
    Loss,
    Method,
    Offload,
    Optimizer,
    Parallel,
    Precision,
    Target,
    Training,
)

HERE = Path(__file__).parent
_UNITS = {"GB": 1e9 / 2**20, "GiB": 1024, "MiB": 1}
_RANKS = re.compile(r"(FSDP|ZeRO3|TP|PP|CP) (\d+)")
_ACCUMULATION = re.compile(r"gradient accumulation (\d+)")
_ENUMS = {
    "precision": Precision,
    "optimizer": Optimizer,
    "parallel": Parallel,
    "checkpointing": Checkpointing,
    "attention": Attention,
    "offload": Offload,
    "loss": Loss,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure. `measured_mib` None: it ran out of memory; `training` None: the batch is not stated."""

    id: str
    source: str
    published: str
    measured_mib: float | None
    usable_mib: float
    figure: str
    training: Training | None

    @property
    def estimate(self) -> Estimate:
        assert self.training is not None
        return estimate(self.training)

    @property
    def interval(self) -> tuple[float, float, float]:
        """Low, likely and high of what this kind of figure counts."""
        return self.estimate.without(self.leaves_out)

    @property
    def leaves_out(self) -> tuple[str, ...]:
        """Parts of the memory that this kind of figure does not count."""
        return next(figure.leaves_out for name, figure in sizing().figures.items() if name == self.figure)


def rows(name: str) -> tuple[Row, ...]:
    """The rows of one table beside this module."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return tuple(_row(record) for record in csv.DictReader(file))


@cache
def _recipes() -> Mapping[str, Any]:
    read: Mapping[str, Any] = yaml.safe_load((HERE / "recipes.yaml").read_text("utf-8"))
    return read


def _row(record: Mapping[str, str]) -> Row:
    recipe = _recipes()[record["source"]]
    unit = recipe.get("unit", record["unit"])
    ran = record["measured"] != "OOM"
    product = accelerators().product(_recipes()["devices"][record["device"]])
    assert product is not None
    assert product.memory_mib is not None
    return Row(
        id=record["id"],
        source=record["source"],
        published=f"{record['measured']} {unit}" if ran else "OOM",
        measured_mib=float(record["measured"]) * _UNITS[unit] if ran else None,
        usable_mib=product.memory_mib - Policy().reserve_mib,
        figure=recipe["figure"],
        training=_training(record, recipe) if record["micro_batch"] and record["seq_len"] else None,
    )


def _training(record: Mapping[str, str], recipe: Mapping[str, Any]) -> Training:
    words = record["method"]
    method = Method.QLORA if "QLoRA" in words else Method.LORA if "LoRA" in words else Method.FULL
    said: dict[str, Any] = {**recipe["training"]}
    if method is not Method.FULL:
        said |= recipe.get("lora", {})
    said |= recipe.get(method.value, {}) if method is not Method.LORA else {}
    for word, meaning in _recipes()["words"].items():
        if word in words:
            said |= meaning
    if record["notes"] == "bf16 weights and optimizer states":
        said |= recipe.get("ladder", {}).get(words, {})
    said |= _parallel(record["parallel"], said)
    if found := _ACCUMULATION.search(record["notes"]):
        said["accumulation"] = int(found[1])
    model = models().find(record["model"])
    assert model is not None, record["model"]
    return Training(
        model=model,
        micro_batch=int(record["micro_batch"]),
        seq_len=int(record["seq_len"]),
        method=method,
        **dict(_typed(said)),
    )


def _parallel(text: str, said: Mapping[str, Any]) -> dict[str, Any]:
    ranks = {name: int(number) for name, number in _RANKS.findall(text)}
    if not ranks:
        return {}
    split = {"tensor_parallel": ranks.get("TP", 1), "pipeline_parallel": ranks.get("PP", 1)}
    split["context_parallel"] = ranks.get("CP", 1)
    shards = ranks.get("FSDP") or ranks.get("ZeRO3") or 1
    parallel = "zero3" if "ZeRO3" in ranks else "fsdp"
    world = shards * split["tensor_parallel"] * split["pipeline_parallel"] * split["context_parallel"]
    return {**split, "parallel": parallel, "world_size": world}


def _typed(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in said.items():
        if name == "adapter_targets":
            yield name, frozenset(map(Target, value))
        else:
            yield name, _ENUMS[name](value) if name in _ENUMS else value
