"""One real control plane a session, and a namespace and a fleet for each test that asks."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from controlplane.build import GoUnavailableError, build_all
from controlplane.nodes import demo_fleet as demo_nodes
from controlplane.rig import ControlPlane


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Without nodes, with the PyTorchJob kind. Building it the first time takes minutes, and says so."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        missing = _build()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    if missing:
        pytest.skip(missing)
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        running.install_crds("pytorchjobs.yaml")
        yield running


def _build() -> str:
    """Why the control plane cannot be built; empty where it is."""
    try:
        build_all()
    except GoUnavailableError as error:
        return f"tests/cluster was not run: {error}"
    return ""


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"test-{uuid4().hex[:8]}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def demo_fleet(control_plane: ControlPlane) -> Iterator[None]:
    """Two nodes of RTX 5090 and two of RTX PRO 6000 Blackwell, four GPUs each, and no other nodes."""
    control_plane.add_nodes(demo_nodes())
    yield
    control_plane.remove_nodes()
