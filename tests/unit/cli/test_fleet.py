"""`samestep fleet`: the table, and the snapshot that decisions can be made on."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.nodes import RTX_5090, cpu_node, gpu_node
from tests.samples import demo_nodes, pod, pytorchjob
from webhook.cli import main


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """The demo fleet, a cordoned node that is not ready, one that does not say its model, and one without GPUs."""
    cordoned = gpu_node("cordoned", RTX_5090)
    cordoned["spec"] = {"unschedulable": True, "taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}
    cordoned["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    silent = gpu_node("silent", RTX_5090)
    for key in ("product", "memory"):
        del silent["metadata"]["labels"][f"nvidia.com/gpu.{key}"]
    file = tmp_path / "nodes.yaml"
    file.write_text(yaml.safe_dump_all([*demo_nodes(), cordoned, silent, cpu_node("cpu")]))
    return file


def fleet(*words: str) -> Result:
    return CliRunner().invoke(main, ["fleet", *words])


def test_the_table_has_a_line_for_each_model(nodes: Path) -> None:
    result = fleet("-f", str(nodes))
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows == [
        ["MODEL", "RESOURCE", "MEMORY", "NODES", "THERE", "NOW", "NOTES"],
        ["RTX-5090", "nvidia.com/gpu", "31.8", "GiB", "3", "12", "8", "not", "ready", "1,", "unschedulable", "1"],
        ["RTX-PRO-6000-Blackwell-Server", "nvidia.com/gpu", "95.6", "GiB", "2", "8", "8"],
        ["unknown", "nvidia.com/gpu", "unknown", "1", "4", "4", "model", "unknown"],
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_snapshot_gives_the_same_fleet_and_the_same_verdicts(nodes: Path, tmp_path: Path, output: str) -> None:
    snapshot = tmp_path / f"snapshot.{output}"
    snapshot.write_text(fleet("-f", str(nodes), "-o", output).stdout)
    assert fleet("-f", str(snapshot), "-o", output).stdout == snapshot.read_text()
    assert fleet("-f", str(snapshot)).stdout == fleet("-f", str(nodes)).stdout
    jobs = tmp_path / "jobs.yaml"
    tolerant = pod(tolerations=[{"operator": "Exists"}])
    jobs.write_text(
        yaml.safe_dump_all(
            [
                pytorchjob(memory_per_device="20Gi"),
                pytorchjob(tolerant, workers=6, memory_per_device="20Gi"),
                pytorchjob(memory_per_device="120Gi"),
                pytorchjob(pod(gpus=4), workers=4),
            ]
        )
    )
    answers = [
        CliRunner().invoke(main, ["check", "-f", str(jobs), "--fleet", str(file), "-o", "json"])
        for file in (nodes, snapshot)
    ]
    assert answers[0].stdout == answers[1].stdout
    assert len(json.loads(answers[0].stdout)["items"]) == 4


def test_a_snapshot_is_a_list_of_nodes_as_kubectl_prints_it(nodes: Path) -> None:
    snapshot = json.loads(fleet("-f", str(nodes), "-o", "json").stdout)
    assert (snapshot["apiVersion"], snapshot["kind"]) == ("v1", "List")
    assert {(one["apiVersion"], one["kind"]) for one in snapshot["items"]} == {("v1", "Node")}
    assert "cpu" not in [one["metadata"]["name"] for one in snapshot["items"]]


def test_what_cannot_be_read_is_told_and_the_rest_is_shown(nodes: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: [a}\n")
    result = fleet("-f", str(nodes), "-f", str(bad))
    assert result.exit_code == 2
    assert "unreadable: bad.yaml#0: line 3" in result.stderr
    assert "RTX-5090" in result.stdout


def test_files_without_accelerators_show_an_empty_table(tmp_path: Path) -> None:
    file = tmp_path / "cpu.yaml"
    file.write_text(yaml.safe_dump(cpu_node("cpu")))
    result = fleet("-f", str(file))
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)


def test_without_a_cluster_to_ask_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = fleet("--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no cluster to ask: ")


def test_a_cluster_that_does_not_answer_is_told_in_a_line(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "gone",
                "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "nobody"}}],
                "clusters": [{"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "nobody", "user": {}}],
            }
        )
    )
    result = fleet("--kubeconfig", str(config))
    assert result.exit_code == 1
    assert result.stderr == "Error: the API server cannot be reached: MaxRetryError\n"
