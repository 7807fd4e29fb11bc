"""Every way in which a framework declares batch, sequence, memory levers, sizes and processes on a command line."""

import pytest

from tests.unit.intake.jobs import Json, container, job, read
from webhook.answer.wording import own_sentence
from webhook.intake.batch import read_batch, sightings
from webhook.intake.commands import invocations
from webhook.intake.environment import Environment
from webhook.intake.settings import read_told, trainers_told
from webhook.intake.words import Budget
from webhook.model.job import Reading, TrainingJob

HF = ("torchrun", "t.py", "--per_device_train_batch_size", "1", "--optim", "adamw_torch")
LLAMA_FACTORY = ("llamafactory-cli", "train")
MEGATRON = ("torchrun", "pretrain_gpt.py", "--micro-batch-size", "1")
TITAN = ("torchrun", "-m", "torchtitan.train")
TUNE = ("tune", "run", "full_finetune_distributed")
NEMO = ("torchrun", "megatron_gpt_pretraining.py")
ACCELERATE = ("accelerate", "launch")
AXOLOTL = ("axolotl", "train", "c.yml")
LITGPT = ("litgpt", "finetune_full", "m")

SETTINGS = [
    ((*HF, "--gradient_checkpointing"), "checkpointing", "full"),
    ((*HF, "--bf16"), "precision", "bf16"),
    ((*HF, "--fsdp", "full_shard"), "parallel", "fsdp"),
    ((*HF, "--deepspeed", '{"zero_optimization": {"stage": 1}}'), "parallel", "zero1"),
    ((*LLAMA_FACTORY, "--cutoff_len", "2048"), "maxSeqLen", "2048"),
    ((*LLAMA_FACTORY, "x.yaml", "cutoff_len=2048"), "maxSeqLen", "2048"),
    ((*LLAMA_FACTORY, "--finetuning_type=full"), "method", "full"),
    ((*LLAMA_FACTORY, "--quantization_bit", "4"), "quantized", "nf4"),
    ((*LLAMA_FACTORY, "--model_name_or_path", "gpt2"), "model", "gpt2"),
    ((*MEGATRON, "--seq-length", "4096"), "seqLen", "4096"),
    ((*MEGATRON, "--tensor-model-parallel-size", "4"), "tensorParallel", "4"),
    ((*MEGATRON, "--pipeline-model-parallel-size=2"), "pipelineParallel", "2"),
    ((*MEGATRON, "--context-parallel-size", "2"), "contextParallel", "2"),
    ((*MEGATRON, "--use-distributed-optimizer"), "parallel", "zero1"),
    ((*MEGATRON, "--use-torch-fsdp2"), "parallel", "fsdp"),
    ((*MEGATRON, "--recompute-granularity", "full"), "checkpointing", "full"),
    ((*ACCELERATE, "--mixed_precision", "bf16", *HF[1:]), "precision", "bf16"),
    ((*ACCELERATE, "--use_deepspeed", "--zero_stage", "2", *HF[1:]), "parallel", "zero2"),
    ((*ACCELERATE, "--use_fsdp", *HF[1:]), "parallel", "fsdp"),
    ((*ACCELERATE, "--offload_optimizer_device=cpu", *HF[1:]), "offload", "optimizer"),
    ((*AXOLOTL, "--sequence-len", "2048"), "maxSeqLen", "2048"),
    ((*AXOLOTL, "--sample_packing"), "packed", "true"),
    ((*AXOLOTL, "--adapter", "lora"), "method", "lora"),
    ((*AXOLOTL, "--load-in-4bit"), "quantized", "nf4"),
    ((*AXOLOTL, "--tensor-parallel-size", "2"), "tensorParallel", "2"),
    ((*AXOLOTL, "--context_parallel_size=2"), "contextParallel", "2"),
    ((*TITAN, "--training.seq_len", "8192"), "seqLen", "8192"),
    ((*TITAN, "--parallelism.tensor_parallel_degree=8"), "tensorParallel", "8"),
    ((*TITAN, "--activation_checkpoint.mode", "selective"), "checkpointing", "selective"),
    ((*TUNE, "enable_activation_checkpointing=True"), "checkpointing", "full"),
    ((*TUNE, "dtype=fp32"), "precision", "fp32"),
    ((*TUNE, "optimizer._component_=bitsandbytes.optim.PagedAdamW8bit"), "optimizer", "paged-adamw-8bit"),
    ((*TUNE, "tokenizer.max_seq_len=512"), "maxSeqLen", "512"),
    ((*LITGPT, "--precision", "bf16-true"), "precision", "pure"),
    ((*LITGPT, "--train.max_seq_length", "512"), "maxSeqLen", "512"),
    ((*NEMO, "model.tensor_model_parallel_size=4"), "tensorParallel", "4"),
    ((*NEMO, "++model.pipeline_model_parallel_size=2"), "pipelineParallel", "2"),
    ((*NEMO, "trainer.precision=bf16"), "precision", "mixed"),
]


