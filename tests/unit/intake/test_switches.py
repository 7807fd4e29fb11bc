"""How a trainer can be told to need less memory, and what of the object that changes."""

import jsonpatch
import pytest

from tests.unit.intake.jobs import PYTORCH_JOB, Json, container, job, pytorch_job, read
from webhook.model.job import Remedy, TrainingJob, writes
from webhook.model.patch import add, replace

MEGATRON = ("torchrun", "pretrain_gpt.py", "--num-layers", "32", "--micro-batch-size", "4", "--train-iters", "9")
LLAMA_FACTORY = "cat > c.yaml <<E\nfinetuning_type: full\nstage: sft\nE\nllamafactory-cli train c.yaml"
TUNE = ("tune", "run", "full_finetune_distributed", "--config", "c")


def changes(found: TrainingJob, remedy: Remedy) -> list[str]:
    return [one.change for one in found.switches() if one.remedy is remedy]


def switched(source: Json, found: TrainingJob, remedy: Remedy) -> Json:
    """The object after the least change of a remedy."""
    first = next(one for one in found.switches() if one.remedy is remedy)
    operations = [add(one.path, one.value) if one.adds else replace(one.path, one.value) for one in writes(first.edits)]
    return jsonpatch.apply_patch(source, operations)


def words(source: Json) -> list[str]:
    found: list[str] = source["spec"]["template"]["spec"]["containers"][0]["command"]
    return found


def test_a_flag_brings_those_that_it_needs_beside_it() -> None:
    source = job(container(*MEGATRON))
    found = read(source)
    assert changes(found, Remedy.RECOMPUTE) == [
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    ]
    assert set(words(switched(source, found, Remedy.RECOMPUTE))) - set(MEGATRON) == {
        "--recompute-granularity=full",
        "--recompute-method=uniform",
        "--recompute-num-layers=1",
    }


def test_what_stands_there_is_changed_and_only_the_rest_put_in() -> None:
    flags = ("--recompute-granularity", "selective", "--recompute-method=block")
    source = job(container(*MEGATRON, *flags))
    found = read(source)
    changed = words(switched(source, found, Remedy.RECOMPUTE))
    assert changed[changed.index("--recompute-granularity") + 1] == "full"
    assert "--recompute-method=block" in changed
    assert changed[-1] == "--recompute-num-layers=1"


@pytest.mark.parametrize("script", [False, True])
def test_a_switch_has_no_value(script: bool) -> None:
    source = job(container("sh", "-c", " ".join(MEGATRON)) if script else container(*MEGATRON))
    changed = words(switched(source, read(source), Remedy.SHARD))
    assert changed[-1].split(" ")[-1] == "--use-distributed-optimizer"


def test_two_flags_that_say_how_to_share_are_never_both_there() -> None:
    assert changes(read(job(container(*MEGATRON, "--use-torch-fsdp2"))), Remedy.SHARD) == []
    assert changes(read(job(container(*MEGATRON, "--recompute-activations"))), Remedy.RECOMPUTE) == []


def test_beside_a_file_of_flags_a_key_is_put_in_that_outranks_it() -> None:
    source = job(container("bash", "-c", LLAMA_FACTORY))
    found = read(source)
    assert changes(found, Remedy.ADAPTERS) == ["finetuning_type=lora"]
    assert words(switched(source, found, Remedy.ADAPTERS))[2] == f"{LLAMA_FACTORY} finetuning_type=lora"


def test_a_parser_that_takes_nothing_beside_its_file_is_told_nothing() -> None:
    script = 'cat > c.json <<E\n{"optim": "adamw_torch", "fsdp": ""}\nE\ntorchrun train.py c.json --eval_strategy no'
    found = read(job(container("bash", "-c", script)))
    assert found.told is not None
    assert found.switches() == ()


def test_keys_are_written_as_keys() -> None:
    found = read(job(container(*TUNE, "enable_activation_checkpointing=False", "fsdp_reshard_after_forward=false")))
    assert changes(found, Remedy.RECOMPUTE) == ["enable_activation_checkpointing=True"]
    assert changes(found, Remedy.SHARD) == ["fsdp_reshard_after_forward=True"]


def test_a_word_that_is_no_literal_of_the_object_is_left_alone() -> None:
    found = read(job(container(*TUNE, "enable_activation_checkpointing=$(OFF)")))
    assert changes(found, Remedy.RECOMPUTE) == []


def test_a_variable_that_holds_the_word_is_changed() -> None:
    env = [{"name": "CHECKPOINT", "value": "False"}]
    source = job(container(*TUNE, "enable_activation_checkpointing=$(CHECKPOINT)", env=env))
    changed = switched(source, read(source), Remedy.RECOMPUTE)
    assert changed["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "CHECKPOINT", "value": "True"}]


def test_of_containers_that_are_told_different_things_none_is_told_otherwise() -> None:
    source = pytorch_job(container(*MEGATRON))
    assert changes(read(source, PYTORCH_JOB), Remedy.SHARD) == ["--use-distributed-optimizer"]
    worker = source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["command"].append("--use-distributed-optimizer")
    assert changes(read(source, PYTORCH_JOB), Remedy.SHARD) == []
    assert len(changes(read(source, PYTORCH_JOB), Remedy.RECOMPUTE)) == 1


def test_what_only_evaluates_is_told_nothing() -> None:
    assert read(job(container(*MEGATRON, "--skip-train"))).switches() == ()
