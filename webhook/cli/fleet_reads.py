"""The fleet of files or of a live cluster, with the catalog by which it was read."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from webhook.catalog.additions import by_age
from webhook.cli.documents import Document, Unreadable, parse_all
from webhook.cli.live import ACCELERATORS, Collection, list_live
from webhook.fleet.allocated import read_claim
from webhook.fleet.build import Used
from webhook.fleet.pods import Usage
from webhook.fleet.read import FleetRead, read_fleet
from webhook.intake.pods import PodError, read_pod

_NODES = Collection("/api/v1/nodes")
_SLICES = Collection("/apis/resource.k8s.io/v1/resourceslices", optional=True)
_CLAIMS = Collection("/apis/resource.k8s.io/v1/resourceclaims", optional=True)
_PODS = Collection("/api/v1/pods", optional=True)


def read_files(
    files: Iterable[Path], labels: tuple[str, ...] = (), ours: Sequence[Document] = ()
) -> tuple[FleetRead, list[Unreadable]]:
    """The fleet of files, and what of them is no Kubernetes object. `labels` are a policy's modelLabels, `ours` the
    Accelerators that stand beside it."""
    parsed, problems = parse_all(files)
    documents = [(one.source, one.object) for one in (*ours, *parsed)]
    pods, claims = ([obj for _, obj in documents if obj["kind"] == kind] for kind in ("Pod", "ResourceClaim"))
    read = read_fleet(documents, model_labels=labels, used=_used(pods, claims) if pods else None)
    return read, problems


def read_live(
    kubeconfig: Path | None, context: str | None, labels: tuple[str, ...] = (), ours: Sequence[Document] = ()
) -> FleetRead:
    """The fleet of a cluster as it is now; a file goes before an object of the same name. Raises ClusterError."""
    found = list_live(kubeconfig, context, (_NODES, _SLICES, _CLAIMS, _PODS, ACCELERATORS))
    pods, accelerators = found[_PODS], by_age(found[ACCELERATORS] or ())
    objects = [("", one) for one in (*(found[_NODES] or ()), *(found[_SLICES] or ()))]
    names = {one.object["metadata"]["name"] for one in ours}
    objects += [(one.source, one.object) for one in ours]
    objects += [(f"Accelerator {name}", one) for one in accelerators if (name := one["metadata"]["name"]) not in names]
    return read_fleet(objects, model_labels=labels, used=None if pods is None else _used(pods, found[_CLAIMS] or ()))


def _used(pods: Iterable[dict[str, Any]], claims: Iterable[dict[str, Any]]) -> Used:
    usage = Usage(held for obj in claims if (held := read_claim(obj)) is not None)
    for obj in pods:
        # A pod whose requests cannot be read is none that an API server has taken.
        with suppress(PodError):
            usage.change(None, read_pod(obj))
    return usage.used
