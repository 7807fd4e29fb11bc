"""What a trainer is told of the settings that memory depends on."""

import pytest

from tests.unit.intake.jobs import PYTORCH_JOB, Json, container, job, pytorch_job, read
from webhook.model.job import Told

HF = ("--per_device_train_batch_size", "1", "--optim", "adamw_torch")
RUN = ("torchrun", "train.py", *HF)


def told(*command: str, **fields: Json) -> Told:
    found = read(job(container(*command, **fields))).told
    assert found is not None
    return found


def settings(*command: str, **fields: Json) -> dict[str, str]:
    return {name: said.value for name, said in told(*command, **fields).settings.items()}


@pytest.mark.parametrize(
    ("flags", "setting", "value"),
    [
        (("--model_name_or_path", "gpt2"), "model", "gpt2"),
        (("--model-name-or-path=gpt2",), "model", "gpt2"),
        (("--max_seq_length", "512", "--max_seq_length", "1024"), "maxSeqLen", "1024"),
        (("--block_size", "512"), "seqLen", "512"),
        (("--bf16",), "precision", "bf16"),
        (("--bf16", "True"), "precision", "bf16"),
        (("--bf16", "yes", "--fp16", "False"), "precision", "bf16"),
        (("--fp16=1",), "precision", "fp16"),
        (("--optim", "paged_adamw_8bit"), "optimizer", "paged-adamw-8bit"),
        (("--fsdp", "full_shard auto_wrap"), "parallel", "fsdp"),
        (("--fsdp", "shard_grad_op"), "parallel", "zero2"),
        (("--fsdp", "full_shard offload"), "offload", "all"),
        (("--gradient_checkpointing",), "checkpointing", "full"),
        (("--gradient_checkpointing", "False"), "checkpointing", "none"),
        (("--use_peft",), "method", "lora"),
        (("--use_peft", "False"), "method", "full"),
        (("--load_in_4bit", "True"), "quantized", "nf4"),
        (("--lora_r", "16"), "adapterRank", "16"),
        (("--attn_implementation", "flash_attention_2"), "attention", "flash"),
        (("--deepspeed", "ds.json"), "parallel", "elsewhere"),
        (("--deepspeed", '{"zero_optimization": {"stage": 3}}'), "parallel", "zero3"),
        (("--output_dir", "out/llama-LoRA"), "partial", "lora"),
    ],
)
def test_flags_of_hugging_face_are_read_as_its_parser_takes_them(
    flags: tuple[str, ...], setting: str, value: str
) -> None:
    assert settings(*RUN, *flags)[setting] == value


@pytest.mark.parametrize("flags", [("--bf16", "False"), ("--bf16", "--bf16=no"), ("--packing", "0")])
def test_a_switch_that_is_off_says_nothing(flags: tuple[str, ...]) -> None:
    assert settings(*RUN, *flags).keys() == {"optimizer"}


def test_where_it_was_read_is_told() -> None:
    said = told(*RUN, args=["--model_name_or_path", "gpt2"]).settings["model"]
    assert (said.name, said.field) == ("--model_name_or_path", "spec.template.spec.containers[0].args[1]")


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (("--deepspeed", "ds.json"), "--deepspeed", "ds.json"),
        (("--deepspeed", "{broken"), "--deepspeed", "{broken"),
        (("--deepspeed", '{"zero_optimization": {"stage": 9}}'), "zero_optimization.stage", "9"),
        (("--deepspeed", '{"optimizer": {"type": "Lamb"}}'), "optimizer.type", "Lamb"),
        (("--fsdp_config", "fsdp.json"), "--fsdp_config", "fsdp.json"),
        (("--optim", "galore_adamw"), "--optim", "galore_adamw"),
        (("--load_in_8bit", "True"), "--load_in_8bit", "True"),
        (("--bf16", "$(SECRET)"), "--bf16", ""),
    ],
)
def test_what_cannot_be_read_is_named(flags: tuple[str, ...], name: str, value: str) -> None:
    env = [{"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    assert [(said.name, said.value) for said in told(*RUN, *flags, env=env).unread] == [(name, value)]


def test_words_that_are_not_known_may_hold_flags() -> None:
    script = f"torchrun {' '.join(RUN[1:])} --output_dir $OUT"
    assert told("bash", "-c", script).unread == ()
    assert [said.name for said in told("bash", "-c", f"{script} $EXTRA").unread] == ["words of the command line"]


@pytest.mark.parametrize(
    ("command", "trainer", "known_by"),
    [
        (RUN, "Hugging Face Trainer", "--per_device_train_batch_size and --optim"),
        (("trl", "sft", "--bf16"), "TRL", "trl sft"),
        (
            ("python", "src/train.py", *HF, "--stage", "sft"),
            "LLaMA-Factory",
            "--per_device_train_batch_size and --optim",
        ),
        (("llamafactory-cli", "train", "x.yaml"), "LLaMA-Factory", "llamafactory-cli train"),
        (("python", "-m", "axolotl.cli.train", "c.yml"), "axolotl", "axolotl.cli.train"),
        (("torchrun", "pretrain_gpt.py"), "Megatron-LM", "pretrain_gpt.py"),
        (("python", "/opt/megatron/pretrain_gpt.py", "--bf16"), "Megatron-LM", "pretrain_gpt.py"),
        (
            ("torchrun", "own.py", "--tensor-model-parallel-size", "8", "--recompute-granularity", "full"),
            "Megatron-LM",
            "--tensor-model-parallel-size and --recompute-granularity",
        ),
        (("torchrun", "-m", "torchtitan.train"), "torchtitan", "torchtitan.train"),
        (("litgpt", "finetune_lora", "meta-llama/Llama-3.1-8B"), "litgpt", "litgpt finetune_lora"),
    ],
)
def test_a_trainer_is_known_by_its_program_or_by_two_flags(
    command: tuple[str, ...], trainer: str, known_by: str
) -> None:
    assert (told(*command).trainer, told(*command).known_by) == (trainer, known_by)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("python", "train.py"),
        ("torchrun", "train.py", "--per_device_train_batch_size", "1", "--bf16", "--model_name_or_path", "gpt2"),
        ("torchrun", "train.py", "--optim", "adamw_torch", "--optim", "sgd"),
        ("deepspeed", "main.py", *HF, "--zero_stage", "3"),
        ("axolotl", "inference", "c.yml"),
        ("llamafactory-cli", "chat", "x.yaml"),
    ],
)
def test_one_flag_or_flags_of_two_trainers_are_not_enough(command: tuple[str, ...]) -> None:
    assert read(job(container(*command))).told is None


