"""From what a job declares to the demand of one rank."""

import pytest

from tests.samples import Json, job, pod, pytorchjob
from webhook.answer.wording import phrase
from webhook.intake.read import read_job
from webhook.model.demand import UNKNOWN_DEMAND, DemandSource, bound
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy, TabledMemory
from webhook.model.request import Kind, User
from webhook.sizing.demand import Sized, size


def sized(obj: Json, policy: Policy | None = None) -> Sized:
    group, _, version = obj["apiVersion"].rpartition("/")
    read = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=User())
    assert isinstance(read, TrainingJob)
    return size(read, policy or Policy())


def trains(*flags: str) -> Json:
    return pod(command=["torchrun", "train.py", *flags])


def test_memory_per_device_is_taken_as_it_is() -> None:
    demand = sized(pytorchjob(memory_per_device="29Gi")).demand
    assert (demand.low_mib, demand.likely_mib, demand.high_mib) == (29696, 29696, 29696)


def test_fixed_and_per_sample_are_multiplied_with_the_micro_batch_that_was_read() -> None:
    obj = pytorchjob(trains("--per_device_train_batch_size", "64"), memory_fixed="2Gi", memory_per_sample="684Mi")
    demand = sized(obj).demand
    assert demand.low_mib == demand.high_mib == 2048 + 64 * 684


def test_memory_per_device_wins_over_the_pair() -> None:
    obj = pytorchjob(
        trains("--micro-batch-size=4"), memory_per_device="1Gi", memory_fixed="2Gi", memory_per_sample="1Gi"
    )
    assert sized(obj).demand.low_mib == 1024


def test_a_declared_micro_batch_outranks_a_parsed_one() -> None:
    obj = pytorchjob(
        trains("--per_device_train_batch_size", "64"), memory_fixed="0.5Gi", memory_per_sample="1Gi", micro_batch="2"
    )
    assert sized(obj).demand.low_mib == 512 + 2 * 1024


def test_a_flag_that_may_mean_the_whole_job_gives_an_interval() -> None:
    obj = job(
        pod(command=["python", "train.py", "--batch-size=64"]),
        pods=4,
        memory_fixed="1Gi",
        memory_per_sample="100Mi",
    )
    demand = sized(obj).demand
    assert (demand.low_mib, demand.high_mib) == (1024 + 8 * 100, 1024 + 64 * 100)


@pytest.mark.parametrize(
    ("annotations", "missing"),
    [
        ({}, "memory-per-device"),
        ({"memory_fixed": "2Gi"}, "memory-per-sample"),
        ({"memory_per_sample": "2Gi"}, "memory-fixed"),
        ({"memory_fixed": "2Gi", "memory_per_sample": "1Gi"}, "micro-batch"),
    ],
)
def test_what_would_settle_an_unknown_demand_is_named(annotations: dict[str, str], missing: str) -> None:
    found = sized(pytorchjob(trains(), **annotations))  # type: ignore[arg-type] # no annotation is named workers
    assert (found.demand, found.missing) == (UNKNOWN_DEMAND, f"samestep.dev/{missing}")


def test_a_policy_may_leave_declarations_out_of_account() -> None:
    assert sized(pytorchjob(memory_per_device="29Gi"), Policy(declare=False)).demand == UNKNOWN_DEMAND


FSDP = (
    "--model_name_or_path=meta-llama/Llama-3.1-8B",
    "--fsdp=full_shard auto_wrap",
    "--bf16=True",
    "--gradient_checkpointing=True",
    "--max_seq_length=4096",
)


def test_what_a_known_trainer_is_told_of_a_known_model_is_estimated() -> None:
    demand = sized(pytorchjob(trains(*FSDP, "--per_device_train_batch_size=4"))).demand
    assert demand.source is DemandSource.ESTIMATED
    assert demand.low_mib is not None
    assert demand.likely_mib is not None
    assert demand.high_mib is not None
    assert 0 < demand.low_mib < demand.likely_mib < demand.high_mib
    assert demand.may_deny
    assert any("full fine-tuning" in phrase(one) for one in demand.assumptions)


def test_a_declared_figure_goes_before_an_estimate() -> None:
    spec = trains(*FSDP, "--per_device_train_batch_size=4")
    assert sized(pytorchjob(spec, memory_per_device="29Gi")).demand.source is DemandSource.DECLARED
    half = sized(pytorchjob(spec, memory_fixed="29Gi"))
    assert half.demand.source is DemandSource.ESTIMATED


def test_a_model_that_is_guessed_from_its_name_never_denies() -> None:
    flags = [flag.replace("meta-llama/Llama-3.1-8B", "acme/secret-8b") for flag in FSDP]
    demand = sized(pytorchjob(trains(*flags, "--per_device_train_batch_size=4"))).demand
    assert (demand.source, demand.may_deny) == (DemandSource.ESTIMATED, False)


TRAINS = ("--do_train", "--save_strategy=no")


