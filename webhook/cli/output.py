"""Documents for programs, as every command prints them."""

import json
from typing import Any

import yaml


def dumped(document: Any, form: str) -> str:  # noqa: ANN401 - JSON
    """The document as "json" or "yaml", without a line end. What is no plain value (an enum) becomes one."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if form == "json":
        return text
    return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True).rstrip("\n")
