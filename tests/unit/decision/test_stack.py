"""The image and the program against the GPUs that are asked for, and CUDA against the driver."""

import pytest

from controlplane.nodes import A100_80GB, H100
from tests.samples import Json, ask, nodes, patched, pod, products, pytorchjob
from webhook.model.verdict import Review, Verdict

ROCM = "docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0"
CUDA_13 = "pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime"
MAJOR = "nvidia.com/cuda.runtime-version.major"


def running(image: str, *, command: tuple[str, ...] = ("torchrun", "train.py")) -> Json:
    spec = pod(command=command)
    spec["containers"][0]["image"] = image
    return pytorchjob(spec, memory_per_device="20Gi")


def mismatches(outcome: Review) -> list[tuple[str, dict[str, object]]]:
    return [(one.variant, dict(one.facts)) for one in outcome.decision.findings if one.code == "SST502"]


def drivers(*majors: str | None, key: str = MAJOR) -> list[Json]:
    """Two H100 nodes and two A100 nodes, with these majors in their labels."""
    known = nodes((H100, 2, 8), (A100_80GB, 2, 4))
    for node, major in zip(known, majors, strict=True):
        if major is not None:
            node["metadata"]["labels"][key] = major
    return known


def test_an_image_for_another_vendor_is_told_and_denies_nothing() -> None:
    outcome = ask(running(ROCM))
    assert outcome.verdict is Verdict.PIN
    assert [facts["stack"] for _, facts in mismatches(outcome)] == ["ROCm"]


@pytest.mark.parametrize(
    "image", ["pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "registry.example/train:1", "x:cuda12.1-rocm6.0"]
)
def test_the_right_image_and_one_that_shows_nothing_are_not(image: str) -> None:
    assert mismatches(ask(running(image))) == []


def test_a_program_for_another_vendor_is_told() -> None:
    launched = running(
        "registry.example/train:1", command=("python", "/opt/gaudi_spawn.py", "--world_size", "8", "x.py")
    )
    assert [(kind, facts["stack"]) for kind, facts in mismatches(ask(launched))] == [("program", "Gaudi")]


def test_a_newer_cuda_than_the_drivers_on_the_chosen_nodes_is_told_with_how_many() -> None:
    outcome = ask(running(CUDA_13), drivers("12", "13", "12", "12"))
    assert products(outcome) == [H100.product]
    assert mismatches(outcome) == [("driver", {"image": CUDA_13, "major": 13, "driver": 12, "nodes": 1, "all": 2})]


@pytest.mark.parametrize("majors", [("13", "13", "12", "12"), (None, None, "12", "12"), ("14", "?", "12", "12")])
def test_drivers_that_are_new_enough_or_say_nothing_are_no_matter(majors: tuple[str | None, ...]) -> None:
    outcome = ask(running(CUDA_13), drivers(*majors))
    assert products(outcome) == [H100.product]
    assert mismatches(outcome) == []


def test_the_older_label_counts_where_the_newer_is_not_there() -> None:
    old = "nvidia.com/cuda.runtime.major"
    assert len(mismatches(ask(running(CUDA_13), drivers("12", "12", "12", "12", key=old)))) == 1
    both = drivers("12", "12", "12", "12", key=old)
    for node in both:
        node["metadata"]["labels"][MAJOR] = "13"
    assert mismatches(ask(running(CUDA_13), both)) == []


def test_what_was_told_is_told_again_of_the_pinned_job() -> None:
    outcome = ask(running(ROCM))
    again = ask(patched(outcome))
    assert again.verdict is Verdict.ADMIT
    assert mismatches(again) == mismatches(outcome)