@pytest.mark.parametrize(("command", "setting", "value"), SETTINGS)
def test_a_setting_is_read_as_its_trainer_takes_it(command: tuple[str, ...], setting: str, value: str) -> None:
    told = read(job(container(*command))).told
    assert told is not None
    assert told.settings[setting].value == value


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ((*HF, "--auto_find_batch_size"), "--auto_find_batch_size"),
        ((*TUNE, "optimizer_in_bwd=True"), "optimizer_in_bwd"),
        ((*TUNE, "--config", "llama3_1/8B_full"), "--config"),
        ((*TITAN, "--module", "llama3", "--config", "debug"), "--module"),
        ((*MEGATRON, "--yaml-cfg", "x.yaml"), "--yaml-cfg"),
    ],
)
def test_what_may_say_more_and_cannot_be_read_is_named(command: tuple[str, ...], name: str) -> None:
    told = read(job(container(*command))).told
    assert told is not None
    assert name in [said.name for said in told.unread]


@pytest.mark.parametrize(
    ("command", "accumulation"),
    [
        ((*HF, "--gradient_accumulation_steps=4"), 4),
        ((*ACCELERATE, "--gradient_accumulation_steps", "8", *HF[1:]), 8),
        ((*ACCELERATE, "--gradient_accumulation_steps", "8", *HF[1:], "--gradient_accumulation_steps", "2"), 2),
        ((*TUNE, "batch_size=2", "gradient_accumulation_steps=16"), 16),
        ((*AXOLOTL, "--micro_batch_size", "1", "--gradient-accumulation-steps", "3"), 3),
    ],
)
def test_accumulation_is_read(command: tuple[str, ...], accumulation: int) -> None:
    found = read(job(container(*command))).batch.accumulation
    assert found is not None
    assert found.value == accumulation


def micro(*command: str, devices: int = 16, **fields: Json) -> Reading | None:
    one = container(*command, **fields)
    budget = Budget()
    environment = Environment(one, (), budget)
    programs = invocations(one, (), environment, budget)
    told = read_told([read for _, read in trainers_told(programs, ())])
    return read_batch(sightings(programs, environment, ()), None, lambda: told, devices)[0].micro


BARE = ("--batch-size", "32")


@pytest.mark.parametrize(
    ("command", "certain"),
    [
        (("torchrun", "t.py", *BARE), True),
        (("python", "-m", "torch.distributed.launch", "t.py", *BARE), True),
        (("accelerate", "launch", "t.py", "--train_batch_size=32"), True),
        (("deepspeed", "t.py", *BARE), True),
        (("mpirun", "-np", "16", "python", "t.py", *BARE), True),
        (("horovodrun", "-np", "16", "python", "t.py", *BARE), True),
        (("torchrun", "t.py", "batch_size=32"), True),
        (("python", "t.py", *BARE), False),
        (("python", "t.py", "--batch_size=32"), False),
        (("torchrun", "t.py", "--batch", "32"), False),
        (("torchrun", "t.py", "--train_dataloader.batch_size", "1", "train_dataloader.batch_size=32"), True),
    ],
)
def test_the_launcher_decides_what_a_bare_batch_size_counts(command: tuple[str, ...], certain: bool) -> None:
    found = micro(*command)
    assert found is not None
    assert (found.value, found.certain) == (32, certain)


