from typing import Any

import pytest

from tests.unit.intake.jobs import PYTORCH_JOB, Json, annotated, container, job, pytorch_job, read
from webhook.model.job import Coupling, TrainingJob


def env(**values: str | None) -> list[dict[str, Any]]:
    return [
        {"name": name, "valueFrom": {"fieldRef": {}}} if value is None else {"name": name, "value": value}
        for name, value in values.items()
    ]


def several(*command: str, gpus: int = 8, pods: int = 2, indexed: bool = False, **fields: Json) -> TrainingJob:
    return read(job(container(*command, gpus=gpus, **fields), pods=pods, indexed=indexed))


@pytest.mark.parametrize(
    ("command", "because"),
    [
        (("torchrun", "--nnodes=2", "t.py"), "torchrun --nnodes=2"),
        (("torchrun", "--nnodes", "2", "t.py"), "torchrun --nnodes=2"),
        (("torchrun", "--nnodes=1:2", "t.py"), "torchrun --nnodes=1:2"),
        (("python", "-m", "torch.distributed.run", "--nnodes=2", "t.py"), "torchrun --nnodes=2"),
        (("python", "-m", "torch.distributed.launch", "--use_env", "--nnodes=2", "t.py"), "torchrun --nnodes=2"),
        (("sh", "-c", "torchrun --nnodes=$NODES t.py"), "torchrun --nnodes=$NODES"),
        (("torchrun", "--nnodes=$(NODES)", "t.py"), "torchrun --nnodes=$(NODES)"),
        (("sh", "-c", "torchrun $ARGS t.py"), "torchrun"),
        (("deepspeed", "--num_nodes", "2", "t.py"), "deepspeed --num_nodes=2"),
        (("deepspeed", "--hostfile", "/h", "t.py"), "deepspeed"),
        (("accelerate", "launch", "--multi_gpu", "--num-machines=2", "t.py"), "accelerate launch --num-machines=2"),
        (("accelerate", "launch", "--num_processes", "16", "t.py"), "accelerate launch --num_processes=16"),
        (("accelerate", "launch", "--config_file", "c.yaml", "t.py"), "accelerate launch"),
        (("mpirun", "--allow-run-as-root", "-np", "16", "-x", "A", "python", "t.py"), "mpirun -np=16"),
        (("horovodrun", "-np", "16", "python", "t.py"), "horovodrun -np=16"),
        (("env", "WORLD_SIZE=16", "MASTER_ADDR=a", "python", "t.py"), "WORLD_SIZE=16"),
        (("sh", "-c", "export MASTER_ADDR=a WORLD_SIZE=16; python t.py"), "WORLD_SIZE=16"),
        (("sh", "-c", "WORLD_SIZE=16 python t.py"), "WORLD_SIZE=16"),
    ],
)
def test_a_launcher_that_spans_pods_couples_them(command: tuple[str, ...], because: str) -> None:
    for indexed in (False, True):
        found = several(*command, indexed=indexed)
        assert (found.coupling, found.coupling_because) == (Coupling.SYNCHRONOUS, because)


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "16"},
        {"MASTER_ADDR": "ddp-0.ddp", "WORLD_SIZE": None},
        {"MASTER_ADDR": "ddp-0.ddp"},
        {"MASTER_ADDR": None},
        {"PET_NNODES": "2"},
        {"PET_RDZV_ENDPOINT": "ddp-0:29500"},
    ],
)
def test_a_rendezvous_environment_couples_pods(variables: dict[str, str | None]) -> None:
    assert several("python", "t.py", env=env(**variables)).coupling is Coupling.SYNCHRONOUS
    assert several(env=env(**variables)).coupling is Coupling.SYNCHRONOUS


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        (("python", "trial.py"), {}),
        (("torchrun", "--standalone", "--nproc-per-node=8", "t.py"), {"WORLD_SIZE": "16"}),
        (("torchrun", "--nnodes=1", "t.py"), {"MASTER_ADDR": "elsewhere"}),
        (("torchrun", "--nproc-per-node=8", "t.py"), {}),
        (("deepspeed", "--num_gpus=8", "t.py"), {}),
        (("accelerate", "launch", "--num_processes=8", "t.py"), {}),
        (("mpirun", "-np", "8", "python", "t.py"), {}),
        (("python", "t.py"), {"WORLD_SIZE": "8", "MASTER_ADDR": "ddp-0"}),
        (("python", "t.py"), {"MASTER_ADDR": "localhost"}),
        (("python", "t.py"), {"PET_RDZV_ENDPOINT": "127.0.0.1:29500"}),
        (("python", "t.py"), {"MASTER_ADDR": "::1"}),
        (("echo", "torchrun", "--nnodes=2"), {}),
        (("sh", "-c", "# torchrun --nnodes=2 t.py\npython t.py"), {}),
        ((), {}),
    ],
)
def test_pods_of_a_plain_job_are_independent_where_nothing_spans_them(
    command: tuple[str, ...], variables: dict[str, str]
) -> None:
    assert several(*command, env=env(**variables)).coupling is Coupling.INDEPENDENT
    indexed = several(*command, env=env(**variables), indexed=True)
    assert (indexed.coupling, indexed.coupling_because) == (
        Coupling.UNKNOWN,
        "Indexed Job without a launcher that spans pods",
    )


