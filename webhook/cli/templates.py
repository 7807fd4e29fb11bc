"""Text that somebody meant to fill in first: which tool's placeholder it is, and where one stands in a manifest."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.paths import dotted, printable
from webhook.model.placement import Pointer

_SOME = "some template"
_DONE_BY = {
    "Helm": "run `helm template` and check what it prints",
    "Jinja": "render it and check the result",
    "Argo Workflows": "it is filled in when the workflow runs; check the Workflow itself, or what it creates",
    "Kustomize": "run `kubectl kustomize` and check what it prints",
    "envsubst": "run `envsubst` and check what it prints",
    _SOME: "render it and check the result",
}
# Names that each tool gives to what it fills in: Helm's built-in objects and functions, Argo's variables.
_OWN = {
    "Helm": re.compile(
        r"\{\{-?\s*(?:[^}]*[\s(])?(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b|(?:include|tpl|toYaml)\s)"
    ),
    "Argo Workflows": re.compile(r"\{\{=?\s*(?:inputs|outputs|workflow|steps|tasks)\.[\w.-]+\s*\}\}"),
}
_BRACES = {
    **_OWN,
    "Helm (or another Go template)": re.compile(
        r"\{\{-|-\}\}|\{\{\s*\.|\{\{\s*(?:if|range|with|end|define|template)\b"
    ),
    "Jinja": re.compile(r"\{%-?\s"),
    _SOME: re.compile(r"\{\{.*\}\}", re.DOTALL),
}
_DOLLARS = {
    "envsubst": re.compile(r"\$(?:\{[A-Za-z_]\w*(?::?-[^}]*)?\}|[A-Z_][A-Z0-9_]*\b)"),
    "Kustomize": re.compile(r"\$\([A-Za-z_][\w.-]*\)"),
}
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


def not_rendered(tool: str) -> str:
    """What to say of a placeholder of this tool."""
    way = next((way for name, way in _DONE_BY.items() if tool.startswith(name)), _DONE_BY[_SOME])
    named = "" if tool == _SOME else f" ({tool})"
    return f"a template that was not rendered{named}: {way}"


def braces_in(text: str, line: int) -> str:
    """The tool whose braces stand on this line (counted from 0) of a text that is no YAML, or right before it; empty
    where none do."""
    near = "\n".join(text.splitlines()[max(line - 1, 0) : line + 1])
    tool = _braces(near)
    return _braces(text) if tool == _SOME else tool


def _braces(text: str) -> str:
    return next((tool for tool, pattern in _BRACES.items() if pattern.search(text)), "")


def placeholder_in(obj: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first placeholder in a manifest that nothing in the cluster would fill in: its field, and what to say."""
    group = obj["apiVersion"].rpartition("/")[0]
    if obj["kind"] == "Kustomization" and group == "kustomize.config.k8s.io":
        return "", "a kustomization, not what it makes: run `kubectl kustomize` and check what it prints"
    if group in _FILL_IN or obj["kind"] in _NOT_LOOKED_AT:
        return None
    for at, value, script in _strings(obj):
        tool = _tool(value, str(at[-1]) if at else "", script=script)
        if tool:
            return dotted(at), f'"{printable(value)}" is a placeholder of {not_rendered(tool)}'
    return None


def _tool(value: str, key: str, *, script: bool) -> str:
    if "{" not in value and "$" not in value:
        return ""
    if script:
        return next((tool for tool, pattern in _OWN.items() if pattern.search(value)), "")
    for tool, pattern in (_BRACES | _DOLLARS).items():
        found = pattern.search(value) if key in _NEVER_EXPANDED or tool in _OWN else pattern.fullmatch(value.strip())
        if found:
            return tool
    return ""


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
