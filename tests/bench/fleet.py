"""What a large fleet and its pods take of memory, and what one change of them costs. `python -m tests.bench.fleet`.

10,000 nodes with 60 labels each, ten of them unique, and 100,000 pods, read page by page as a reflector gets them; each
in a process of its own, whose peak counts.
"""

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from controlplane.nodes import hard_fleet
from tests.samples import Json, pod
from webhook.fleet.build import build_fleet, changed_fleet
from webhook.fleet.nodes import follow, read_node
from webhook.fleet.pods import Usage
from webhook.intake.pods import read_pod
from webhook.model.fleet import Fleet, Node
from webhook.model.pods import Pod

NODES = 10_000
LABELS, UNIQUE = 60, 10
PODS = 100_000
PAGE = 250
GOAL_MIB = 64
TURNS = 20


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps(MEASURED[sys.argv[1]]()))
        return
    figures: dict[str, str] = {}
    for what in MEASURED:
        command = [sys.executable, "-m", "tests.bench.fleet", what]
        figures |= json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    table = Table("what", "figure", "goal", box=None)
    for name, figure in figures.items():
        table.add_row(name, figure, f"under {GOAL_MIB} MiB" if "MiB" in figure else "")
    Console(width=100).print(table)


def memory_of_nodes() -> dict[str, str]:
    warm_up()
    before = peak_mib()
    start = time.perf_counter()
    fleet = build_fleet(read_nodes(NODES))
    return {
        f"{len(fleet.nodes):,} nodes of {LABELS} labels, peak": f"{peak_mib() - before:.1f} MiB",
        "the same, to read and build": f"{time.perf_counter() - start:.2f} s",
    }


def memory_of_pods() -> dict[str, str]:
    warm_up()
    before = peak_mib()
    start = time.perf_counter()
    pods = list(read_pods(PODS))
    usage = Usage(pods)
    assert sum(here["pods"] for here in usage.used.values()) == PODS
    return {
        f"{len(pods):,} pods, peak": f"{peak_mib() - before:.1f} MiB",
        "the same, to read and sum up": f"{time.perf_counter() - start:.2f} s",
    }


def changes() -> dict[str, str]:
    usage = Usage(read_pods(PODS // 10))
    fleet = build_fleet(read_nodes(NODES), used=usage.used)
    node = fleet.nodes[NODES // 2]
    labelled = replace(node, labels={**node.labels, "team": "vision"})
    fewer = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 7})
    joining = replace(node, name="new", labels={**node.labels, "kubernetes.io/hostname": "new"})
    moved = {name: dict(here) for name, here in usage.used.items()}
    moved[node.name] = {"nvidia.com/gpu": 4, "cpu": 8000, "memory": 64 << 30, "pods": 3}
    timed: dict[str, Callable[[Fleet], Fleet]] = {
        "a node is cordoned": lambda known: changed_fleet(known, {node.name: replace(node, unschedulable=True)}),
        "a node gets a label": lambda known: changed_fleet(known, {node.name: labelled}),
        "a node loses a GPU": lambda known: changed_fleet(known, {node.name: fewer}),
        "a node joins": lambda known: changed_fleet(known, {"new": joining}),
        "a node leaves": lambda known: changed_fleet(known, {node.name: None}),
        "a pod is bound": lambda known: changed_fleet(known, {}, used=moved, busy=[node.name]),
        "all is built anew": lambda known: build_fleet(known.nodes, used=usage.used),
    }
    return {f"{what}, at {NODES:,} nodes": f"{1000 * median(call, fleet):.2f} ms" for what, call in timed.items()}


MEASURED = {"nodes": memory_of_nodes, "pods": memory_of_pods, "changes": changes}


def median(call: Callable[[Fleet], Fleet], fleet: Fleet) -> float:
    seconds = []
    for _ in range(TURNS):
        start = time.perf_counter()
        call(fleet)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def read_nodes(count: int) -> Iterator[Node]:
    for page in pages(labelled_fleet(count)):
        for item in page:
            node = read_node(item)
            assert node is not None
            yield node


def read_pods(count: int) -> Iterator[Pod]:
    for page in pages(raw_pods(count)):
        for item in page:
            found = read_pod(item)
            assert found is not None
            yield found


def pages(items: Iterator[Json]) -> Iterator[list[Json]]:
    """Decoded as they would be, so that no two pages share what is equal in them."""
    page: list[Json] = []
    for item in items:
        page.append(item)
        if len(page) == PAGE:
            yield orjson.loads(orjson.dumps(page))
            page = []
    yield page


def labelled_fleet(count: int) -> Iterator[Json]:
    for index, node in enumerate(hard_fleet(count)):
        labels = node["metadata"]["labels"]
        for number in range(UNIQUE - 1):
            labels[f"unique.example.com/label-{number}"] = f"value-{number}-of-node-{index:05}"
        for number in range(LABELS - len(labels)):
            labels[f"common.example.com/label-{number}"] = f"value-{index % (number + 2)}"
        node["metadata"]["uid"] = f"00000000-0000-4000-8000-{index:012}"
        yield node


def raw_pods(count: int) -> Iterator[Json]:
    for index in range(count):
        spec = pod(gpus=index % 3)
        spec["containers"][0]["resources"]["requests"] = {"cpu": f"{index % 7}", "memory": f"{index % 11}Gi"}
        spec["containers"][0]["env"] = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(20)]
        metadata = {
            "name": f"worker-{index:06}",
            "namespace": f"team-{index % 100}",
            "uid": f"00000000-0000-4000-9000-{index:012}",
            "creationTimestamp": f"2026-07-31T{index % 24:02}:{index % 60:02}:00Z",
            "ownerReferences": [{"kind": "Job", "controller": True, "uid": f"{index // 8:036}"}],
        }
        yield {"metadata": metadata, "spec": {**spec, "nodeName": f"node-{index % NODES:05}"}, "status": {}}


def warm_up() -> None:
    """The catalog is loaded, and what was imported has its memory."""
    build_fleet(follow(node, node) for node in read_nodes(PAGE))
    Usage(read_pods(PAGE))


def peak_mib() -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