def test_how_an_ambiguous_batch_size_was_read_is_told() -> None:
    (finding,) = read(job(container("python", "t.py", *BARE))).findings
    assert (finding.code, finding.where) == ("SST103", "spec.template.spec.containers[0].command[3]")
    problem = "--batch-size 32 may be the batch of one device or of all: read as at most 32 each"
    assert own_sentence(finding) == problem
    assert read(job(container("torchrun", "t.py", *BARE))).findings == ()


@pytest.mark.parametrize(
    ("command", "devices", "value", "share_of"),
    [
        (("python", "train_net.py", "--num-gpus", "8", "SOLVER.IMS_PER_BATCH", "64"), 16, 4, 64),
        (("python", "lazyconfig_train_net.py", "dataloader.train.total_batch_size=64"), 16, 4, 64),
        (("python", "main.py", "--distribution_strategy=multi_worker_mirrored", "--batch_size", "256"), 16, 16, 256),
        (("torchrun", "train.py", "--img-size", "640", "--batch-size", "64"), 16, 4, 64),
        (("yolo", "train", "batch=100"), 16, 7, 100),
        (("axolotl", "train", "c.yml", "--batch-size", "64", "--gradient-accumulation-steps", "2"), 16, 2, 64),
        (("axolotl", "train", "c.yml", "--batch-size", "64", "--tensor-parallel-size", "4"), 16, 16, 64),
        (("axolotl", "train", "c.yml", "--batch-size", "64", "--context-parallel-size", "8"), 16, 32, 64),
        (("axolotl", "train", "c.yml", "--batch-size", "64", "--micro-batch-size", "3"), 16, 3, 0),
        (("torchrun", "pretrain_gpt.py", "--micro-batch-size", "4", "--global-batch-size", "512"), 16, 4, 0),
    ],
)
def test_a_global_batch_is_divided_by_the_data_parallel_size(
    command: tuple[str, ...], devices: int, value: int, share_of: int
) -> None:
    found = micro(*command, devices=devices)
    assert found is not None
    assert (found.value, found.share_of, found.certain) == (value, share_of, True)


def test_a_global_batch_is_not_divided_by_a_number_of_devices_that_nobody_knows() -> None:
    assert micro("python", "train_net.py", "SOLVER.IMS_PER_BATCH", "64", devices=0) is None


def test_a_batch_that_only_follows_from_others_tells_nothing_alone() -> None:
    assert micro("torchrun", "pretrain_gpt.py", "--global-batch-size", "512") is None
    assert micro(*TITAN, "--training.global_batch_size", "512") is None


@pytest.mark.parametrize(
    ("command", "nodes", "processes"),
    [
        (("torchrun", "--nnodes=1:4", "--nproc_per_node", "8", "t.py"), (1, 4), 8),
        (("tune", "run", "--nnodes", "2", "--nproc-per-node=4", "x"), (2, 2), 4),
        (("deepspeed", "--num_nodes=2", "--num_gpus", "8", "t.py"), (2, 2), 8),
        (("litgpt", "pretrain", "m", "--num_nodes", "2", "--devices", "8"), (2, 2), 8),
        (("python", "megatron_gpt_pretraining.py", "trainer.num_nodes=2", "trainer.devices=8"), (2, 2), 8),
        (("python", "main.py", "fit", "--trainer.num_nodes=2", "--trainer.devices=8"), (2, 2), 8),
    ],
)
def test_nodes_and_processes_are_read(command: tuple[str, ...], nodes: tuple[int, int], processes: int) -> None:
    found = spoken(job(container(*command, gpus=8), pods=nodes[1]))
    assert found.coupling_because.split("=")[-1] in (str(nodes[1]), f"{nodes[0]}:{nodes[1]}")
    assert min(role.gang for role in found.device_roles) == nodes[0]
    idle = read(job(container(*command, gpus=None))).findings
    assert [finding.facts["processes"] for finding in idle] == [str(processes)]


def spoken(source: Json) -> TrainingJob:
    found = read(source)
    assert found.findings == ()
    return found