@pytest.mark.parametrize(
    ("command", "trains"),
    [
        ((*RUN, "--do_train", "--do_eval"), True),
        ((*RUN, "--do_eval"), False),
        ((*RUN, "--do_train", "False", "--do_predict"), False),
        (("python", "e.py", "--per_device_eval_batch_size", "8", "--fsdp", "full_shard"), False),
        (("accelerate", "launch", "-m", "lm_eval", "--model", "hf"), False),
        (("vllm", "serve", "gpt2", *HF), False),
    ],
)
def test_evaluation_is_told_from_training(command: tuple[str, ...], trains: bool) -> None:
    assert told(*command).trains is trains


def test_an_operand_is_the_model_or_a_configuration_file() -> None:
    assert settings("litgpt", "finetune_lora", "meta-llama/Llama-3.1-8B") == {
        "method": "lora",
        "model": "meta-llama/Llama-3.1-8B",
    }
    assert [said.value for said in told("axolotl", "train", "c.yml", "--micro-batch-size", "1").unread] == ["c.yml"]


@pytest.mark.parametrize(
    ("launch", "parallel"),
    [
        (("torchrun",), None),
        (("deepspeed",), "elsewhere"),
        (("accelerate", "launch"), "elsewhere"),
        (("accelerate", "launch", "--multi_gpu"), "ddp"),
        (("accelerate", "launch", "--use_fsdp"), "fsdp"),
        (("accelerate", "launch", "--use_deepspeed", "--zero_stage", "3"), "zero3"),
        (("accelerate", "launch", "--config_file", "c.yaml"), "elsewhere"),
    ],
)
def test_a_launcher_may_say_how_ranks_share(launch: tuple[str, ...], parallel: str | None) -> None:
    assert settings(*launch, *RUN[1:]).get("parallel") == parallel


def test_a_variable_of_accelerate_leaves_sharding_open() -> None:
    found = told(*RUN, env=[{"name": "ACCELERATE_USE_FSDP", "value": "true"}])
    assert [said.name for said in found.unread] == ["ACCELERATE_USE_FSDP"]
    assert found.settings["parallel"].value == "elsewhere"


def test_roles_that_are_told_different_things_leave_it_open() -> None:
    source = pytorch_job(container(*RUN))
    alike = read(source, PYTORCH_JOB).told
    assert alike is not None
    assert alike.unread == ()
    worker = source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["command"] = [*RUN, "--fp16"]
    differing = read(source, PYTORCH_JOB).told
    assert differing is not None
    assert [said.value for said in differing.unread] == ["Hugging Face Trainer"]


def test_only_containers_with_devices_are_looked_at() -> None:
    helper = {"name": "helper", "command": list(RUN)}
    assert read(job(container("sleep", "1"), helper)).told is None


def test_what_is_read_can_be_shown() -> None:
    assert settings(*RUN, "--model_name_or_path", "a\x1b[31m\ud800" + "x" * 150)["model"].isprintable()
