"""Offline, a world is made of files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from webhook.answer.wording import own_sentence
from webhook.cli.documents import Document, Unreadable, parse_all
from webhook.evidence.index import index_of
from webhook.fleet.allocated import read_claim
from webhook.fleet.growth import autoscaler_growth, node_pool_growth
from webhook.fleet.pods import Usage
from webhook.fleet.queues import read_queues
from webhook.fleet.read import read_fleet
from webhook.intake.pods import PodError, read_pod
from webhook.model.fleet import Fleet
from webhook.model.pods import Pod
from webhook.model.profile import Profile, Profiles
from webhook.model.queues import Queues
from webhook.model.request import Kind
from webhook.model.rules import Namespaces
from webhook.model.surroundings import Surroundings, reference_of
from webhook.policy.training_profile import ProfileError, read_profile

_PROFILE = "TrainingProfile"
LOOKED_UP = frozenset(
    {
        "Accelerator",
        "ClusterQueue",
        "Cohort",
        "ConfigMap",
        "CustomResourceDefinition",
        "LocalQueue",
        "Namespace",
        "Node",
        "NodePool",
        "Queue",
        "ResourceClaimTemplate",
        "ResourceFlavor",
        "ResourceSlice",
        _PROFILE,
    }
)
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


@dataclass(frozen=True, slots=True)
class Offline:
    """What files tell of a cluster, and what of them could not be read."""

    fleet: Fleet
    usage: Usage
    queues: Queues
    problems: list[Unreadable]
    namespaces: Namespaces
    profiles: Profiles


def fleet_from(
    paths: Iterable[Path], also: Iterable[Document] = (), *, model_labels: tuple[str, ...] = ()
) -> tuple[Fleet, list[Unreadable]]:
    """The fleet of the documents in these files and of `also`, and what could not be read."""
    found = offline(paths, also, model_labels=model_labels)
    return found.fleet, found.problems


def offline(paths: Iterable[Path], also: Iterable[Document] = (), *, model_labels: tuple[str, ...] = ()) -> Offline:
    """What the documents in these files, and `also`, tell of a cluster.

    Nodes make the fleet; one that comes twice counts as its last one (snapshots may overlap). Where Pods are among
    them, what they ask for is in use on their nodes, and what ResourceClaims hold; where there are none, what is free
    is not known. Flavors and queues tell where jobs in a queue may land, NodePools and the status of the cluster
    autoscaler whether nodes may be added, Namespaces which policies match, and TrainingProfiles what earlier runs
    took. Other documents are left alone.
    """
    parsed, problems = parse_all(paths)
    documents = [*parsed, *also]
    pods = list[Pod]()
    seen = False
    for one in documents:
        if (one.object["apiVersion"], one.object["kind"]) == ("v1", "Pod"):
            seen = True
            try:
                pod = read_pod(one.object)
            except PodError as error:
                problems.append(Unreadable(one.source, own_sentence(error.finding)))
                continue
            pods += [pod] if pod is not None else []
        elif one.object["kind"] == "ResourceClaim":
            claim = read_claim(one.object)
            pods += [claim] if claim is not None else []
    usage = Usage({pod.uid: pod for pod in pods}.values())
    read = read_fleet(
        ((one.source, one.object) for one in documents),
        used=usage.used if seen else None,
        model_labels=model_labels,
        grows=growth(one.object for one in documents),
    )
    queues = read_queues((one.source, one.object) for one in documents)
    problems += [Unreadable(place, fault) for place, fault in (*read.faults, *queues.faults)]
    profiles, faults = profiles_of(documents)
    problems += faults
    return Offline(read.fleet, usage, queues.queues, problems, namespaces_of(one.object for one in documents), profiles)


def profiles_of(documents: Iterable[Document]) -> tuple[Profiles, list[Unreadable]]:
    """The TrainingProfiles among these documents, in the namespace "default" where they name none, and what of them
    cannot be read. How old they are is for those to judge who know what time it is."""
    found, problems = list[Profile](), list[Unreadable]()
    for one in documents:
        if one.object["kind"] == _PROFILE and one.object["apiVersion"].startswith("samestep.dev/"):
            try:
                found.append(read_profile(_in_a_namespace(one.object)))
            except ProfileError as error:
                problems.append(Unreadable(one.source, str(error)))
    return index_of(found), problems


def _in_a_namespace(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    return obj | {"metadata": {"namespace": "default", **metadata}} if isinstance(metadata, dict) else obj


def namespaces_of(objects: Iterable[dict[str, Any]]) -> Namespaces:
    """The labels of the Namespaces among these objects."""
    found: dict[str, dict[str, str]] = {}
    for one in objects:
        match one:
            case {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": str(name), **metadata}}:
                labels = metadata.get("labels")
                known = labels.items() if isinstance(labels, dict) else ()
                found[name] = {key: value for key, value in known if isinstance(key, str) and isinstance(value, str)}
    return found


def growth(objects: Iterable[dict[str, Any]]) -> str:
    """What of these objects may add nodes, in a few words."""
    pools, status = [], []
    for one in objects:
        if one["kind"] == "NodePool" and one["apiVersion"].startswith("karpenter.sh/"):
            pools.append(one)
        elif one["kind"] == "ConfigMap" and _name(one) == "cluster-autoscaler-status":
            status.append(one)
    return "; ".join(filter(None, (node_pool_growth(pools), autoscaler_growth(status))))


def _name(obj: dict[str, Any]) -> object:
    metadata = obj.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None