def test_one_device_in_all_is_single() -> None:
    assert several("torchrun", "--nnodes=2", "t.py", gpus=1, pods=1).coupling is Coupling.SINGLE


def test_one_pod_with_several_devices_is_one_node() -> None:
    found = several("torchrun", "--nnodes=2", "t.py", pods=1)
    assert (found.coupling, found.coupling_because) == (Coupling.ONE_NODE, "one pod with 8 devices")


def test_pods_that_run_one_after_another_are_independent() -> None:
    source = job(container("x", gpus=1), parallelism=1, completions=5, completionMode="Indexed")
    assert read(source).coupling is Coupling.INDEPENDENT


def test_a_job_without_devices_is_not_coupled() -> None:
    found = read(job(container("torchrun", "--nnodes=2", "t.py", gpus=None), pods=2))
    assert (found.coupling, found.coupling_because) == (Coupling.SINGLE, "no accelerator asked for")


def test_the_pods_of_a_pytorch_job_are_coupled_whatever_they_run() -> None:
    found = read(pytorch_job(container(gpus=1), workers=7), PYTORCH_JOB)
    assert (found.coupling, found.coupling_because) == (Coupling.SYNCHRONOUS, "PyTorchJob with 8 pods")


def test_roles_without_devices_do_not_count() -> None:
    source = pytorch_job(container(gpus=None))
    source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = [container(gpus=4)]
    assert read(source, PYTORCH_JOB).coupling is Coupling.ONE_NODE


def test_a_wish_is_kept_apart_from_what_is_seen() -> None:
    found = read(annotated(job(container(gpus=1)), coupling="Synchronous"))
    assert (found.coupling, found.coupling_wish) == (Coupling.SINGLE, Coupling.SYNCHRONOUS)


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        (("torchrun", "--nproc-per-node=8", "t.py"), "8"),
        (("torchrun", "--nproc_per_node", "gpu", "t.py"), "gpu"),
        (("sh", "-c", "torchrun --nproc-per-node=8 t.py"), "8"),
        (("deepspeed", "--num_gpus=2", "t.py"), "2"),
    ],
)
def test_processes_per_node_without_a_device_are_told(command: tuple[str, ...], processes: str) -> None:
    (finding,) = read(job(container(*command, gpus=None), pods=2)).findings
    assert (finding.code, finding.facts["processes"]) == ("SST107", processes)
    assert finding.where.startswith("spec.template.spec.containers[0].command[")


@pytest.mark.parametrize("value", ["8", 8, "gpu"])
def test_processes_per_node_in_a_field_without_a_device_are_told(value: object) -> None:
    (finding,) = read(pytorch_job(container(gpus=0), nprocPerNode=value), PYTORCH_JOB).findings
    assert (finding.code, finding.where) == ("SST107", "spec.nprocPerNode")


@pytest.mark.parametrize("value", ["auto", "cpu", "1", 1, None, "x", {}])
def test_processes_that_need_no_device_are_not_told(value: object) -> None:
    assert read(pytorch_job(container(gpus=0), nprocPerNode=value), PYTORCH_JOB).findings == ()


def test_processes_per_node_beside_devices_are_not_told() -> None:
    assert (
        read(pytorch_job(container("torchrun", "--nproc-per-node=8", "t.py"), nprocPerNode="8"), PYTORCH_JOB).findings
        == ()
    )
