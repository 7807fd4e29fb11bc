"""Sizes that somebody chose to hurt: reading is linear, so it takes seconds of CPU where a square would take hours."""

import time
from typing import Any

import pytest

from tests.unit.intake.jobs import GPU, PYTORCH_JOB, container, job
from webhook.intake.read import read_job
from webhook.model.request import Kind, User

SECONDS = 10.0
MANY = 50_000
HF = "--per_device_train_batch_size"


def doubling(count: int) -> list[dict[str, str]]:
    first = {"name": "V0", "value": "x" * 1000}
    return [first, *({"name": f"V{n}", "value": f"$(V{n - 1})" * 10} for n in range(1, count))]


SOURCES: dict[str, Any] = {
    "containers": job(
        *(
            {"resources": {"limits": {GPU: 1}}, "command": ["torchrun", "--nnodes=2", "t.py", HF, str(n)]}
            for n in range(MANY // 4)
        )
    ),
    "roles": {
        "spec": {
            "pytorchReplicaSpecs": {
                f"R{n}": {"template": {"spec": {"containers": [container("x")]}}} for n in range(MANY // 4)
            }
        }
    },
    "arguments": job(container("torchrun", "t.py", *([HF, "8"] * MANY))),
    "references": job(container("torchrun", "t.py", *(["$(A)"] * MANY), env=[{"name": "A", "value": "y" * 10_000}])),
    "open references": job(container("torchrun", "$(" * 500_000)),
    "one long argument": job(container("torchrun", "t.py", "x" * 1_000_000 + "=" + "9" * 1_000_000)),
    "environment": job(container("x", env=[{"name": f"A{n}", "value": f"$(A{n - 1})"} for n in range(MANY)])),
    "doubling environment": job(container("x", env=doubling(1000), args=["$(V999)"])),
    "long script": job(container("sh", "-c", "a=1;" * 250_000)),
    "wrappers": job(container(*(["env", "A=1"] * MANY), "torchrun", "t.py")),
    "launchers": job(container(*(["torchrun"] * MANY))),
    "nested shells": job(container(*(["sh", "-c"] * MANY))),
    "taints": {
        "spec": {
            "template": {
                "spec": {"tolerations": [{"key": str(n)} for n in range(MANY)], "containers": [container("x")]}
            }
        }
    },
    "annotations": {"metadata": {"annotations": {f"samestep.dev/{n}": "x" for n in range(MANY)}}},
    "long annotation": {
        "metadata": {
            "annotations": {"samestep.dev/" + "x" * 1_000_000: "", "samestep.dev/micro-batch": "9" * 1_000_000}
        }
    },
    "owners": {"metadata": {"ownerReferences": [{"controller": True, "apiVersion": "a/b", "kind": "c"}] * MANY}},
}
SCRIPTS: dict[str, str] = {
    "assignments": "A=$A$A$A$A;" * 5_000,
    "appends": "A+=x;" * 12_000,
    "array appends": "A+=(x y);" * 6_000,
    "exports": "".join(f"export A{n}=1;b;" for n in range(4_000)),
    "substitutions": "$(" * 30_000,
    "braces": "${" * 30_000,
    "defaults": "${a:-" * 12_000,
    "closed defaults": "x " + "${a:-" * 5_000 + "}" * 5_000,
    "quotes": "\"'" * 30_000,
    "escaped quotes": '$("' + '\\"' * 30_000,
    "heredocs": "cat <<A\n" * 8_000,
    "closed heredocs": "cat <<A\nA\n" * 6_000,
    "documents": "cat > a <<A\n$(\nA\n" * 4_000,
    "documents that expand": "A=" + "x" * 1_000 + "\n" + "cat > a <<A\n" + "$A" * 20_000 + "\nA\n",
    "indented documents": "cat > a <<-A\n" + "\t$A\n" * 15_000 + "\tA\n",
    "unclosed documents": "cat > a <<A\n" + "\nAA" * 15_000,
    "copies": "echo xxxxxxxx > a;" + "cat a a a > b; cat b b b > a;" * 1_500,
    "long copies": "echo " + "x" * 30_000 + " > a; cat" + " a" * 12_000 + " > b",
    "file appends": "echo x > a;" + "echo x >> a;" * 5_000,
    "files": "".join(f"echo x > a{n};" for n in range(3_500)),
    "folders": "cd x;" * 12_000,
    "scripts that run themselves": "cat > a.sh <<A\nbash a.sh; bash a.sh\nA\n" + "bash a.sh;" * 3_000,
    "configurations": f"echo '{{\"a\": 1}}' > a.json; {'deepspeed t.py --deepspeed a.json;' * 1_500}",
    "configurations of many kinds": "".join(f"echo a{n}: > a.yaml; torchrun t.py --cfg a.yaml;" for n in range(1_000)),
    "backticks": "a`" + "\\`" * 30_000,
    "parentheses": "(" * 60_000,
    "keywords": "{ " * 30_000,
    "commands": f"torchrun t.py {HF} 8;" * 1_200,
    "positional": '"$@" ' * 10_000,
    "digits": "1" * 60_000 + ">x",
}


@pytest.mark.parametrize("name", SOURCES)
def test_hostile_objects_are_read_in_time(name: str) -> None:
    kind = PYTORCH_JOB if name == "roles" else Kind("batch", "v1", "Job")
    started = time.process_time()
    read_job(SOURCES[name], kind=kind, namespace="", user=User("system:serviceaccount:a:b"))
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("name", SCRIPTS)
def test_hostile_scripts_are_read_in_time(name: str) -> None:
    source = job(container("sh", "-c", SCRIPTS[name], args=["x", *["y" * 100] * 1_000]))
    started = time.process_time()
    read_job(source, kind=Kind("batch", "v1", "Job"), namespace="", user=User())
    assert time.process_time() - started < SECONDS
