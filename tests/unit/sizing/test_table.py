"""The policy's own table: which entry is for a job."""

import pytest

from tests.unit.intake.jobs import container, job, read
from webhook.model.job import TrainingJob
from webhook.model.policy import TabledMemory
from webhook.sizing.table import entry_for

IMAGE = "registry.example/team/vision-train:1.4"


def trained(*command: str, image: str = IMAGE) -> TrainingJob:
    return read(job(container(*command, image=image)))


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*/vision-train*", True),
        (IMAGE, True),
        ("registry.example/*:1.?", True),
        ("vision-train*", False),
        ("*/VISION-train*", False),
        ("*/speech-train*", False),
    ],
)
def test_an_image_matches_as_a_whole(pattern: str, matches: bool) -> None:
    found = entry_for(trained("python", "train.py"), [TabledMemory(1, image=pattern)])
    assert (found == 0) is matches


@pytest.mark.parametrize(
    ("command", "args", "matches"),
    [
        (("python", "train.py", "--arch", "resnet50"), {"--arch": "resnet50"}, True),
        (("python", "train.py", "--arch=resnet50"), {"--arch": "resnet*"}, True),
        (("python", "train.py", "--arch", "resnet50", "--arch", "vit"), {"--arch": "resnet50"}, False),
        (("python", "train.py", "--arch", "resnet50"), {"--arch": "resnet5"}, False),
        (("python", "train.py", "--architecture", "resnet50"), {"--arch": "*"}, False),
        (("torchrun", "train.py", "--arch", "vit", "--amp"), {"--arch": "vit", "--amp": "*"}, True),
        (("torchrun", "train.py", "--amp", "--arch", "vit"), {"--amp": ""}, True),
        (("torchrun", "train.py", "--arch", "vit"), {"--arch": "vit", "--amp": "*"}, False),
        (("python", "train.py", "model=vit"), {"model=": "vit"}, True),
        (("sh", "-c", "pip install . && exec python train.py --arch=vit $X"), {"--arch": "vit"}, True),
        (("sh", "-c", "python a.py --arch vit; python b.py --amp"), {"--arch": "vit", "--amp": "*"}, False),
    ],
)
def test_flags_match_by_the_last_value_that_one_program_is_given(
    command: tuple[str, ...],
    args: dict[str, str],
    matches: bool,
) -> None:
    found = entry_for(trained(*command), [TabledMemory(1, args=tuple(args.items()))])
    assert (found == 0) is matches


def test_image_and_flags_must_match_in_one_container() -> None:
    table = [TabledMemory(1, image="*/b", args=(("--arch", "vit"),))]
    apart = job(container("python", "x.py", "--arch", "vit", image="r/a"), container("python", "y.py", image="r/b"))
    assert entry_for(read(apart), table) is None
    assert entry_for(trained("python", "x.py", "--arch", "vit", image="r/b"), table) == 0


def test_a_container_that_runs_what_is_in_its_image_matches_by_that() -> None:
    assert entry_for(trained(), [TabledMemory(1, image="*/vision-train*")]) == 0


def test_the_model_that_the_trainer_is_told_matches_without_regard_to_case_or_folder() -> None:
    table = [TabledMemory(1, model="llama-3.1-*")]
    flags = ("--per_device_train_batch_size", "1", "--optim", "sgd", "--model_name_or_path")
    assert entry_for(trained("torchrun", "train.py", *flags, "meta-llama/Llama-3.1-8B"), table) == 0
    assert entry_for(trained("torchrun", "train.py", *flags, "/models/Llama-3.1-70B/"), table) == 0
    assert entry_for(trained("torchrun", "train.py", *flags, "gpt2"), table) is None
    assert entry_for(trained("python", "train.py", "llama-3.1-8b"), table) is None


def test_the_first_entry_that_matches_counts() -> None:
    table = [TabledMemory(1, image="*/other"), TabledMemory(2, image="*/vision*"), TabledMemory(3, image="*")]
    assert entry_for(trained("python", "train.py"), table) == 1
    assert entry_for(trained("python", "train.py"), []) is None
