"""All texts that people read, one file per language with the same keys."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def texts(language: str = "en") -> dict[str, Any]:
    """The texts of one language, as nested maps of format strings."""
    loaded: dict[str, Any] = yaml.safe_load(files(__name__).joinpath(f"{language}.yaml").read_text("utf-8"))
    return loaded
