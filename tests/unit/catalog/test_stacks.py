import pytest

from webhook.catalog.accelerators import accelerators
from webhook.catalog.stacks import ImageSign, built_for, stack_of_program, stacks


@pytest.mark.parametrize(
    ("image", "stack", "major"),
    [
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", "CUDA", 12),
        ("docker.io/nvidia/cuda:11.8.0-base@sha256:0123", "CUDA", 11),
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "CUDA", 12),
        ("registry.example:5000/team/axolotl:main-py3.11-cu130-2.9", "CUDA", 13),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "CUDA", 0),
        ("registry.example:5000/rocm/pytorch", "ROCm", 0),
        ("registry.example/train:rocm6.2", "ROCm", 0),
        ("vault.habana.ai/gaudi-docker/1.20.0/ubuntu22.04/habanalabs/pytorch-installer-2.6.0:latest", "Gaudi", 0),
        ("quay.io/ascend/vllm-ascend:v0.18.0", "Ascend", 0),
        ("us-docker.pkg.dev/cloud-tpu-images/jax-ai-image/tpu:latest", "TPU", 0),
    ],
)
def test_an_image_shows_what_it_was_built_for(image: str, stack: str, major: int) -> None:
    built = built_for(image)
    assert built is not None
    assert (built.stack.stack, built.major) == (stack, major)


@pytest.mark.parametrize(
    "image",
    [
        "",
        "python:3.11",
        "pytorch/pytorch:latest",
        "registry.example/barracuda12.1:v1",
        "registry.example/cuda12.4-tools:1",
        "train:barracuda12.1",
        "train:focus118",
        "nvidia/dcgm-exporter:3.3.5",
        "train:cuda12.1-rocm6.0",
        "x" * 10_000,
        "train:cuda" + "9" * 400 + ".1",
    ],
)
def test_one_that_shows_nothing_for_sure_is_not_guessed_at(image: str) -> None:
    assert built_for(image) is None


def test_a_program_is_known_by_its_file_name() -> None:
    found = stack_of_program(("python", "../gaudi_spawn.py", "--use_deepspeed"))
    assert found is not None
    assert (found[0], found[1].stack) == ("gaudi_spawn.py", "Gaudi")
    assert stack_of_program(("python", "my_gaudi_spawn.py.bak")) is None


def test_every_vendor_of_a_stack_is_one_that_the_catalog_knows() -> None:
    known = {vendor.name for vendor in accelerators().vendors}
    assert {vendor for stack in stacks() for vendor in stack.vendors} <= known


def test_a_sign_without_a_name_and_a_tag_is_an_error() -> None:
    with pytest.raises(ValueError, match="name: or tag:"):
        ImageSign()
