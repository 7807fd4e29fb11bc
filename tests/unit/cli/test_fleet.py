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


def test_the_table_has_a_line_for_each_model_and_for_each_reason_to_be_odd(nodes: Path) -> None:
    result = fleet("-f", str(nodes))
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows == [
        ["MODEL", "RESOURCE", "MEMORY", "NODES", "THERE", "NOW", "NOTES"],
        ["RTX-5090", "nvidia.com/gpu", "31.8", "GiB", "3", "12", "8", "not", "ready", "1,", "cordoned", "1"],
        ["RTX-PRO-6000-Blackwell-Server", "nvidia.com/gpu", "95.6", "GiB", "2", "8", "8"],
        ["unknown", "nvidia.com/gpu", "unknown", "1", "4", "4", "no", "label", "names", "the", "model"],
        [],
        ["ODD", "NODES", "COUNT", "WHICH"],
        ["not", "ready", "1", "cordoned"],
        ["cordoned", "1", "cordoned"],
        ["tainted", "team=b:NoSchedule", "1", "cordoned"],
        ["unknown:", "no", "label", "names", "the", "model", "1", "silent"],
    ]


def test_many_odd_nodes_of_one_reason_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    cordoned = [gpu_node(f"n{index}", RTX_5090) | {"spec": {"unschedulable": True}} for index in range(7)]
    file.write_text(yaml.safe_dump_all(cordoned))
    assert fleet("-f", str(file)).stdout.splitlines()[-1].split() == [
        *("cordoned", "7", "n0,", "n1,", "n2,", "n3", "and", "3", "more")
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_same_table(nodes: Path, output: str) -> None:
    told = yaml.safe_load(fleet("-f", str(nodes), "-o", output).stdout)
    assert told["kind"] == "FleetSummary"
    assert told["models"][0] == {
        "model": "RTX-5090",
        "product": RTX_5090.product,
        "resource": "nvidia.com/gpu",
        "memoryMib": 32607,
        "nodes": 3,
        "devicesThere": 12,
        "devicesNow": 8,
        "devicesFree": None,
        "shareMib": None,
        "notes": ["not ready 1", "cordoned 1"],
    }
    assert told["oddNodes"][1] == {"name": "silent", "reasons": ["unknown: no label names the model"]}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_snapshot_gives_the_same_fleet_and_the_same_verdicts(nodes: Path, tmp_path: Path, output: str) -> None:
    snapshot = tmp_path / f"snapshot.{output}"
    snapshot.write_text(fleet("-f", str(nodes), "--snapshot", "-o", output).stdout)
    assert fleet("-f", str(snapshot), "--snapshot", "-o", output).stdout == snapshot.read_text()
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


def test_a_snapshot_is_a_list_of_nodes_as_kubectl_prints_it_with_what_decisions_need_alone(tmp_path: Path) -> None:
    one = gpu_node("a", RTX_5090)
    one["metadata"]["annotations"] = {"owner": "someone"}
    one["status"] |= {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "images": [{"names": ["x"]}]}
    file = tmp_path / "nodes.yaml"
    file.write_text(yaml.safe_dump_all([one, cpu_node("cpu")]))
    snapshot = yaml.safe_load(fleet("-f", str(file), "--snapshot").stdout)
    assert (snapshot["apiVersion"], snapshot["kind"]) == ("v1", "List")
    (item,) = snapshot["items"]
    assert (item["apiVersion"], item["kind"]) == ("v1", "Node")
    assert item["metadata"].keys() == {"name", "labels"}
    assert item["status"].keys() == {"allocatable", "capacity", "conditions"}


def test_what_is_free_is_shown_where_pods_stand_beside_the_nodes(nodes: Path, tmp_path: Path) -> None:
    running = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod(nodeName="silent", gpus=3)}
    done = running | {"metadata": {"name": "b"}, "status": {"phase": "Succeeded"}}
    strange = running | {"metadata": {"name": "c"}, "spec": {"nodeName": "silent", "containers": "none"}}
    file = tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump_all([running, done, strange]))
    rows = [line.split() for line in fleet("-f", str(nodes), "-f", str(file)).stdout.splitlines()]
    assert rows[0] == ["MODEL", "RESOURCE", "MEMORY", "NODES", "THERE", "NOW", "FREE", "NOTES"]
    assert rows[1][4:8] == ["3", "12", "8", "8"]
    assert rows[3][2:7] == ["unknown", "1", "4", "4", "1"]


def test_labels_of_the_policy_and_accelerators_beside_the_nodes_count(tmp_path: Path) -> None:
    one = gpu_node("a", RTX_5090)
    one["metadata"]["labels"] = {"gpu-type": "gaming"}
    product = {"product": "NVIDIA-Gaming", "aliases": ["gaming"], "vendor": "nvidia", "memory": "20Gi", "source": "us"}
    head = {"apiVersion": "samestep.dev/v1alpha1", "metadata": {"name": "ours"}}
    file, policy = tmp_path / "nodes.yaml", tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump_all([one, head | {"kind": "Accelerator", "spec": product}]))
    policy.write_text(yaml.safe_dump(head | {"kind": "TrainingPolicy", "spec": {"modelLabels": ["gpu-type"]}}))
    result = fleet("-f", str(file), "--policies", str(policy))
    assert result.stdout.splitlines()[1].split()[:4] == ["Gaming", "nvidia.com/gpu", "20.0", "GiB"]


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
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: no cluster to ask: ")


def test_a_snapshot_holds_the_accelerators_by_which_it_was_read(tmp_path: Path) -> None:
    node = gpu_node("a", RTX_5090)
    node["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-New"
    del node["metadata"]["labels"]["nvidia.com/gpu.memory"]
    spec = {"product": "NVIDIA-New", "vendor": "nvidia", "memory": "64Gi", "source": "our bench"}
    known = {"apiVersion": "samestep.dev/v1alpha1", "kind": "Accelerator", "metadata": {"name": "new"}, "spec": spec}
    broken = known | {"spec": spec | {"vendor": "acme"}}
    file, snapshot = tmp_path / "fleet.yaml", tmp_path / "snapshot.yaml"
    file.write_text(yaml.safe_dump_all([node, known, broken]))
    taken = fleet("-f", str(file), "--snapshot")
    assert taken.exit_code == 2
    snapshot.write_text(taken.stdout)
    again = fleet("-f", str(snapshot), "-o", "yaml")
    assert again.exit_code == 0
    assert [(row["model"], row["memoryMib"]) for row in yaml.safe_load(again.stdout)["models"]] == [("New", 65536)]
