"""A recipe is the same for the same training, whatever is volatile about it, and another for another one."""

import json
import shlex
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from random import Random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.kinds import WRITTEN
from tests.properties.strategies import CASES, COMMANDS, Case, pods_of
from tests.properties.test_any_json import mutated
from tests.properties.test_stability import shuffled
from tests.samples import patched
from webhook.evidence.recipe import recipe_of
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.policy import Evidence
from webhook.model.profile import Profile, Recipe
from webhook.model.request import Kind, User
from webhook.model.verdict import Verdict
from webhook.policy.training_profile import document_of, name_of, read_profile, training_of

Json = dict[str, Any]

_FORMS = ("%Y-%m-%d", "%Y%m%d-%H%M%S", "%Y_%m_%d_%H_%M_%S", "%Y-%m-%dT%H:%M:%SZ", "%Y%m%d")
WHEN = st.builds(
    lambda at, form: at.strftime(form),
    st.datetimes(datetime.fromisoformat("2020-01-01"), datetime.fromisoformat("2039-01-01")),
    st.sampled_from(_FORMS),
)
RUNS = st.one_of(
    st.uuids().map(str),
    WHEN,
    st.integers(1, 10**6).map(lambda number: f"run-{number}"),
    st.integers(1_500_000_000, 1_999_999_999).map(str),
    st.binary(min_size=20, max_size=20).map(bytes.hex).filter(lambda text: not text.isdigit() and not text.isalpha()),
)
USERS = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.builds("{}-master-0.{}.svc:{}".format, USERS, USERS, st.integers(1024, 65535)),
)
# The words that a submission brings along, each with what is drawn for it.
VOLATILE: Sequence[tuple[str, st.SearchStrategy[str]]] = (
    ("--run_name={}", st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,20}", fullmatch=True)),
    ("--output_dir={}", RUNS.map("/out/{}".format)),
    ("--seed={}", st.integers(-1, 2**31).map(str)),
    ("--master_port={}", st.integers(1024, 65535).map(str)),
    ("--main_process_ip={}", ADDRESSES),
    ("--learning_rate={}", st.floats(1e-6, 1e-2).map(str)),
    ("--num_train_epochs={}", st.integers(1, 100).map(str)),
    ("--data={}", RUNS.map("/data/{}/shards".format)),
    ("--cache={}", USERS.map("/home/{}/cache".format)),
    ("--tracker={}", ADDRESSES.map("http://{}/api".format)),
    ("trainer.seed={}", st.integers(0, 2**31).map(str)),
    ("hydra.run.dir={}", RUNS.map("/runs/{}".format)),
)
# What decides, each with two words that differ.
DECISIVE = (
    ("--model_name_or_path=meta-llama/Llama-3.1-8B", "--model_name_or_path=meta-llama/Llama-3.1-70B"),
    ("--max_seq_length=2048", "--max_seq_length=4096"),
    ("--gradient_checkpointing=True", "--gradient_checkpointing=False"),
    ("--config=configs/7b.yaml", "--config=configs/70b.yaml"),
    ("--bf16=True", "--fp32=True"),
    ("--hidden=1024", "--hidden=2048"),
    ("model.layers=24", "model.layers=48"),
    ("--fsdp=full_shard", "--fsdp=shard_grad_op"),
    ("--dropout=0.0", "--dropout=0.1"),
)
COMMAND = ["torchrun", "--nproc_per_node=2", "train.py", "--per_device_train_batch_size=8"]


def recipe(obj: Json, namespace: str = "team-a") -> Recipe:
    group, _, version = obj["apiVersion"].rpartition("/")
    job = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace=namespace, user=User("person"))
    assert isinstance(job, TrainingJob)
    return recipe_of(job, Evidence())


def job_of(
    words: Sequence[str], *, kind: str = "PyTorchJob", image: str = "train:1", pods: int = 4, args: Sequence[str] = ()
) -> Json:
    resources = {"limits": {"nvidia.com/gpu": 2}}
    container = {"name": "pytorch", "image": image, "command": list(words), "args": list(args), "resources": resources}
    obj: Json = json.loads(json.dumps(WRITTEN[kind]({"containers": [container]}, pods)))
    return obj


@given(st.sets(st.sampled_from(range(len(VOLATILE)))), st.data(), st.randoms(use_true_random=False))
def test_volatile_words_wherever_they_stand_change_nothing(
    which: set[int], data: st.DataObject, random: Random
) -> None:
    def submitted() -> Recipe:
        words = list(COMMAND)
        for index in which:
            form, values = VOLATILE[index]
            written = form.format(data.draw(values))
            flag, _, value = written.partition("=")
            pieces = [flag, value] if flag.startswith("--") and random.random() < 0.5 else [written]
            at = random.choice(
                [place for place in range(3, len(words) + 1) if place == len(words) or words[place][:2] == "--"]
            )
            words[at:at] = pieces
        return recipe(job_of(words))

    assert submitted() == submitted()


