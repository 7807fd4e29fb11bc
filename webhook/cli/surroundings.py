"""Offline, a world is made of files."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from webhook.cli.documents import Document, Unreadable, parse_documents
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import NodeError, read_node
from webhook.model.fleet import Fleet, Node
from webhook.model.request import Kind
from webhook.model.surroundings import Surroundings, reference_of

LOOKED_UP = frozenset({"Node", "Namespace", "ResourceFlavor", "ClusterQueue", "LocalQueue", "CustomResourceDefinition"})
"""Kinds that a decision only looks up: they serve as surroundings and are no job of their own."""

_REFERRED_TO: Mapping[Kind, str] = MappingProxyType(
    {
        Kind("", "", "ConfigMap"): "default",
        Kind("apiextensions.k8s.io", "", "CustomResourceDefinition"): "",
        Kind("resource.k8s.io", "", "ResourceClaimTemplate"): "default",
        Kind("trainer.kubeflow.org", "", "ClusterTrainingRuntime"): "",
        Kind("trainer.kubeflow.org", "", "TrainingRuntime"): "default",
    }
)
"""Kinds that jobs refer to, each with the namespace of an object that names none."""


def surroundings_from(documents: Iterable[Document]) -> Surroundings:
    """Those of the documents that jobs may refer to; of two of the same name the last."""
    found = {}
    for one in documents:
        reference = reference_of(one.object)
        if reference is None or (namespace := _REFERRED_TO.get(reference.kind)) is None:
            continue
        found[replace(reference, namespace=(reference.namespace or namespace) if namespace else "")] = one.object
    return found


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
