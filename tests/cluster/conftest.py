"""One real control plane a session, and a namespace and a fleet for each test that asks."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from controlplane.build import GoUnavailableError, build_all
from controlplane.nodes import demo_fleet as demo_nodes
from controlplane.rig import ControlPlane
from demo.serving import ACCOUNT, HANDLERS, MANIFESTS, Webhook, register, start_webhook, unregister
from tests.cluster.team import Team

# asyncio of 3.11 forgets a TLS connection whose making is cancelled before its handshake begins, as those of a follower
# that is stopped as soon as it has started. The collector closes it, in the middle of whatever test runs then.
_FORGOTTEN = pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("cluster")
            item.add_marker(_FORGOTTEN)


@pytest.fixture(scope="session")
def built(pytestconfig: pytest.Config) -> None:
    """The programs of a control plane are there. Building them the first time takes minutes, and says so."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        missing = _build()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory, built: None) -> Iterator[ControlPlane]:
    """Without nodes, with the PyTorchJob kind."""
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


@pytest.fixture
def team(control_plane: ControlPlane, namespace: str) -> Team:
    """A namespace with someone who submits jobs to it."""
    return Team(control_plane, namespace)


@pytest.fixture(scope="session")
def account(control_plane: ControlPlane) -> Path:
    """A kubeconfig of the webhook's own account, with the rights of manifests/base/rbac.yaml and no others."""
    control_plane.kubectl("apply", *(f"--filename={MANIFESTS / name}.yaml" for name in ("namespace", "rbac")))
    return control_plane.kubeconfig_for(ACCOUNT)


@contextmanager
def serving(
    control_plane: ControlPlane, folder: Path, *options: str, kinds: Collection[str] = tuple(HANDLERS)
) -> Iterator[Webhook]:
    """`samestep serve OPTION…` behind our webhook configurations, or those of them that are of these kinds."""
    running = start_webhook(control_plane.processes, folder, *options)
    try:
        register(control_plane, running, kinds)
        yield running
        unregister(control_plane, running)
    finally:
        control_plane.processes.stop("samestep", grace_s=5)


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane, account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """The webhook, following the cluster, for the tests of one module."""
    with serving(control_plane, tmp_path_factory.mktemp("samestep"), f"--kubeconfig={account}") as running:
        yield running


@pytest.fixture(scope="module")
def seed_fleet(control_plane: ControlPlane, webhook: Webhook) -> Iterator[None]:
    """The nodes of `demo_fleet`, seen by the webhook too, for the tests of one module."""
    control_plane.add_nodes(demo_nodes())
    await_fleet(control_plane, webhook, {"RTX-5090": 2, "RTX-PRO-6000-Blackwell-Server": 2})
    yield
    control_plane.remove_nodes()


def await_fleet(control_plane: ControlPlane, webhook: Webhook, nodes: dict[str, int]) -> None:
    """Waits until the webhook sees so many nodes of each model, and no others."""
    wanted = {f'samestep_fleet_nodes{{model="{model}"}}': float(count) for model, count in nodes.items()}

    def seen() -> bool:
        found = {sample: count for sample, count in webhook.metrics().items() if "samestep_fleet_nodes" in sample}
        return {sample: count for sample, count in found.items() if count} == wanted

    control_plane.processes.wait("samestep", seen)
