"""`python -m demo.cluster`: the webhook in front of a real API server and a real scheduler, before and after."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from controlplane.build import ControlPlaneError
from controlplane.nodes import demo_fleet
from controlplane.rig import ControlPlane
from demo.screen import Screen
from demo.serving import ACCOUNT, HANDLERS, ROOT, await_calls, start_webhook

NAMESPACE = "team-a"
_FITS, _FITS_NONE = "examples/1-pinned.yaml", "examples/3-fits-no-gpu.yaml"
_PRODUCT, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"


def main() -> int:
    os.chdir(ROOT)
    screen = Screen()
    try:
        with tempfile.TemporaryDirectory(prefix="samestep-demo-") as folder:
            screen.story(["A real API server and scheduler start, with nodes that only seem to have GPUs."])
            with ControlPlane(Path(folder)) as cluster:
                _demo(screen, cluster, Path(folder))
    except ControlPlaneError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _demo(screen: Screen, cluster: ControlPlane, folder: Path) -> None:
    cluster.install_crds("pytorchjobs.yaml")
    cluster.add_nodes(demo_fleet())
    cluster.create_namespace(NAMESPACE)
    _kubectl(screen, cluster, "get", "nodes", f"--label-columns={_PRODUCT}")

    screen.story(["Without the webhook. The scheduler takes the eight GPUs where it finds them:"])
    _kubectl(screen, cluster, "apply", "-f", _FITS)
    _show_pods(screen, cluster)
    _kubectl(screen, cluster, "delete", "--cascade=foreground", "-f", _FITS)

    screen.story(
        ["With the webhook, whose address here takes the place of the Service in manifests/base/webhooks.yaml:"]
    )
    _kubectl(screen, cluster, "apply", "-f", "manifests/base/namespace.yaml", "-f", "manifests/base/rbac.yaml")
    screen.command("samestep serve &")
    webhook = start_webhook(cluster.processes, folder, f"--kubeconfig={cluster.kubeconfig_for(ACCOUNT)}")
    _kubectl(screen, cluster, "apply", "-f", "-", stdin=yaml.safe_dump_all(webhook.configurations()))
    await_calls(cluster, webhook, set(HANDLERS.values()))
    _kubectl(screen, cluster, "apply", "-f", _FITS)
    _show_pods(screen, cluster)

    screen.story(["A batch that no GPU of the cluster holds:"])
    _kubectl(screen, cluster, "apply", "-f", _FITS_NONE)
    cluster.processes.stop("samestep", grace_s=5)


def _kubectl(screen: Screen, cluster: ControlPlane, *arguments: str, stdin: str | None = None) -> None:
    """Shows the command and what it prints, an error too."""
    screen.command(f"{'… | ' if stdin else ''}kubectl {' '.join(arguments)}")
    done = cluster.kubectl(*arguments, stdin=stdin, check=False)
    screen.output(done.stderr + done.stdout)


def _show_pods(screen: Screen, cluster: ControlPlane) -> None:
    """Waits until the job's workers run, and shows on which GPU each does."""
    job = yaml.safe_load(Path(_FITS).read_text("utf-8"))
    name, workers = job["metadata"]["name"], job["spec"]["parallelism"]
    cluster.kubectl(
        "wait",
        f"--namespace={NAMESPACE}",
        f"job/{name}",
        f"--for=jsonpath={{.status.ready}}={workers}",
        "--timeout=90s",
    )
    screen.table(("WORKER", "NODE", "GPU MODEL", "MEMORY"), _placed(cluster))


def _placed(cluster: ControlPlane) -> Iterator[tuple[str, ...]]:
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in cluster.api.get("/api/v1/nodes")["items"]}
    for pod in cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        node = pod["spec"]["nodeName"]
        memory_mib = int(nodes[node][_MEMORY])
        yield pod["metadata"]["name"], node, nodes[node][_PRODUCT], f"{memory_mib / 1024:.1f} GiB"


if __name__ == "__main__":
    sys.exit(main())