def test_without_a_micro_batch_only_the_parameters_bound_it() -> None:
    found = sized(pytorchjob(trains(*FSDP, *TRAINS), workers=4))
    assert found.demand == bound(8_030_261_248 * 0.5 / 8 / 2**20)
    assert not found.demand.known
    assert not found.demand.may_deny
    assert found.missing == "samestep.dev/micro-batch"


def test_weights_that_every_rank_holds_whole_are_bounded_whole() -> None:
    flags = [flag if not flag.startswith("--fsdp=") else "--fsdp=no_shard" for flag in FSDP]
    assert sized(pytorchjob(trains(*flags, *TRAINS))).demand == bound(8_030_261_248 * 0.5 / 2**20)


@pytest.mark.parametrize(
    "flags",
    [
        [flag.replace("meta-llama/Llama-3.1-8B", "acme/secret-8b") for flag in FSDP],
        [flag.replace("full_shard", "full_shard offload") for flag in FSDP],
    ],
)
def test_a_guess_and_weights_on_the_host_have_no_bound(flags: list[str]) -> None:
    assert sized(pytorchjob(trains(*flags, *TRAINS))).demand == UNKNOWN_DEMAND


@pytest.mark.parametrize("flags", [(), ("--do_eval",)])
def test_without_evidence_of_training_not_even_a_bound_is_given(flags: tuple[str, ...]) -> None:
    assert sized(pytorchjob(trains(*FSDP, "--save_strategy=no", *flags))).demand == UNKNOWN_DEMAND


def test_a_vision_model_that_nobody_measured_is_bounded_and_one_that_was_is_estimated() -> None:
    flags = ("--per_device_train_batch_size=64", "--optim=adamw_torch", "--fp16")
    unknown = sized(pytorchjob(trains(*flags, "--model_name_or_path=google/vit-base-patch16-224"), workers=1))
    assert unknown.demand == bound(86_567_656 * 0.5 / 2 / 2**20)
    assert unknown.missing == "samestep.dev/memory-per-device"
    known = sized(pytorchjob(trains(*flags, "--model_name_or_path=microsoft/resnet-50"))).demand
    assert (known.source, known.may_deny) == (DemandSource.ESTIMATED, False)
    assert phrase(known.assumptions[0]).startswith("measured by others: 224 pixels")
    again = sized(pytorchjob(trains(*flags, "--gradient_checkpointing", "--model_name_or_path=microsoft/resnet-50")))
    assert again.demand.source is DemandSource.BOUND


TABLE = Policy(
    tabled=(
        TabledMemory(2150.4, 96, image="*/train*", args=(("--arch", "resnet50"),)),
        TabledMemory(20480, model="*llama*"),
    )
)
RESNET = ("--arch", "resnet50")


def test_the_policys_table_counts_fixed_and_per_sample() -> None:
    demand = sized(pytorchjob(trains(*RESNET, "--micro-batch-size=64")), TABLE).demand
    assert (demand.low_mib, demand.likely_mib, demand.high_mib) == (2150.4 + 64 * 96,) * 3
    assert (demand.source, demand.may_deny) == (DemandSource.TABLED, True)
    assert (*map(phrase, demand.assumptions),) == ("memory.declared[0] of the policy",)


def test_a_batch_that_may_be_of_all_ranks_makes_the_table_an_interval() -> None:
    spec = pod(command=["python", "train.py", *RESNET, "--batch-size=64"])
    demand = sized(pytorchjob(spec, workers=4), TABLE).demand
    assert (demand.low_mib, demand.high_mib) == (2150.4 + 8 * 96, 2150.4 + 64 * 96)


def test_without_a_micro_batch_the_table_says_what_is_missing() -> None:
    found = sized(pytorchjob(trains(*RESNET)), TABLE)
    assert (found.demand, found.missing) == (UNKNOWN_DEMAND, "samestep.dev/micro-batch")


def test_the_table_goes_before_an_estimate_and_behind_what_the_job_declares() -> None:
    spec = trains(*FSDP, "--per_device_train_batch_size=4")
    assert sized(pytorchjob(spec), TABLE).demand.low_mib == 20480
    assert sized(pytorchjob(spec, memory_per_device="29Gi"), TABLE).demand.source is DemandSource.DECLARED
    half = sized(pytorchjob(spec, memory_fixed="29Gi"), TABLE)
    assert (half.demand.source, half.missing) == (DemandSource.TABLED, "samestep.dev/memory-per-sample")


def test_a_table_for_other_jobs_changes_nothing() -> None:
    spec = trains("--arch", "vit", "--micro-batch-size=64")
    assert sized(pytorchjob(spec), TABLE) == sized(pytorchjob(spec))


def test_another_micro_batch_gives_another_demand() -> None:
    obj = pytorchjob(trains(*FSDP, "--per_device_train_batch_size=64"))
    group, _, version = obj["apiVersion"].rpartition("/")
    read = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=User())
    assert isinstance(read, TrainingJob)
    needs = [size(read, Policy(), batch).demand.low_mib or 0 for batch in (1, 8, 64)]
    assert needs == sorted(needs)
    assert needs[0] < needs[2]
