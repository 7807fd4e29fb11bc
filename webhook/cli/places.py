"""Where in a YAML file a field stands."""

from collections.abc import Sequence
from typing import TypeAlias

import yaml

Path: TypeAlias = Sequence[str | int]
Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""

_START: Place = (1, 1)


class Places:
    """The places of one text that `load_all` reads. What is not there has the place of what it would stand in."""

    def __init__(self, text: str) -> None:
        self._documents = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))

    def of(self, document: int, path: Path) -> Place:
        """Of a key of a map, or an item of a list; `document` counts from 0, empty documents too."""
        node = self._documents[document] if document < len(self._documents) else None
        if node is None:
            return _START
        mark = node.start_mark
        for step in path:
            entry = _entry(node, step)
            if entry is None:
                break
            key, node = entry
            mark = key.start_mark
        return mark.line + 1, mark.column + 1


def _entry(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """What a step leads to, and where that begins: at its key, or with itself."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
