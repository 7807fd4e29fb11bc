import pytest

from webhook.catalog.allocators import frameworks, frameworks_in, memory_variables
from webhook.catalog.workloads import workloads


@pytest.mark.parametrize(
    ("image", "framework"),
    [
        ("nvcr.io/nvidia/jax:24.10-py3", "JAX"),
        ("registry.example:5000/mirror/ghcr.io/nvidia/jax:nightly", "JAX"),
        ("us-docker.pkg.dev/cloud-tpu-images/jax-ai-image/gpu:latest", "JAX"),
        ("tensorflow/tensorflow:2.17.0-gpu", "TensorFlow"),
        ("registry.example/team/tensorflow:1", "TensorFlow"),
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "PyTorch"),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "PyTorch"),
        ("winglian/axolotl:main", "PyTorch"),
    ],
)
def test_an_image_shows_its_framework(image: str, framework: str) -> None:
    assert [one.framework for one in frameworks_in(image)] == [framework]


@pytest.mark.parametrize("image", ["", "registry.example/train:1", "python:3.11", "team/ajax:1", "x" * 10_000])
def test_one_that_shows_none_is_not_guessed_at(image: str) -> None:
    assert frameworks_in(image) == ()


def test_every_kind_that_names_a_framework_is_one_that_is_read() -> None:
    known = {f"{one.kind}.{one.group}" for one in workloads().reviewed}
    assert {kind for one in frameworks() for kind in one.kinds} <= known


def test_the_variables_are_those_of_frameworks_and_of_trainers() -> None:
    assert {
        "XLA_PYTHON_CLIENT_PREALLOCATE",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "FSDP_SHARDING_STRATEGY",
    } <= memory_variables()
