"""`samestep size`."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from webhook.cli import main

_LLAMA = ("--model", "meta-llama/Llama-3.1-8B", "--micro-batch", "2", "--seq-len", "2048")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["size", *arguments])


def _document(*arguments: str) -> dict[str, object]:
    found = _run(*arguments, "-o", "json")
    assert found.exit_code == 0, found.output
    document: dict[str, object] = json.loads(found.stdout)
    return document


def _job(path: Path) -> Path:
    command = ["torchrun", "--nnodes=2", "--nproc-per-node=8", "train.py", "--per_device_train_batch_size", "4"]
    container = {"name": "a", "image": "i", "command": command, "resources": {"limits": {"nvidia.com/gpu": 8}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    path.write_text(yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}))
    return path


def test_the_document_has_the_interval_the_parts_and_the_largest_batch() -> None:
    found = _document(*_LLAMA, "--method", "lora", "--precision", "mixed", "--checkpointing", "full")
    assert set(found) == {"lowMib", "likelyMib", "highMib", "parts", "source", "largestMicroBatch"}
    assert found["source"] == "estimated"
    largest = found["largestMicroBatch"]
    assert isinstance(largest, dict)
    assert largest["Tesla-T4"] == 0
    assert largest["NVIDIA-H200"] > largest["NVIDIA-A100-SXM4-80GB"] > 0


def test_the_table_names_each_part_and_each_accelerator() -> None:
    found = _run(*_LLAMA)
    assert found.exit_code == 0
    for word in ("optimizer states", "fragmentation", "in all", "LIKELY FITS", "RTX-5090"):
        assert word in found.stdout


def test_explain_shows_formulas_with_their_numbers_and_sources() -> None:
    found = _run(*_LLAMA, "--precision", "pure", "--explain")
    assert "8,030,261,248 parameters × 2 B ÷ 1" in found.stdout
    assert "arXiv 2205.05198" in found.stdout


def test_a_job_gives_micro_batch_and_ranks_and_flags_the_rest(tmp_path: Path) -> None:
    job = str(_job(tmp_path / "job.yaml"))
    rest = ("--model", "meta-llama/Llama-3.1-8B", "--seq-len", "2048", "--parallel", "fsdp")
    read = _document("-f", job, *rest)
    assert read == _document(*rest, "--micro-batch", "4", "--world-size", "16")
    assert read != _document("-f", job, *rest, "--micro-batch", "8")


def test_what_neither_the_job_nor_a_flag_says_is_named(tmp_path: Path) -> None:
    job = str(_job(tmp_path / "job.yaml"))
    assert "give --model" in _run("-f", job).stderr
    found = _run("-f", job, "--model", "gpt2")
    assert found.exit_code == 2
    assert "--seq-len is missing and the job does not say it" in found.stderr


def test_a_file_without_a_job_is_an_error_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n")
    found = _run("-f", str(path), *_LLAMA)
    assert found.exit_code == 2
    assert "pod.yaml: no training job was read" in found.stderr


def test_a_fleet_takes_the_place_of_the_catalog(tmp_path: Path) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090", "nvidia.com/gpu.memory": "32607"}
    metadata = {"name": "n", "labels": labels}
    amounts = {"nvidia.com/gpu": "8"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    path = tmp_path / "nodes.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}))
    found = _document("--model", "gpt2", "--micro-batch", "2", "--seq-len", "1024", "--fleet", str(path))
    assert isinstance(found["largestMicroBatch"], dict)
    assert list(found["largestMicroBatch"]) == ["NVIDIA-GeForce-RTX-5090"]


def test_an_unknown_name_with_a_size_is_guessed_and_says_so() -> None:
    arguments = ("--model", "acme/secret-7b", "--micro-batch", "1", "--seq-len", "2048")
    assert _document(*arguments)["source"] == "guessed"
    assert "guessed from the size in its name" in _run(*arguments).stdout


@pytest.mark.parametrize("name", ["acme/secret", "x"])
def test_an_unknown_name_without_a_size_is_an_error(name: str) -> None:
    found = _run("--model", name, "--micro-batch", "1", "--seq-len", "2048")
    assert found.exit_code == 2
    assert f'no model "{name}" is known' in found.stderr


def test_a_vision_model_is_unknown_and_the_way_out_is_told() -> None:
    assert "samestep.dev/memory-per-device" in _run("--model", "resnet50").stdout
    found = _document("--model", "resnet50")
    assert found["source"] == "unknown"
    assert found["lowMib"] is None


def test_ranks_must_divide_evenly() -> None:
    found = _run(*_LLAMA, "--tensor-parallel", "4", "--world-size", "6")
    assert found.exit_code == 2
    assert "--world-size 6 is no multiple" in found.stderr


def _told(path: Path, *flags: str) -> str:
    command = ["torchrun", "--nproc-per-node=8", "train.py", "--per_device_train_batch_size", "4", *flags]
    written = yaml.safe_load(_job(path).read_text())
    written["spec"]["template"]["spec"]["containers"][0]["command"] = command
    path.write_text(yaml.safe_dump(written))
    return str(path)


def test_a_job_whose_trainer_is_known_needs_no_flag(tmp_path: Path) -> None:
    job = _told(tmp_path / "job.yaml", "--fsdp", "full_shard", "--model_name_or_path", "meta-llama/Llama-3.1-8B")
    found = _document("-f", job)
    assert found["mayDeny"] is True
    assert isinstance(found["read"], dict)
    assert found["read"]["parallel"] == {
        "value": "fsdp",
        "by": "--fsdp",
        "field": "spec.template.spec.containers[0].command[6]",
    }
    shown = _run("-f", job).stdout
    assert "read: model meta-llama/Llama-3.1-8B (--model_name_or_path, " in shown
    assert "assumes full fine-tuning: no adapter flag" in shown
    lora = _document("-f", job, "--method", "lora", "--seq-len", "512")
    assert lora["likelyMib"] < found["likelyMib"]  # type: ignore[operator]


def test_what_keeps_a_figure_from_denying_is_told(tmp_path: Path) -> None:
    job = _told(tmp_path / "job.yaml", "--optim", "sgd", "--model_name_or_path", "gpt2", "--deepspeed", "ds.json")
    assert "may not deny: --deepspeed ds.json is not read" in _run("-f", job).stdout


def test_why_a_job_names_no_model_is_told(tmp_path: Path) -> None:
    assert (
        "no flag of Hugging Face Trainer names the model"
        in _run("-f", _told(tmp_path / "j.yaml", "--optim", "sgd")).stderr
    )
