"""A cluster of kind that `make kind-up` has made."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in here:
        item.add_marker("kind")
    if "kind" not in config.option.markexpr:
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]
