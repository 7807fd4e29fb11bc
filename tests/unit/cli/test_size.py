"""`samestep size`."""

import json
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.nodes import H100, RTX_5090, gpu_node
from webhook.cli import main
from webhook.evidence.recipe import recipe_of
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.policy import Evidence
from webhook.model.profile import Observation, OutOfMemory, Profile
from webhook.model.request import Kind, User
from webhook.policy.training_profile import document_of, name_of

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


def test_what_earlier_runs_took_is_told_beside_an_estimate_and_where_nothing_else_is_known(tmp_path: Path) -> None:
    nodes, profiles = tmp_path / "nodes.yaml", tmp_path / "profiles.yaml"
    nodes.write_text(yaml.safe_dump(gpu_node("a", RTX_5090)))
    now = time.time()
    seen = (
        Observation(H100.product, 81_559, 3, now, 40_000, now),
        Observation(RTX_5090.product, 32_607, seen_at=now, out_of_memory=OutOfMemory(now, "the-first")),
    )
    flags = ("--fsdp", "full_shard", "--model_name_or_path", "meta-llama/Llama-3.1-8B")
    unknown, known = _job(tmp_path / "unknown.yaml"), Path(_told(tmp_path / "known.yaml", *flags))
    documents = []
    for path in (unknown, known):
        obj = yaml.safe_load(path.read_text())
        job = read_job(obj, kind=Kind("batch", "v1", "Job"), namespace="default", user=User())
        assert isinstance(job, TrainingJob)
        recipe = recipe_of(job, Evidence())
        documents.append(document_of(Profile("default", name_of(recipe), recipe, seen)))
    profiles.write_text(yaml.safe_dump_all(documents))
    fleet = ("--fleet", str(nodes), "--fleet", str(profiles))

    assert _run("-f", str(unknown), "--fleet", str(nodes)).exit_code == 2
    told = _document("-f", str(unknown), *fleet)
    assert told["source"] == "observed"
    assert isinstance(told["runs"], list)
    well, out, name = *told["runs"][:2], documents[0]["metadata"]["name"]
    assert well.startswith("H100-80GB-HBM3: ")
    assert well.endswith(f"({name})")
    assert out.startswith("RTX-5090 ran out of memory: the-first")
    beside = _document("-f", str(known), *fleet)
    assert isinstance(beside["runs"], list)
    assert (beside["source"], len(beside["runs"])) == ("estimated", len(told["runs"]))
    assert "RTX-5090 ran out of memory" in _run("-f", str(known), *fleet).stdout
    assert "runs" not in _document("-f", str(known), *fleet, "--micro-batch", "1")


def test_a_fleet_that_only_the_policys_label_names_is_sized_too(tmp_path: Path) -> None:
    node = gpu_node("a", RTX_5090)
    node["metadata"]["labels"] = {"team.example/gpu": RTX_5090.product}
    fleet, policy = tmp_path / "fleet.yaml", tmp_path / "policy.yaml"
    fleet.write_text(yaml.safe_dump(node))
    metadata = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": {"name": "hand"}}
    policy.write_text(yaml.safe_dump(metadata | {"spec": {"modelLabels": ["team.example/gpu"]}}))
    flags = ("--model", "gpt2", "--micro-batch", "2", "--seq-len", "1024", "--fleet", str(fleet))
    assert _document(*flags)["largestMicroBatch"] == {}
    largest = _document(*flags, "--policies", str(policy))["largestMicroBatch"]
    assert isinstance(largest, dict)
    assert list(largest) == [RTX_5090.product]


def test_an_unknown_name_with_a_size_is_guessed_and_says_so() -> None:
    arguments = ("--model", "acme/secret-7b", "--micro-batch", "1", "--seq-len", "2048")
    assert _document(*arguments)["source"] == "guessed"
    assert "guessed from the size in its name" in _run(*arguments).stdout


@pytest.mark.parametrize("name", ["acme/secret", "x"])
def test_an_unknown_name_without_a_size_is_an_error(name: str) -> None:
    found = _run("--model", name, "--micro-batch", "1", "--seq-len", "2048")
    assert found.exit_code == 2
    assert f'no model "{name}" is known' in found.stderr


_KEYS = {"lowMib", "likelyMib", "highMib", "parts", "source", "largestMicroBatch"}


def test_a_vision_model_that_nobody_measured_is_unknown_and_the_way_out_is_told() -> None:
    shown = _run("--model", "google/vit-base-patch16-224").stdout
    assert "samestep.dev/memory-per-device" in shown
    assert "86,567,656 parameters alone take 0.0 GiB or more" in shown
    found = _document("--model", "google/vit-base-patch16-224")
    assert set(found) == _KEYS
    assert (found["source"], found["lowMib"], found["parts"], found["largestMicroBatch"]) == ("unknown", None, [], {})


