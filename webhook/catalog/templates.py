"""Text that somebody meant to fill in first: which tool's placeholders stand in it."""

import re

_SOME = "some template"
_DONE_BY = {
    "Helm": "run `helm template` and check what it prints",
    "Jinja": "render it and check the result",
    "Argo Workflows": "it is filled in when the workflow runs; check the Workflow itself, or what it creates",
    "Kustomize": "run `kubectl kustomize` and check what it prints",
    "envsubst": "run `envsubst` and check what it prints",
    _SOME: "render it and check the result",
}
# Lengths are bounded, so that a text of nothing but braces is looked at once and not once for each.
# Names that each tool gives to what it fills in: Helm's built-in objects and functions, Argo's variables.
_OWN = {
    "Helm": re.compile(
        r"\{\{-?(?:[^{}]{0,200}[\s(])?(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b|(?:include|tpl|toYaml)\s)"
    ),
    "Argo Workflows": re.compile(r"\{\{=?\s{0,9}(?:inputs|outputs|workflow|steps|tasks)\.[\w.-]{1,200}\s{0,9}\}\}"),
}
_BRACES = {
    **_OWN,
    "Helm (or another Go template)": re.compile(
        r"\{\{-|-\}\}|\{\{\s{0,9}\.|\{\{\s{0,9}(?:if|range|with|end|define|template)\b"
    ),
    "Jinja": re.compile(r"\{%-?\s"),
    _SOME: re.compile(r"\{\{[^{}]{1,200}\}\}"),
}
_DOLLARS = {
    "envsubst": re.compile(r"\$(?:\{[A-Za-z_]\w{0,99}(?::?-[^}]{0,200})?\}|[A-Z_][A-Z0-9_]*\b)"),
    "Kustomize": re.compile(r"\$\([A-Za-z_][\w.-]{0,99}\)"),
}


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


def placeholder(text: str, *, script: bool, whole: bool) -> str:
    """The tool whose placeholder stands in this value of a manifest; empty where none does. `script`: a program may
    have braces and dollars of its own there. `whole`: only a value that is a placeholder and nothing else is one,
    unless its name shows which tool's it is."""
    if "{" not in text and "$" not in text:
        return ""
    if script:
        return next((tool for tool, pattern in _OWN.items() if pattern.search(text)), "")
    for tool, pattern in (_BRACES | _DOLLARS).items():
        if pattern.fullmatch(text.strip()) if whole and tool not in _OWN else pattern.search(text):
            return tool
    return ""
