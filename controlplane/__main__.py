"""`build`, `build-monitoring`, `build-controllers` and `build-peers` fill the cache; `up` runs a control plane until
Ctrl-C."""

import argparse
import signal
import sys
from contextlib import suppress

from controlplane.build import MONITORING, ControlPlaneError, artifact, build, build_all
from controlplane.controllers import build_controllers
from controlplane.nodes import demo_fleet
from controlplane.peers import build_peers
from controlplane.rig import ControlPlane


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs that the cache lacks")
    commands.add_parser("build-monitoring", help="build Prometheus and promtool if the cache lacks them")
    commands.add_parser("build-controllers", help="build the controllers that the cache lacks")
    commands.add_parser("build-peers", help="build the engines to measure beside ours that the cache lacks")
    commands.add_parser("up", help="run a control plane with the demo fleet until Ctrl-C")
    command = parser.parse_args().command
    try:
        if command == "build":
            build_all()
        elif command == "build-monitoring":
            build(MONITORING)
        elif command == "build-controllers":
            build_controllers()
        elif command == "build-peers":
            build_peers()
        else:
            _up()
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _up() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), ControlPlane() as control_plane:
        control_plane.add_nodes(demo_fleet())
        control_plane.install_crds("pytorchjobs.yaml")
        print(f"export KUBECONFIG={control_plane.kubeconfig}")
        print(f"kubectl: {artifact('kubectl')}; Ctrl-C ends it", flush=True)
        signal.pause()


sys.exit(main())
