"""How long reading an object of 100 KiB takes, by what fills it, with `json.loads` of the same bytes as the yardstick.

All are measured interleaved in one process, so that ratios hold on a noisy machine. `python -m tests.bench.read` (or
`make bench`).
"""

import json
from collections.abc import Callable  # noqa: TC003 - a type of a local

from rich.console import Console
from rich.table import Table

from tests.bench.review import measure, sized_job
from tests.samples import Json, pod, pytorchjob
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.request import Kind, User

SIZE = 100 << 10
KIND = Kind("kubeflow.org", "v1", "PyTorchJob")
FLAGS = ("--per_device_train_batch_size=32", "--model_name_or_path", "gpt2", "--bf16", "--optim", "adamw_torch")
DEEPSPEED = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}


def main() -> None:
    objects = {
        "environment variables": sized_job(SIZE),
        "4,600 arguments": _job(["torchrun", "train.py", *FLAGS, *["--setting=12345678"] * (SIZE // 22)]),
        "50 roles with a script each": _roles(50),
        "a program in a here-document": _job(["bash", "-c", _embedded()]),
        "1,600 shell commands": _job(["bash", "-c", _script(SIZE)]),
    }
    timed: dict[str, Callable[[], object]] = {}
    for name, obj in objects.items():
        job = _read(obj)
        assert isinstance(job, TrainingJob), name
        assert job.batch.micro is not None, name
        body = json.dumps(obj)
        timed[name] = lambda obj=obj: _read(obj)  # type: ignore[misc]
        timed[f"json.loads: {name}"] = lambda body=body: json.loads(body)  # type: ignore[misc]
    costs = measure(timed)
    table = Table("100 KiB of", "read_job µs", "json.loads µs", "ratio", box=None)
    for name in objects:
        read, yardstick = costs[name], costs[f"json.loads: {name}"]
        table.add_row(name, f"{read * 1e6:.0f}", f"{yardstick * 1e6:.0f}", f"{read / yardstick:.2f}")
    Console(width=100).print(table)


def _read(obj: Json) -> object:
    return read_job(obj, kind=KIND, namespace="team-a", user=User("u"))


def _job(command: list[str]) -> Json:
    return pytorchjob(pod(command=command))


def _embedded() -> str:
    """What SDKs make of a function: its source in a here-document, and the command that runs it."""
    program = "def train() -> None:\n" + '    print("training", {"step": 1})  # as it goes\n' * (SIZE // 48)
    run = f"torchrun train.py {' '.join(FLAGS)}"
    return f'read -r -d "" SCRIPT <<EOM\n{program}EOM\nprintf "%s" "$SCRIPT" > train.py\n{run}'


def _script(size: int) -> str:
    """A script of so many characters, most of them preparation."""
    run = f"cat > ds.json <<EOF\n{json.dumps(DEEPSPEED)}\nEOF\ntorchrun train.py {' '.join(FLAGS)} --deepspeed ds.json"
    line = 'export NCCL_DEBUG="${NCCL_DEBUG:-INFO}"  # so that it is seen\n'
    return f"set -euo pipefail\n{line * ((size - len(run)) // len(line))}{run}"


def _roles(count: int) -> Json:
    template = {"spec": pod(command=("bash", "-c", _script(1000)))}
    padding = {"description": "x" * (SIZE // count - len(json.dumps(template)))}
    role = {"replicas": 1, "template": {"metadata": {"annotations": padding}, **template}}
    obj = pytorchjob()
    obj["spec"]["pytorchReplicaSpecs"] = {f"Worker{index}": json.loads(json.dumps(role)) for index in range(count)}
    return obj


if __name__ == "__main__":
    main()
