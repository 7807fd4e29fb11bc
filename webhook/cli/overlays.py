"""The manifests of an installation, as `kubectl kustomize` puts them together.

Of kustomize only what the files in manifests/ use: resources, components, and JSON patches with a target. A field that
is not of these is an error, and a test holds every overlay to what kubectl makes of it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

Object = dict[str, Any]

# Installed, they lie in the package (pyproject.toml); in a checkout beside it.
_PLACES = (Path(__file__).parents[1] / "manifests", Path(__file__).parents[2] / "manifests")
_KNOWN = {"apiVersion", "kind", "resources", "components", "patches"}


def overlays() -> Mapping[str, Path]:
    """The folders of the overlays, by name."""
    here = next(place for place in _PLACES if place.is_dir())
    return {folder.name: folder for folder in sorted((here / "overlays").iterdir())}


def rendered(folder: Path) -> list[Object]:
    """The objects of this overlay, in the order in which they are to be applied."""
    return _built(folder, [])


def _built(folder: Path, before: list[Object]) -> list[Object]:
    """`before` is what a component finds."""
    told = yaml.load((folder / "kustomization.yaml").read_text("utf-8"), yaml.CSafeLoader)
    if unknown := told.keys() - _KNOWN:
        raise ValueError(f"{folder}/kustomization.yaml: {', '.join(sorted(unknown))} cannot be rendered")
    objects = [*before, *(one for name in told.get("resources", ()) for one in _resource(folder / name))]
    for name in told.get("components", ()):
        objects = _built(folder / name, objects)
    for patch in told.get("patches", ()):
        operations = yaml.load((folder / patch["path"]).read_text("utf-8"), yaml.CSafeLoader)
        objects = [_patched(one, operations) if _is_meant(one, patch["target"]) else one for one in objects]
    return objects


def _resource(path: Path) -> Iterator[Object]:
    if path.is_dir():
        yield from _built(path, [])
    else:
        yield from yaml.load_all(path.read_text("utf-8"), yaml.CSafeLoader)


def _is_meant(one: Object, target: Mapping[str, str]) -> bool:
    return (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])


def _patched(one: Object, operations: list[Object]) -> Object:
    patched: Object = jsonpatch.apply_patch(one, operations)
    return patched
