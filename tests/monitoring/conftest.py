"""The control plane of tests/cluster, beside which a Prometheus runs that is built from its module."""

from pathlib import Path

import pytest

from tests.cluster.conftest import account, built, control_plane, demo_fleet, namespace, seed_fleet, team, webhook

__all__ = ["account", "built", "control_plane", "demo_fleet", "namespace", "seed_fleet", "team", "webhook"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("cluster")
