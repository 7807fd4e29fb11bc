"""From a job's command line to a run that can be estimated, and whether its figure may deny."""

import pytest

from tests.unit.intake.jobs import PYTORCH_JOB, Json, container, job, pytorch_job, read
from webhook.answer.wording import phrase
from webhook.sizing.from_job import Sizable, Unsizable, training_of
from webhook.sizing.measured import MeasuredRun
from webhook.sizing.training import Checkpointing, Loss, Method, Offload, Optimizer, Parallel, Precision

LLAMA = ("--model_name_or_path", "meta-llama/Llama-3.1-8B")
RUN = ("torchrun", "--nproc-per-node=8", "train.py", "--per_device_train_batch_size", "1", "--optim", "adamw_torch")


def training(*command: str, pods: int = 2, **fields: Json) -> Sizable | MeasuredRun | Unsizable:
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
    assert "assumes full fine-tuning: no adapter flag" in assumed(found)
    assert "assumes adamw: the default of Hugging Face Trainer" in assumed(found)
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
    assert "assumes LoRA: the default of LLaMA-Factory" in assumed(factory)


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


BF16 = "assumes weights kept in 16 bits at the low end: bf16 alone does not say it"


@pytest.mark.parametrize(
    ("flags", "precision"),
    [
        (("--bf16", "--torch_dtype", "float32"), Precision.MIXED),
        (("--bf16", "--torch_dtype", "bfloat16"), Precision.PURE),
        (("--torch_dtype", "bfloat16"), Precision.PURE),
        (("--torch_dtype", "float32"), Precision.FP32),
        (("--fp16", "--torch_dtype", "float16"), Precision.MIXED),
        (("--bf16", "--torch_dtype", "auto"), None),
        (("--bf16",), None),
        (("--bf16_full_eval", "True"), None),
        (("--bf16", "--torch_dtype", "bfloat16", "--fsdp", "full_shard"), None),
        (("--torch_dtype", "bfloat16", "--fsdp", "full_shard"), Precision.PURE),
        # Adapters are trained in 32 bits beside frozen weights in 16; of 32-bit ones more is frozen.
        (("--bf16", "--torch_dtype", "bfloat16", "--lora_r", "8"), Precision.MIXED),
        (("--bf16", "--torch_dtype", "float32", "--lora_r", "8"), None),
    ],
)
def test_precision_follows_from_autocast_and_from_how_weights_are_loaded(
    flags: tuple[str, ...], precision: Precision | None
) -> None:
    found = sizable(*RUN, *LLAMA, *flags)
    assert found.training.precision is precision
    assert found.may_deny


def test_bf16_alone_says_what_it_assumes() -> None:
    assert BF16 in assumed(sizable(*RUN, *LLAMA, "--bf16"))
    assert BF16 not in assumed(sizable(*RUN, *LLAMA, "--bf16", "--torch_dtype", "bfloat16"))


def test_the_loss_over_all_logits_is_told_or_assumed() -> None:
    both = "assumes the loss over chunks of the logits at the low end, over all at the high end"
    assert both in assumed(sizable(*RUN, *LLAMA))
    told = sizable(*RUN, *LLAMA, "--loss_type", "nll")
    assert (told.training.loss, both in assumed(told)) == (Loss.WHOLE, False)
    assert sizable(*RUN, *LLAMA, "--loss_type", "chunked_nll").training.loss is Loss.CHUNKED
    assert sizable(*RUN, *LLAMA, "--use_liger_kernel").training.loss is Loss.FUSED
    factory = sizable(*RUN, *LLAMA, "--stage", "sft")
    assert "assumes the loss over whole logits: no flag of a chunked or fused one" in assumed(factory)
    assert factory.training.checkpointing is Checkpointing.FULL
    assert both not in assumed(sizable(*RUN, "--model_name_or_path", "bert-base-uncased"))


