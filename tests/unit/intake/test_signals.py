"""What flags of programs say of coupling, and signals that disagree."""

import pytest

from tests.unit.intake.jobs import Json, container, job
from webhook.answer.wording import own_sentence
from webhook.catalog.workloads import workloads
from webhook.intake.commands import invocations
from webhook.intake.coupling import read_coupling
from webhook.intake.environment import Environment
from webhook.intake.evidence import Evidence, evidence
from webhook.intake.roles import RawRole, read_roles
from webhook.intake.signals import disagreements
from webhook.intake.words import Budget
from webhook.model.job import Coupling
from webhook.model.request import Kind

JOB = Kind("batch", "v1", "Job")
TF_JOB = Kind("kubeflow.org", "v1", "TFJob")


def spoken(source: Json, kind: Kind = JOB) -> tuple[list[RawRole], list[tuple[RawRole, Evidence]]]:
    """The roles of a job, and what each of their containers says."""
    workload = workloads().of(kind)
    assert workload is not None
    roles, told = read_roles(source, workload), []
    for role in roles:
        for index in role.resources.containers:
            at, budget = (*role.spec, "containers", index), Budget()
            one = role.pod["containers"][index]
            environment = Environment(one, at, budget)
            told += [(role, said) for said in evidence(invocations(one, at, environment, budget), environment)]
    return roles, told


def coupling(source: Json, kind: Kind = JOB) -> tuple[Coupling, str]:
    workload = workloads().of(kind)
    assert workload is not None
    roles, told = spoken(source, kind)
    ranks = [role for role in roles if role.devices]
    return read_coupling(source, workload, ranks, told, every=roles)[:2]


def disagreeing(*command: str, pods: int = 4, gpus: int = 2, **fields: Json) -> list[str]:
    roles, told = spoken(job(container(*command, gpus=gpus, **fields), pods=pods))
    found = disagreements(roles, told)
    assert {finding.code for finding in found} <= {"SST103"}
    return [own_sentence(finding) for finding in found]


@pytest.mark.parametrize(
    ("command", "because"),
    [
        (("python", "t.py", "--strategy", "fsdp"), "--strategy fsdp"),
        (("python", "t.py", "--strategy=deepspeed_stage_3"), "--strategy deepspeed_stage_3"),
        (("python", "t.py", "trainer.strategy=ddp"), "trainer.strategy ddp"),
        (("python", "t.py", "--distributed-backend", "nccl"), "--distributed-backend nccl"),
        (("python", "t.py", "--tensor-model-parallel-size", "16"), "--tensor-model-parallel-size 16"),
        (("python", "t.py", "--pipeline_model_parallel_size=2"), "--pipeline_model_parallel_size 2"),
        (("python", "t.py", "--fsdp", "full_shard"), "--fsdp full_shard"),
        (("python", "t.py", "--zero_stage=3"), "--zero_stage 3"),
        (("python", "t.py", "--use-distributed-optimizer"), "--use-distributed-optimizer"),
        (
            ("python", "t.py", "--distribution_strategy", "multi_worker_mirrored"),
            "--distribution_strategy multi_worker_mirrored",
        ),
        (("python", "t.py", "--num_nodes", "2"), "t.py --num_nodes=2"),
        (("sh", "-c", "python t.py --tensor-model-parallel-size $TP"), "--tensor-model-parallel-size"),
    ],
)
def test_a_strategy_over_several_pods_couples_them(command: tuple[str, ...], because: str) -> None:
    assert coupling(job(container(*command, gpus=8), pods=2)) == (Coupling.SYNCHRONOUS, because)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "t.py", "--strategy", "auto"),
        ("python", "t.py", "--tensor-model-parallel-size", "1"),
        ("python", "t.py", "--fsdp", "False"),
        ("torchrun", "--standalone", "t.py", "--fsdp", "full_shard"),
        ("torchrun", "--nproc-per-node=8", "t.py", "--strategy", "fsdp"),
        ("python", "t.py", "--num_nodes", "1"),
        ("python", "t.py", "--strategy"),
    ],
)
def test_a_strategy_of_one_rank_or_inside_one_node_does_not(command: tuple[str, ...]) -> None:
    assert coupling(job(container(*command, gpus=8), pods=2))[0] is Coupling.INDEPENDENT


