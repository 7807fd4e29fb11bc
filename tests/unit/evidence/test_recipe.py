"""What is one recipe and what is another, by example."""

from collections import defaultdict

import pytest

from tests.corpus.cases import cases, documents, request, surroundings
from tests.kinds import IDLE, jaxjob, pytorchjob, rayjob, tfjob
from tests.samples import Json
from webhook.evidence.recipe import recipe_of
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.policy import Evidence
from webhook.model.profile import Allocator, Recipe
from webhook.model.request import Kind, User

IGNORING = Evidence(ignore_image_tag=True)
COMMAND = "torchrun --nproc-per-node=8 train.py --per_device_train_batch_size 8"


def read(obj: Json) -> TrainingJob:
    group, _, version = obj["apiVersion"].rpartition("/")
    job = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=User())
    assert isinstance(job, TrainingJob)
    return job


def pod(command: str = COMMAND, *, image: str = "train:1", env: dict[str, str] | None = None, gpus: int = 8) -> Json:
    container = {
        "name": "train",
        "image": image,
        "command": command.split(),
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    return {"containers": [container]}


def recipe(command: str = COMMAND, evidence: Evidence = Evidence(), pods: int = 4, **of: object) -> Recipe:  # noqa: B008
    return recipe_of(read(pytorchjob(pod(command, **of), pods)), evidence)  # type: ignore[arg-type]


def script(text: str, **of: object) -> Recipe:
    spec = pod(**of)  # type: ignore[arg-type]
    spec["containers"][0]["command"] = ["bash", "-c", text]
    return recipe_of(read(pytorchjob(spec, 4)), Evidence())


def test_tags_and_digests_tell_images_apart_unless_the_policy_ignores_them() -> None:
    images = [
        "registry.example:5000/a/train:1",
        "registry.example:5000/a/train:2",
        "registry.example:5000/a/train@sha256:1",
    ]
    assert len({recipe(image=image).digest for image in images}) == 3
    assert len({recipe(evidence=IGNORING, image=image).digest for image in images}) == 1
    others = ["registry.example:5000/a/other:1", "registry.example:5001/a/train:1"]
    assert len({recipe(evidence=IGNORING, image=image).digest for image in [*images, *others]}) == 3


def test_what_only_prepares_or_reports_in_a_script_is_no_part_of_it() -> None:
    plain = script(COMMAND)
    assert plain.digest == recipe().digest
    assert (
        script(f"set -ex\necho started $(date)\npip install -q x==1.2\nmkdir -p /out/1\n{COMMAND}\necho done").digest
        == plain.digest
    )
    assert script(f"python prepare.py\n{COMMAND}").digest == plain.digest


def test_programs_without_a_launcher_all_count() -> None:
    assert script("python a.py\npython train.py").digest != script("python b.py\npython train.py").digest
    assert script("echo a\npython train.py").digest == script("echo b\npython train.py").digest


def test_accumulation_counts_by_whether_gradients_are_kept_where_the_micro_batch_is_told() -> None:
    once, twice, often = (recipe(f"{COMMAND} --gradient_accumulation_steps {steps}") for steps in (1, 2, 64))
    assert twice == often
    assert once.digest != twice.digest
    assert once.family == twice.family == recipe().family
    assert once.digest == recipe().digest


def test_a_global_batch_counts_where_no_micro_batch_is_told_for_certain() -> None:
    found = {recipe(f"mpirun -np 32 train.py --global_batch_size {size}").digest for size in (64, 128)}
    assert len(found) == 2
    megatron = "torchrun pretrain_gpt.py --num-layers 24 --micro-batch-size 4 --global-batch-size {}"
    assert len({recipe(megatron.format(size)) for size in (64, 128)}) == 1


def test_a_batch_in_the_environment_is_a_batch() -> None:
    one, other = (script("torchrun train.py --bs $BATCH_SIZE", env={"BATCH_SIZE": size}) for size in ("8", "16"))
    assert (one.micro_batch, other.micro_batch) == (8, 16)
    assert one.digest != other.digest
    assert one.family == other.family


def test_of_the_environment_only_what_the_catalog_knows_counts() -> None:
    command = "python train.py"
    assert recipe(command, env={"WANDB_API_KEY": "a", "TOKEN": "b"}) == recipe(command, env={"TOKEN": "c"})
    models = {recipe(command, env={"MODEL_NAME": name}).family for name in ("org/llama-7b", "org/llama-70b")}
    assert len(models) == 2
    assert recipe(command, env={"MODEL_NAME": "/home/ann/llama"}) == recipe(
        command, env={"MODEL_NAME": "/home/bob/llama"}
    )
    arguments = [recipe(command, env={"ARGS": f"--batch_size {size} --lr 1e-{size}"}) for size in (8, 9)]
    assert arguments[0].family == arguments[1].family
    assert arguments[0].digest != arguments[1].digest
    job = read(pytorchjob(pod(command, env={"HF_TOKEN": "secret", "FSDP": "full_shard"}), 2))
    assert job.memory_settings == {"FSDP": "full_shard"}


def test_pods_without_devices_do_not_count_and_devices_of_each_do() -> None:
    one = tfjob(pod("python train.py"), 4)
    other = tfjob(pod("python train.py"), 4)
    other["spec"]["tfReplicaSpecs"]["PS"] = {"replicas": 7, "template": {"spec": IDLE}}
    assert recipe_of(read(one), Evidence()) == recipe_of(read(other), Evidence())
    assert recipe(gpus=8).digest != recipe(gpus=4).digest


def test_of_a_job_that_is_scaled_while_it_runs_the_least_counts() -> None:
    def scaled(replicas: int, **bounds: int) -> Recipe:
        obj = rayjob(pod(), replicas)
        cluster = obj["spec"]["rayClusterSpec"]
        cluster["enableInTreeAutoscaling"] = True
        cluster["workerGroupSpecs"][0] |= {"minReplicas": 2, "maxReplicas": 8} | bounds
        return recipe_of(read(obj), Evidence())

    assert scaled(2) == scaled(5) == scaled(8)
    assert scaled(5, minReplicas=4).digest != scaled(5).digest

    def elastic(workers: int) -> Recipe:
        obj = pytorchjob(pod(), workers + 1)
        obj["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 8}
        return recipe_of(read(obj), Evidence())

    assert elastic(3) == elastic(7)


@pytest.mark.parametrize(
    ("obj", "allocator"),
    [
        (pytorchjob(pod(), 2), Allocator.CACHING),
        (jaxjob(pod("python train.py"), 2), Allocator.PREALLOCATING),
        (jaxjob(pod("python train.py", env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}), 2), Allocator.CACHING),
        (jaxjob(pod("env XLA_PYTHON_CLIENT_PREALLOCATE=false python train.py"), 2), Allocator.CACHING),
        (jaxjob(pod("python train.py", env={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}), 2), Allocator.PREALLOCATING),
        # Another share of the card is taken at once, whatever is needed.
        (jaxjob(pod("python train.py", env={"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5"}), 2), Allocator.PREALLOCATING),
        (tfjob(pod("python train.py"), 2), Allocator.PREALLOCATING),
        (tfjob(pod("python train.py", env={"TF_FORCE_GPU_ALLOW_GROWTH": "true"}), 2), Allocator.CACHING),
        (rayjob(pod("python train.py"), 2), Allocator.UNKNOWN),
        (rayjob(pod("python train.py", image="nvcr.io/nvidia/jax:24.10-py3"), 2), Allocator.PREALLOCATING),
        (rayjob(pod("python train.py", image="pytorch/pytorch:2.4.0"), 2), Allocator.CACHING),
        (rayjob(pod("python -m MaxText.train base.yml"), 2), Allocator.PREALLOCATING),
        (rayjob(pod("torchrun train.py"), 2), Allocator.CACHING),
        (rayjob(pod("python train.py", env={"TF_FORCE_GPU_ALLOW_GROWTH": "false"}), 2), Allocator.PREALLOCATING),
    ],
)
def test_how_memory_is_taken_follows_from_the_framework_and_its_growth_setting(obj: Json, allocator: Allocator) -> None:
    assert recipe_of(read(obj), Evidence()).allocator is allocator


def test_a_growth_setting_makes_another_recipe() -> None:
    command = "python train.py"
    found = {recipe(command, env=env).digest for env in ({}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})}
    assert len(found) == 2


def test_jobs_of_the_corpus_with_one_recipe_differ_in_nothing_that_decides() -> None:
    """The shapes of public reports, 70 of them. None of what is one recipe differs in ranks, image or words, but for the
    name of a run in the one case that is about it."""
    found = defaultdict(set)
    for case in cases():
        for document in documents(case).values():
            asked, around = request(document), surroundings(case)
            job = read_job(asked.object, kind=asked.kind, namespace="a", user=asked.user, surroundings=around)
            if isinstance(job, TrainingJob) and job.device_roles:
                ranks = tuple(sorted((role.name, role.gang, role.devices, role.device) for role in job.device_roles))
                lines = {(one.image, *(word for word in one.line if word[:10] != "--run-name")) for one in job.programs}
                words = tuple(sorted(lines))
                found[recipe_of(job, Evidence()).digest].add((str(job.kind), ranks, words))
    assert len(found) > 30
    assert {digest: what for digest, what in found.items() if len(what) > 1} == {}
