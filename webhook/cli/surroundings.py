"""Offline, a world is made of files."""

from collections.abc import Iterable
from pathlib import Path

from webhook.cli.documents import Document, Unreadable, parse_documents
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import NodeError, read_node
from webhook.model.fleet import Fleet, Node

LOOKED_UP = frozenset({"Node", "Namespace", "ResourceFlavor", "ClusterQueue", "LocalQueue", "CustomResourceDefinition"})
"""Kinds that a decision only looks up: they serve as surroundings and are no job of their own."""


def fleet_from(paths: Iterable[Path], also: Iterable[Document] = ()) -> tuple[Fleet, list[Unreadable]]:
    """The fleet of the Node documents in these files and of `also`, and what could not be read. Documents of other
    kinds are left alone. A node that comes twice counts as its last one (snapshots may overlap)."""
    nodes: dict[str, Node] = {}
    problems: list[Unreadable] = []
    found = [*(one for path in paths for one in parse_documents(path)), *also]
    for one in found:
        if isinstance(one, Unreadable):
            problems.append(one)
        elif one.object["kind"] == "Node":
            try:
                node = read_node(one.object)
            except NodeError as error:
                problems.append(Unreadable(one.source, str(error)))
                continue
            if node is not None:
                nodes[node.name] = node
    return build_fleet(nodes.values()), problems
