"""The control plane of tests/cluster."""

from tests.cluster.conftest import account, control_plane, namespace, team

__all__ = ["account", "control_plane", "namespace", "team"]
