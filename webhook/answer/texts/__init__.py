"""All texts that people read, one file per language with the same keys and placeholders."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from webhook.model.policy import Language


@cache
def texts(language: Language = Language.EN) -> dict[str, Any]:
    """The texts of one language, as nested maps of format strings."""
    loaded: dict[str, Any] = yaml.safe_load(files(__name__).joinpath(f"{language}.yaml").read_text("utf-8"))
    return loaded
