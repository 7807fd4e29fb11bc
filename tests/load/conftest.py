"""The control plane of tests/cluster."""

from tests.cluster.conftest import account, built, control_plane, namespace, team

__all__ = ["account", "built", "control_plane", "namespace", "team"]
