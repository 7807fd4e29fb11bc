"""From a job's command line to a run that can be estimated, and whether its figure may deny."""

import pytest

from tests.unit.intake.jobs import PYTORCH_JOB, Json, container, job, pytorch_job, read
from webhook.sizing.from_job import Sizable, Unsizable, training_of
from webhook.sizing.training import Method, Offload, Optimizer, Parallel, Precision

LLAMA = ("--model_name_or_path", "meta-llama/Llama-3.1-8B")
RUN = ("torchrun", "--nproc-per-node=8", "train.py", "--per_device_train_batch_size", "1", "--optim", "adamw_torch")


def training(*command: str, pods: int = 2, **fields: Json) -> Sizable | Unsizable:
    return training_of(read(job(container(*command, gpus=8, **fields), pods=pods, indexed=True)), 1)


def sizable(*command: str, pods: int = 2, **fields: Json) -> Sizable:
    found = training(*command, pods=pods, **fields)
    assert isinstance(found, Sizable), found
    return found


def test_a_70b_model_with_fsdp_over_16_devices_needs_more_than_32_gb_and_may_need_less_than_96() -> None:
    command = ("torchrun", "--nnodes=2", "--nproc-per-node=8", "train.py", "--model_name_or_path")
    flags = ("--fsdp", "full_shard auto_wrap", "--gradient_checkpointing", "True", "--bf16", "True")
    trainer = container(*command, "meta-llama/Llama-3.1-70B", *flags, "--per_device_train_batch_size", "1", gpus=8)
    found = training_of(read(pytorch_job(trainer), PYTORCH_JOB), 1)
    assert isinstance(found, Sizable)
    assert found.may_deny
    assert (found.training.parallel, found.training.world_size) == (Parallel.FSDP, 16)
    assert "assumes full fine-tuning: no adapter flag" in found.assumptions
    assert "assumes adamw: the default of Hugging Face Trainer" in found.assumptions
    usable_5090, usable_pro_6000 = 32_607 - 640, 97_887 - 640
    estimate = found.estimate()
    assert usable_5090 < estimate.low_mib < usable_pro_6000
    assert estimate.likely_mib == pytest.approx(70.55e9 * 16 / 16 / 2**20, rel=0.3)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("python", "train.py", "--epochs", "3"), "no trainer that is known"),
        ((*RUN, *LLAMA, "--do_eval"), "nothing shows that Hugging Face Trainer trains here"),
        (("lm_eval", "--model", "hf"), "nothing shows that lm_eval trains here"),
        (RUN, "no flag of Hugging Face Trainer names the model"),
        ((*RUN, "--model_name_or_path", "/model"), 'no model "/model" is known'),
        (("llamafactory-cli", "train", "x.yaml"), "no flag of LLaMA-Factory names the model"),
    ],
)
def test_without_evidence_of_training_or_a_model_there_is_nothing_to_estimate(
    command: tuple[str, ...], why: str
) -> None:
    found = training(*command)
    assert isinstance(found, Unsizable)
    assert why in found.why


def test_what_is_told_in_full_may_deny() -> None:
    found = sizable(*RUN, *LLAMA, "--fp16", "--max_seq_length", "2048", "--fsdp", "shard_grad_op")
    run = found.training
    assert (found.may_deny, found.open, found.lean) == (True, (), None)
    assert (run.method, run.optimizer, run.precision) == (Method.FULL, Optimizer.ADAMW, Precision.MIXED)
    assert (run.parallel, run.seq_len, run.packed) == (Parallel.ZERO2, 2048, None)


def test_a_length_that_samples_fill_is_no_cap() -> None:
    assert sizable(*RUN, *LLAMA, "--block_size", "1024").training.packed is True
    assert sizable(*RUN, *LLAMA, "--max_length", "1024", "--packing", "True").training.packed is True


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ((*RUN, "--model_name_or_path", "acme/secret-7b"), 'the model "acme/secret-7b" is guessed'),
        ((*RUN, *LLAMA, "--optim", "galore_adamw"), "--optim galore_adamw is not read"),
        ((*RUN, *LLAMA, "--fsdp_config", "f.json"), "--fsdp_config f.json is not read"),
        ((*RUN, *LLAMA, "--output_dir", "out/lora"), '"lora" in out/lora may mean that not all parameters'),
        ((*RUN, *LLAMA, "--freeze_backbone", "True"), '"freeze" in --freeze_backbone may mean'),
        ((*RUN, *LLAMA, "--max_seq_length", "long"), "--max_seq_length 'long' is no number"),
        (("accelerate", "launch", *RUN[2:], *LLAMA), "in a configuration that is not read"),
        (("python", *RUN[2:], *LLAMA), "no launcher starts a process for each device"),
        (("axolotl", "train", "c.yml", "--base-model", "gpt2"), "the method is not told"),
    ],
)
def test_what_is_open_never_denies_and_says_why(command: tuple[str, ...], why: str) -> None:
    found = sizable(*command)
    assert not found.may_deny
    assert any(why in sentence for sentence in found.open), found.open


def test_a_deepspeed_configuration_that_is_not_read_widens_the_interval() -> None:
    found = sizable(*RUN, *LLAMA, "--bf16", "--deepspeed", "ds.json")
    assert not found.may_deny
    told = sizable(*RUN, *LLAMA, "--bf16", "--deepspeed", '{"zero_optimization": {"stage": 2}}')
    assert told.may_deny
    wide, narrow = found.estimate(), told.estimate()
    assert wide.low_mib < narrow.low_mib / 4
    assert wide.high_mib == narrow.high_mib
    assert sum(part.low_mib for part in wide.parts) == pytest.approx(wide.low_mib)


def test_hybrid_sharding_shares_inside_a_node() -> None:
    run = sizable(*RUN, *LLAMA, "--fsdp", "hybrid_shard").training
    assert (run.parallel, run.sharing) == (Parallel.FSDP, 8)


def test_adapters_are_read_from_their_flags_or_their_trainer() -> None:
    assert sizable(*RUN, *LLAMA, "--lora_r", "64").training.adapter_rank == 64
    assert sizable(*RUN, *LLAMA, "--lora_r", "64").training.method is Method.LORA
    assert sizable(*RUN, *LLAMA, "--load_in_4bit", "True", "--use_peft", "True").training.method is Method.QLORA
    factory = sizable(*RUN, *LLAMA, "--stage", "sft")
    assert factory.training.method is Method.LORA
    assert "assumes LoRA: the default of LLaMA-Factory" in factory.assumptions


@pytest.mark.parametrize("order", [1, -1])
def test_weights_on_the_host_mean_all_of_it_in_any_order(order: int) -> None:
    devices = ("--offload_optimizer_device=cpu", "--offload_param_device=cpu")[::order]
    flags = ("--use_deepspeed", "--zero_stage=3", *devices)
    assert sizable("accelerate", "launch", *flags, *RUN[2:], *LLAMA).training.offload is Offload.ALL


def test_ranks_that_do_not_divide_are_open() -> None:
    command = ("torchrun", "-m", "torchtitan.train", "--model.name", "meta-llama/Llama-3.1-8B")
    split = ("--parallelism.tensor_parallel_degree", "3")
    found = sizable(*command, *split)
    assert not found.may_deny
    assert found.training.world_size == 15
    assert sizable(*command).may_deny


def test_one_device_shares_nothing() -> None:
    source = job(container("python", *RUN[2:], *LLAMA, gpus=1))
    found = training_of(read(source), 1)
    assert isinstance(found, Sizable)
    assert (found.may_deny, found.training.parallel) == (True, Parallel.SINGLE)
