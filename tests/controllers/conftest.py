"""The control plane of tests/cluster, with the controllers of the projects whose jobs we read."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controlplane.controllers import ControllerName, running
from controlplane.rig import ControlPlane
from tests.cluster.conftest import account, built, control_plane, namespace, seed_fleet, team, webhook

__all__ = ["account", "built", "control_plane", "namespace", "seed_fleet", "team", "webhook"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("cluster")


@pytest.fixture(scope="module")
def run_only(control_plane: ControlPlane) -> Iterator[Callable[[ControllerName | None], None]]:
    """Runs this controller, or none besides those of Kubernetes, until it is called with another one."""
    current: ControllerName | None = None
    with ExitStack() as stack:

        def run(name: ControllerName | None) -> None:
            nonlocal current
            if name != current:
                stack.close()
                current = name
                if name is not None:
                    stack.enter_context(running(control_plane, name))

        yield run
