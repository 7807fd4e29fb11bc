"""Kubernetes documents out of files: YAML or JSON, any number a file, Lists taken apart."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.catalog.strict_yaml import YamlError, items_of, load_all
from webhook.cli.templates import placeholder_in

STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class Document:
    """One object; `source` says where it is from: "jobs.yaml#1", or "jobs.yaml#0.items[2]" inside a List."""

    source: str
    object: dict[str, Any]


class Unreadable(Exception):
    """Something in a file that is no Kubernetes object. `field` is where in the document, or empty."""

    def __init__(self, source: str, message: str, field: str = "") -> None:
        super().__init__(f"{source}: {f'{field}: ' if field else ''}{message}")
        self.source = source
        self.field = field
        self.message = message


def parse_all(paths: Iterable[Path]) -> tuple[list[Document], list[Unreadable]]:
    """The documents of several files, and what of them could not be read."""
    found = [one for path in paths for one in parse_documents(path)]
    return [one for one in found if isinstance(one, Document)], [one for one in found if isinstance(one, Unreadable)]


def parse_documents(path: Path) -> Iterator[Document | Unreadable]:
    """The documents of one file ("-": standard input), each readable one beside what could not be read. Never raises.

    A syntax error ends its file: what comes after it has no known beginning.
    """
    name = "stdin" if path == STDIN else path.name
    try:
        # Text from standard input would hide bytes that are no UTF-8 (PEP 538, 540).
        text = sys.stdin.buffer.read().decode("utf-8") if path == STDIN else path.read_text("utf-8")
    except OSError as error:
        yield Unreadable(name, error.strerror or "cannot be read")
        return
    except UnicodeDecodeError as error:
        yield Unreadable(name, f"not UTF-8 text (byte {error.start})")
        return
    index = 0
    try:
        for loaded in load_all(text):
            if loaded is not None:
                yield from _objects(f"{name}#{index}", loaded)
            index += 1
    except YamlError as error:
        yield Unreadable(f"{name}#{index}", str(error))


def _objects(source: str, loaded: object) -> Iterator[Document | Unreadable]:
    if not isinstance(loaded, dict):
        yield Unreadable(source, f"expected a Kubernetes object, got {_named(loaded)}")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(loaded.get(field), str) or not loaded[field]:
            yield Unreadable(source, f"expected a string, got {_named(loaded.get(field))}", field)
            return
    items = loaded.get("items")
    if loaded["kind"] == "List" and not isinstance(items, list):
        if items is not None:
            yield Unreadable(source, f"expected a list, got {_named(items)}", "items")
        return
    if (held := items_of(loaded)) is not None:
        for index, item in enumerate(held):
            yield from _objects(f"{source}.items[{index}]", item)
        return
    if found := placeholder_in(loaded):
        field, message = found
        yield Unreadable(source, message, field)
        return
    yield Document(source, loaded)


def _named(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{value[:40]}"'
    return {dict: "an object", list: "a list", bool: "a boolean"}.get(type(value), "a number")