def tf_job(*command: str, servers: bool = True, **fields: Json) -> Json:
    worker = {"replicas": 4, "template": {"spec": {"containers": [container(*command, **fields)]}}}
    server = {"replicas": 2, "template": {"spec": {"containers": [container(*command, gpus=None)]}}}
    return {"spec": {"tfReplicaSpecs": {"Worker": worker, **({"PS": server} if servers else {})}}}


@pytest.mark.parametrize(
    "command",
    [
        ("python", "t.py", "--distribution_strategy=parameter_server"),
        ("python", "t.py", "--strategy", "ParameterServerStrategy"),
        ("python", "t.py", "--sync_replicas=false"),
        ("python", "t.py", "--cross_replica_sync", "False"),
        ("python", "t.py", "--kv-store", "dist_async"),
        ("env", "BYTEPS_ENABLE_ASYNC=1", "python", "t.py"),
    ],
)
def test_an_asynchronous_strategy_counts_where_there_are_parameter_servers(command: tuple[str, ...]) -> None:
    assert coupling(tf_job(*command), TF_JOB)[0] is Coupling.ASYNCHRONOUS
    assert coupling(tf_job(*command, servers=False), TF_JOB)[0] is Coupling.SYNCHRONOUS


@pytest.mark.parametrize("command", [("python", "t.py"), ("python", "t.py", "--sync_replicas=true")])
def test_parameter_servers_alone_say_nothing(command: tuple[str, ...]) -> None:
    assert coupling(tf_job(*command), TF_JOB)[0] is Coupling.SYNCHRONOUS


def test_a_heterogeneity_aware_trainer_goes_before_its_launcher() -> None:
    source = job(container("torchrun", "--nnodes=4", "t.py", "--enable-hetero", gpus=8), pods=4)
    assert coupling(source) == (Coupling.HETEROGENEITY_AWARE, "--enable-hetero")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("torchrun", "--nnodes=2", "t.py"), "torchrun --nnodes=2, but the job has 4 pods"),
        (("deepspeed", "--num_nodes", "8", "t.py"), "deepspeed --num_nodes=8, but the job has 4 pods"),
        (("env", "WORLD_SIZE=16", "python", "t.py"), "WORLD_SIZE=16, but the job has 4 pods with 8 devices in all"),
        (("mpirun", "-np", "6", "python", "t.py"), "mpirun -np=6, but the job has 4 pods with 8 devices in all"),
        (
            ("sh", "-c", "torchrun --nnodes=4 a.py; torchrun --nnodes=3 b.py"),
            "torchrun --nnodes=4 and torchrun --nnodes=3 say different numbers of nodes",
        ),
    ],
)
def test_signals_that_disagree_are_told(command: tuple[str, ...], problem: str) -> None:
    assert disagreeing(*command) == [problem]


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "--nnodes=4", "t.py"),
        ("torchrun", "--nnodes=1:4", "t.py"),
        ("torchrun", "--nnodes=1", "t.py"),
        ("sh", "-c", "torchrun --nnodes=$N t.py"),
        ("env", "WORLD_SIZE=8", "python", "t.py"),
        ("env", "WORLD_SIZE=4", "python", "t.py"),
        ("accelerate", "launch", "--num_machines=4", "--num_processes=8", "t.py"),
        ("mpirun", "-np", "8", "python", "t.py"),
        ("python", "t.py"),
    ],
)
def test_signals_that_agree_are_not(command: tuple[str, ...]) -> None:
    assert disagreeing(*command) == []


def test_where_signals_disagree_is_told() -> None:
    roles, told = spoken(job(container("torchrun", "--nnodes", "2", "t.py", gpus=2), pods=4))
    (finding,) = disagreements(roles, told)
    assert finding.where == "spec.template.spec.containers[0].command[2]"
