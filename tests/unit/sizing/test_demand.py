"""From what a job declares to the demand of one rank."""

import pytest

from tests.samples import Json, job, pod, pytorchjob
from webhook.intake.read import read_job
from webhook.model.demand import UNKNOWN_DEMAND, DemandSource
from webhook.model.job import TrainingJob
from webhook.model.policy import Policy
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
        pod(command=["torchrun", "--nnodes=4", "train.py", "--batch-size=64"]),
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
    assert any("full fine-tuning" in one for one in demand.assumptions)


def test_a_declared_figure_goes_before_an_estimate() -> None:
    spec = trains(*FSDP, "--per_device_train_batch_size=4")
    assert sized(pytorchjob(spec, memory_per_device="29Gi")).demand.source is DemandSource.DECLARED
    half = sized(pytorchjob(spec, memory_fixed="29Gi"))
    assert half.demand.source is DemandSource.ESTIMATED


def test_a_model_that_is_guessed_from_its_name_never_denies() -> None:
    flags = [flag.replace("meta-llama/Llama-3.1-8B", "acme/secret-8b") for flag in FSDP]
    demand = sized(pytorchjob(trains(*flags, "--per_device_train_batch_size=4"))).demand
    assert (demand.source, demand.may_deny) == (DemandSource.ESTIMATED, False)


def test_without_a_micro_batch_there_is_nothing_to_estimate() -> None:
    assert sized(pytorchjob(trains(*FSDP))).demand == UNKNOWN_DEMAND


def test_another_micro_batch_gives_another_demand() -> None:
    obj = pytorchjob(trains(*FSDP, "--per_device_train_batch_size=64"))
    group, _, version = obj["apiVersion"].rpartition("/")
    read = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=User())
    assert isinstance(read, TrainingJob)
    needs = [size(read, Policy(), batch).demand.low_mib or 0 for batch in (1, 8, 64)]
    assert needs == sorted(needs)
    assert needs[0] < needs[2]