@given(st.sampled_from(range(len(VOLATILE))), st.data())
def test_a_volatile_word_with_another_value_is_the_same_recipe(index: int, data: st.DataObject) -> None:
    form, values = VOLATILE[index]
    first, second = (recipe(job_of([*COMMAND, form.format(data.draw(values))])) for _ in range(2))
    assert first == second


@given(st.sampled_from(DECISIVE), st.sampled_from(VOLATILE), st.data())
def test_a_decisive_word_makes_another_recipe_whatever_stands_beside_it(
    words: tuple[str, str], beside: tuple[str, st.SearchStrategy[str]], data: st.DataObject
) -> None:
    volatile = beside[0].format(data.draw(beside[1]))
    first, second = (recipe(job_of([*COMMAND, word, volatile])) for word in words)
    assert first.digest != second.digest
    assert first.family != second.family


@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 64), st.integers(1, 64))
def test_another_batch_is_a_neighbour(one: int, other: int, steps: int, more_steps: int) -> None:
    assume(one != other)
    first, second = (
        recipe(
            job_of([*COMMAND[:3], f"--per_device_train_batch_size={size}", "--gradient_accumulation_steps", str(often)])
        )
        for size, often in ((one, steps), (other, more_steps))
    )
    assert (first.family, first.micro_batch, second.micro_batch) == (second.family, one, other)
    assert first.digest != second.digest


@given(st.sampled_from(COMMANDS), st.data())
def test_how_the_same_words_are_written_makes_no_difference(command: list[str], data: st.DataObject) -> None:
    assume(command[0] not in ("sh", "bash"))
    words = [word.format(pods=4) for word in command]
    apart = [piece for word in words for piece in (word.split("=", 1) if word.startswith("--") else [word])]
    split = data.draw(st.integers(1, len(apart)))
    in_args = job_of(apart[:split], args=apart[split:])
    in_a_shell = job_of(["bash", "-c", f"set -e\nmkdir -p /out\n{shlex.join(words)}"])
    assert recipe(job_of(words)) == recipe(job_of(apart)) == recipe(in_args)
    if command[0] != "python":
        assert recipe(in_a_shell).digest == recipe(job_of(words)).digest


@given(CASES, st.randoms(use_true_random=False), st.text("abc-", min_size=1, max_size=8))
def test_names_placement_and_what_we_write_are_no_part_of_it(case: Case, random: Random, name: str) -> None:
    outcome = case.review()
    assume(outcome.job is not None)
    before = recipe(case.job)
    if outcome.verdict is Verdict.PIN:
        assert recipe(patched(outcome)) == before
    other = shuffled(deepcopy(case.job), random)
    labels = (case.job["metadata"].get("labels") or {}) | {"a": name}
    other["metadata"] = {"name": name, "namespace": name, "labels": labels, "uid": "u", "resourceVersion": "7"}
    keep = case.job["metadata"].get("annotations") or {}
    other["metadata"]["annotations"] = keep
    other["status"] = {"phase": "Running"}
    assert recipe(other, namespace=name) == before


@given(st.sampled_from(sorted(WRITTEN)), st.integers(2, 6), st.data())
def test_what_the_api_server_fills_in_is_no_part_of_it(kind: str, pods: int, data: st.DataObject) -> None:
    pod = data.draw(pods_of(pods, data.draw(st.sampled_from(COMMANDS))))
    defaulted = deepcopy(pod) | {
        "restartPolicy": "Never",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
    }
    for container in defaulted["containers"]:
        container |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
        container["resources"]["requests"] = container["resources"].get("limits", {}) | container["resources"].get(
            "requests", {}
        )
    assert recipe(WRITTEN[kind](pod, pods)) == recipe(WRITTEN[kind](defaulted, pods))


KINDS = st.sampled_from(("Job", "PyTorchJob", "MPIJob v2beta1", "JobSet of one job", "RayJob", "Volcano Job"))


@given(st.integers(2, 9), st.integers(2, 9), KINDS, KINDS)
def test_another_kind_or_another_number_of_ranks_is_another_recipe(one: int, other: int, kind: str, of: str) -> None:
    assume(one != other)
    kinds = {kind, of}
    found = {
        (name, pods): recipe(job_of(COMMAND, kind=name, pods=pods)).digest for name in kinds for pods in (one, other)
    }
    assert len(set(found.values())) == len(found)


@given(mutated())
def test_whatever_can_be_read_has_a_recipe(obj: Json) -> None:
    api_version, name = obj.get("apiVersion"), obj.get("kind")
    group, _, version = api_version.rpartition("/") if isinstance(api_version, str) else ("batch", "", "v1")
    kind = Kind(group, version, name if isinstance(name, str) else "Job")
    job = read_job(obj, kind=kind, namespace="team-a", user=User("person"))
    assume(isinstance(job, TrainingJob))
    assert isinstance(job, TrainingJob)
    found = recipe_of(job, Evidence(ignore_image_tag=True))
    document = document_of(Profile("team-a", name_of(found), found), training_of(job))
    assert read_profile(document).recipe == found
