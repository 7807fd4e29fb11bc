"""What a submitter reads where a code is found, one file per language: rendered from real cases by `make docs`."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import yaml

from webhook.model.policy import Language


@cache
def examples(language: Language = Language.EN) -> Mapping[str, str]:
    """By code; a code that nobody reads in an answer has none."""
    loaded: dict[str, str] = yaml.safe_load(files(__name__).joinpath(f"{language}.yaml").read_text("utf-8"))
    return loaded