def test_a_vision_model_that_others_measured_is_sized_by_that() -> None:
    found = _document("--model", "resnet50", "--micro-batch", "128", "--precision", "mixed")
    assert set(found) >= _KEYS
    assert found["lowMib"] < 7669 < found["highMib"]  # type: ignore[operator]
    assert found["largestMicroBatch"]["NVIDIA-H200"] > found["largestMicroBatch"]["Tesla-T4"] > 0  # type: ignore[index]
    assert "measured by others: 224 pixels" in _run("--model", "resnet50", "--micro-batch", "128").stdout
    assert "--micro-batch is missing" in _run("--model", "resnet50").stderr
    assert _document("--model", "resnet50", "--micro-batch", "8", "--precision", "fp32")["source"] == "unknown"
    again = ("--model", "resnet50", "--micro-batch", "8", "--checkpointing", "full")
    assert _document(*again)["source"] == "unknown"


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


def _annotated(path: Path, **annotations: str) -> str:
    written = yaml.safe_load(_job(path).read_text())
    written["metadata"]["annotations"] = {
        f"samestep.dev/{name.replace('_', '-')}": v for name, v in annotations.items()
    }
    path.write_text(yaml.safe_dump(written))
    return str(path)


def test_what_the_job_declares_is_the_size_unless_a_flag_asks_for_another(tmp_path: Path) -> None:
    job = _annotated(tmp_path / "job.yaml", memory_fixed="2Gi", memory_per_sample="1Gi")
    found = _document("-f", job)
    assert set(found) >= _KEYS
    assert (found["source"], found["lowMib"], found["highMib"]) == ("declared", 6144, 6144)
    assert found["largestMicroBatch"]["NVIDIA-A100-SXM4-80GB"] == 77  # type: ignore[index]
    assert "declared: annotations of the job" in _run("-f", job).stdout
    rest = ("--model", "gpt2", "--seq-len", "512")
    assert _document("-f", job, *rest)["source"] == "estimated"


def test_a_figure_for_any_batch_has_no_largest(tmp_path: Path) -> None:
    found = _document("-f", _annotated(tmp_path / "job.yaml", memory_per_device="29Gi"))
    assert (found["source"], found["likelyMib"], found["largestMicroBatch"]) == ("declared", 29696, {})


def test_the_policys_table_is_the_size_of_jobs_like_it(tmp_path: Path) -> None:
    entry = {"match": {"image": "i"}, "fixed": "2Gi", "perSample": "512Mi"}
    document = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": {"name": "p"}}
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({**document, "spec": {"memory": {"declared": [entry]}}}))
    found = _document("-f", str(_job(tmp_path / "job.yaml")), "--policies", str(policy))
    assert (found["source"], found["likelyMib"]) == ("tabled", 4096)
    assert found["assumptions"] == ["memory.declared[0] of the policy"]
    policy.write_text("kind: TrainingPolicy")
    bad = _run("-f", str(tmp_path / "job.yaml"), "--policies", str(policy))
    assert (bad.exit_code, "policy.yaml:1:1: apiVersion: expected a string" in bad.stderr) == (2, True)


def test_a_shape_that_flags_give_is_sized(tmp_path: Path) -> None:
    shape = ["--num-layers", "24", "--hidden-size", "1024", "--num-attention-heads", "16", "--vocab-size", "50257"]
    written = yaml.safe_load(_job(tmp_path / "job.yaml").read_text())
    command = ["torchrun", "--nproc-per-node=8", "pretrain_gpt.py", "--micro-batch-size", "4", "--bf16", *shape]
    written["spec"]["template"]["spec"]["containers"][0]["command"] = command
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(written))
    found = _document("-f", str(tmp_path / "job.yaml"))
    assert (found["source"], found["mayDeny"]) == ("estimated", False)
    assert found["open"] == ["the model is a shape that flags give, not one known by name"]


def test_a_train_job_is_sized_by_the_runtime_that_stands_in_the_same_file(tmp_path: Path) -> None:
    command = ["torchrun", "train.py", "--per_device_train_batch_size=8", "--bf16", "--optim=adamw_torch"]
    command += ["--model_name_or_path=meta-llama/Llama-3.1-8B"]
    container = {"name": "node", "command": command, "resources": {"limits": {"nvidia.com/gpu": 8}}}
    node = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [container]}}}}}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [node]}}},
    }
    named = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "team-a"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 4}},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all([runtime, named]))
    result = CliRunner().invoke(main, ["size", "-f", str(file)])
    assert result.exit_code == 0, result.output
    assert "read: model meta-llama/Llama-3.1-8B" in result.output
