"""Placeholders that somebody meant to fill in first, in a manifest that is valid YAML."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.catalog.templates import not_rendered, placeholder
from webhook.model.paths import dotted, printable
from webhook.model.placement import Pointer

# Names and images that nothing at run time fills in. Elsewhere only a value that is a placeholder and nothing else is
# taken for one.
_NEVER_EXPANDED = frozenset({"name", "namespace", "generateName", "image"})
# Programs, and other tools, have braces and dollars of their own here.
_THEIR_OWN = frozenset({"annotations", "data", "stringData", "managedFields", "status"})
_SCRIPTS = frozenset(
    {"command", "args", "env", "entrypoint", "rayStartParams", "runtimeEnvYAML", "subPathExpr", "source", "manifest"}
)
# Kinds whose controllers fill in placeholders themselves.
_FILL_IN = frozenset({"argoproj.io", "tekton.dev", "template.openshift.io"})
# Katib fills in its own, too; the others hold no pods, or come from an API server.
_NOT_LOOKED_AT = frozenset({"Experiment", "AdmissionReview", "ConfigMap", "Secret", "CustomResourceDefinition", "Node"})
_MOST = 50_000


def placeholder_in(obj: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first placeholder in a manifest that nothing in the cluster would fill in: its field, and what to say."""
    group = obj["apiVersion"].rpartition("/")[0]
    if obj["kind"] == "Kustomization" and group == "kustomize.config.k8s.io":
        return "", "a kustomization, not what it makes: run `kubectl kustomize` and check what it prints"
    if group in _FILL_IN or obj["kind"] in _NOT_LOOKED_AT:
        return None
    for at, value, script in _strings(obj):
        tool = placeholder(value, script=script, whole=at[-1] not in _NEVER_EXPANDED)
        if tool:
            return dotted(at), f'"{printable(value)}" is a placeholder of {not_rendered(tool)}'
    return None


def _strings(obj: Mapping[str, Any]) -> Iterator[tuple[Pointer, str, bool]]:
    """Every string with its place, in order, and whether it is part of a script; so many values and no more."""
    waiting: list[tuple[Pointer, object, bool]] = [((), obj, False)]
    for _ in range(_MOST):
        if not waiting:
            return
        at, value, script = waiting.pop()
        if isinstance(value, str):
            yield at, value, script
        elif isinstance(value, Mapping):
            waiting += [
                ((*at, key), child, script or key in _SCRIPTS)
                for key, child in reversed(list(value.items()))
                if key not in _THEIR_OWN
            ]
        elif isinstance(value, list):
            waiting += [((*at, index), child, script) for index, child in reversed(list(enumerate(value)))]
