"""What a snapshot keeps of a node beside the node itself: what only the past, or another object, could tell."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from webhook.fleet.listed import together
from webhook.model.fleet import Listed, Node
from webhook.model.frozen import frozen

ANNOTATION = "samestep.dev/seen"
"""Written by `samestep fleet --snapshot`, for whoever reads the snapshot."""


@frozen
class Remembered:
    """The fields of `Node` of these names."""

    listed: tuple[Listed, ...] = ()
    last_product: str = ""
    last_memory_mib: int | None = None
    second_product: str = ""


def remembered(node: Node) -> str:
    """The text of the annotation; empty where there is nothing to keep."""
    kept = {
        "devices": [asdict(one) for one in node.listed],
        "last_product": node.last_product,
        "last_memory_mib": node.last_memory_mib,
        "second_product": node.second_product,
    }
    written = {key: value for key, value in kept.items() if value}
    return json.dumps(written) if written else ""


def read_remembered(text: object) -> Remembered:
    """What the annotation says; nothing where it cannot be read."""
    try:
        read = orjson.loads(text) if isinstance(text, str) else None
    except ValueError:
        return Remembered()
    if not isinstance(read, Mapping):
        return Remembered()
    devices = read.get("devices")
    return Remembered(
        together(_listed(one) for one in (devices if isinstance(devices, list) else ()) if isinstance(one, Mapping)),
        _text(read.get("last_product")),
        _number(read.get("last_memory_mib")),
        _text(read.get("second_product")),
    )


def _listed(raw: Mapping[str, Any]) -> Listed:
    memory, count, shares = (_number(raw.get(key)) for key in ("memory_mib", "count", "shares"))
    return Listed(_text(raw.get("vendor")), _text(raw.get("product")), memory, count or 1, shares or 1)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
