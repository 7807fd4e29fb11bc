"""The control plane of tests/cluster, with the controllers of the projects whose jobs we read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.controllers import running
from controlplane.rig import ControlPlane
from tests.cluster.conftest import account, control_plane, namespace, seed_fleet, team, webhook

__all__ = ["account", "control_plane", "namespace", "seed_fleet", "team", "webhook"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("cluster")


@pytest.fixture(scope="module")
def controller(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs the controller that the test is parametrized with; without one, those of Kubernetes."""
    with running(control_plane, *([request.param] if request.param else ())):
        yield