def test_chunks_make_the_low_end_leaner_and_leave_the_high_end() -> None:
    flags = (*RUN, *LLAMA, "--fsdp", "full_shard", "--block_size", "8192", "--gradient_checkpointing", "True")
    either, whole = sizable(*flags).estimate(), sizable(*flags, "--loss_type", "nll").estimate()
    assert either.low_mib < whole.low_mib
    assert either.high_mib == whole.high_mib


MEGATRON = ("torchrun", "--nproc-per-node=8", "pretrain_gpt.py", "--micro-batch-size", "1", "--bf16")
SHAPE = ("--num-layers", "32", "--hidden-size", "4096", "--num-attention-heads", "32", "--seq-length", "4096")
MORE = ("--swiglu", "--ffn-hidden-size", "14336", "--group-query-attention", "--num-query-groups", "8")


def test_a_shape_that_flags_give_is_sized_and_never_denies() -> None:
    command = (*MEGATRON, *SHAPE, *MORE, "--disable-bias-linear", "--normalization", "RMSNorm")
    split = ("--tensor-model-parallel-size", "4", "--pipeline-model-parallel-size", "2", "--sequence-parallel")
    found = sizable(*command, "--untie-embeddings-and-output-weights", "--vocab-size", "128256", *split)
    assert found.open == ("the model is a shape that flags give, not one known by name",)
    assert found.training.fp32_gradients is True
    rest = ("--position-embedding-type", "rope", "--use-distributed-optimizer")
    sharded = sizable(*command, "--untie-embeddings-and-output-weights", "--vocab-size", "128256", *split, *rest)
    # megatron/training/theoretical_memory_usage.py: 6 bytes of weights and gradients, 12 of states over 2 replicas.
    states = 8.03e9 / 8 * (6 + 12 / 2) / 2**20
    parts = {part.name.value: part.likely_mib for part in sharded.estimate().parts}
    held = parts["weights"] + parts["gradients"] + parts["optimizer states"]
    assert held == pytest.approx(states, rel=0.1)


def test_a_shape_without_a_vocabulary_is_a_wide_one() -> None:
    found = sizable(*MEGATRON, *SHAPE, *MORE)
    assert found.open == ('the model "of the shape that flags give" has a vocabulary that no flag tells',)
    interval = found.estimate()
    assert interval.guessed
    assert interval.low_mib < interval.likely_mib < interval.high_mib


@pytest.mark.parametrize(
    "flags", [("--multi-latent-attention",), ("--spec", "a", "b"), ("--hybrid-layer-pattern", "M*")]
)
def test_other_layouts_are_no_shape(flags: tuple[str, ...]) -> None:
    assert isinstance(training(*MEGATRON, *SHAPE, *MORE, *flags), Unsizable)
    assert isinstance(training(*MEGATRON[:2], "pretrain_t5.py", *MEGATRON[3:], *SHAPE), Unsizable)


def test_torchtitan_names_a_model_and_its_flavor() -> None:
    command = ("torchrun", "--nproc-per-node=8", "-m", "torchtitan.train", "--model.name", "llama3", "--model.flavor")
    assert sizable(*command, "8B").training.model.name == "meta-llama/Meta-Llama-3-8B"
    assert sizable(*command, "8B").may_deny
    assert sizable(*command, "405B").training.model.name == "meta-llama/Llama-3.1-405B"
    assert not sizable(*command, "8B", "--parallelism.pipeline_parallel_degree", "2").may_deny


def test_a_diffusion_model_that_was_measured_is_sized_by_that() -> None:
    script = ("accelerate", "launch", "train_text_to_image.py", "--train_batch_size=16", "--mixed_precision=bf16")
    model = "--pretrained_model_name_or_path=stabilityai/stable-diffusion-2-1"
    found = training(*script, model)
    assert isinstance(found, MeasuredRun)
    assert "512 pixels" in phrase(found.assumptions[0])
    again = training(*script, model, "--gradient_checkpointing")
    assert isinstance(again, Unsizable)
    assert again.why == "stabilityai/stable-diffusion-2-1 is a diffusion model: what a sample takes is not known"


def assumed(found: Sizable) -> list[str]:
    return [phrase(one) for one in found.assumptions]
