"""A real Prometheus that scrapes an exporter of ours, which speaks the DCGM exporter's format of simulated pods."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import urllib3

from controlplane.build import artifact
from controlplane.processes import Processes
from controlplane.rig import free_ports, is_ok

_NAME = "prometheus"


@dataclass(frozen=True, slots=True)
class Held:
    """What one device holds, and for which pod; empty where the exporter does not know."""

    namespace: str
    pod: str
    node: str
    model: str
    memory_mib: float
    device: int = 0


@dataclass(slots=True)
class Exporter:
    """All of the cluster's DCGM exporters in one."""

    port: int = 0
    held: list[Held] = field(default_factory=list)

    def text(self) -> str:
        """As NVIDIA/dcgm-exporter renders it, with its Kubernetes mapping."""
        lines = [
            "# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).",
            "# TYPE DCGM_FI_DEV_FB_USED gauge",
        ]
        for one in self.held:
            labels = {
                "gpu": str(one.device),
                "UUID": f"GPU-{one.node}-{one.device}",
                "device": f"nvidia{one.device}",
                "modelName": one.model,
                "Hostname": one.node,
                "DCGM_FI_DRIVER_VERSION": "570.86.15",
            }
            if one.pod:
                labels |= {"container": "train", "namespace": one.namespace, "pod": one.pod}
            named = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
            lines.append(f"DCGM_FI_DEV_FB_USED{{{named}}} {one.memory_mib:.6f}")
        return "\n".join([*lines, ""])


@contextmanager
def exporting() -> Iterator[Exporter]:
    exporter = Exporter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = exporter.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    exporter.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield exporter
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass(frozen=True, slots=True)
class Monitoring:
    """A Prometheus with an exporter. `stop` ends it for good."""

    url: str
    exporter: Exporter
    processes: Processes

    def hold(self, *held: Held) -> None:
        """The devices hold this, and Prometheus has seen it twice."""
        self.exporter.held = list(held)
        for one in held:
            query = f'count_over_time(DCGM_FI_DEV_FB_USED{{exported_pod="{one.pod}",Hostname="{one.node}"}}[1m])'
            self.processes.wait(_NAME, lambda query=query: self._value(query) >= 2)  # type: ignore[misc]

    def stop(self) -> None:
        self.processes.stop(_NAME, grace_s=5)

    def _value(self, query: str) -> float:
        answer = urllib3.request("GET", f"{self.url}/api/v1/query", fields={"query": query}).json()
        return max((float(one["value"][1]) for one in answer["data"]["result"]), default=0.0)


@contextmanager
def monitoring(processes: Processes, folder: Path) -> Iterator[Monitoring]:
    """Scrapes each second. Labels of the exporter are not honoured, which is Prometheus's default, so that it names the
    pods of its own target as well."""
    (port,) = free_ports(1)
    with exporting() as exporter:
        target = {"targets": [f"127.0.0.1:{exporter.port}"], "labels": {"namespace": "gpu-operator", "pod": "dcgm-x"}}
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "dcgm", "static_configs": [target]}],
        }
        file = folder / "prometheus.yaml"
        file.write_text(json.dumps(config))  # which is YAML
        data, address = f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"
        processes.start(_NAME, [artifact("prometheus"), f"--config.file={file}", data, address, "--log.level=warn"])
        url = f"http://127.0.0.1:{port}"
        processes.wait(_NAME, lambda: is_ok(f"{url}/-/ready"))
        yield Monitoring(url, exporter, processes)
