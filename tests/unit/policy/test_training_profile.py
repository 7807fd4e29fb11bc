"""From what was seen to an object and back, within the object's bounds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kinds import pytorchjob
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.profile import Allocator, Observation, OutOfMemory, Profile, Recipe
from webhook.model.request import Kind, User
from webhook.policy.training_profile import (
    MOST_OBSERVATIONS,
    ProfileError,
    TrainingProfile,
    document_of,
    name_of,
    read_profile,
    training_of,
)

DIGESTS = st.text("0123456789abcdef", min_size=16, max_size=64)
SECONDS = st.integers(1_600_000_000, 2_500_000_000).map(float)
MIB = st.integers(0, 2_000_000).map(float)


@st.composite
def observations(draw: st.DrawFn, product: str) -> Observation:
    runs = draw(st.integers(0, 1000))
    return Observation(
        product=product,
        memory_mib=draw(MIB),
        runs=runs,
        good_at=draw(SECONDS) if runs else None,
        peak_mib=draw(st.none() | MIB),
        seen_at=draw(SECONDS),
        out_of_memory=draw(st.none() | st.builds(OutOfMemory, SECONDS, st.just("llama-7"), st.integers(1, 9))),
        imbalance=draw(st.none() | st.integers(0, 100).map(lambda share: share / 100)),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    recipe = draw(
        st.builds(Recipe, DIGESTS, DIGESTS, st.none() | st.integers(1, 2**31), st.sampled_from(list(Allocator)))
    )
    seen = [draw(observations(f"NVIDIA-{number}")) for number in range(draw(st.integers(0, MOST_OBSERVATIONS)))]
    seen.sort(key=lambda one: (-one.seen_at, one.product))
    return Profile("team-a", name_of(recipe), recipe, tuple(seen))


@given(profiles())
def test_what_is_written_is_read_again(profile: Profile) -> None:
    assert read_profile(document_of(profile)) == profile


@given(
    st.lists(st.builds(Observation, st.text(min_size=1), st.floats(0, 1e7), seen_at=SECONDS), max_size=40),
    st.text(),
    st.lists(st.sampled_from(("a", "b")), max_size=40),
)
def test_whatever_is_seen_is_written_within_bounds(seen: list[Observation], job: str, policies: list[str]) -> None:
    seen = [*{one.product: one for one in seen}.values()]
    ran_out = [Observation("x", 1.5, 3, None, 0.25, 1.7e9, OutOfMemory(1.7e9, job, 0), 7.0)] if job else []
    profile = Profile("team-a", "recipe-x", Recipe("0" * 16, "1" * 16), (*seen, *ran_out))
    document = document_of(profile, policies=policies)
    again = [one.product for one in read_profile(document).observations]
    assert len(again) == min(len({one.product[:253] for one in profile.observations}), MOST_OBSERVATIONS)


def test_columns_of_kubectl_are_told_in_a_few_words() -> None:
    seen = (
        Observation("H100", 81559, 3, 1_796_050_000, 61_234, 1_796_050_000),
        Observation("L4", 23034, 0, None, None, 1_796_000_000, OutOfMemory(1_796_000_000, "ddp", 2)),
    )
    profile = Profile("team-a", "recipe-0", Recipe("0" * 20, "1" * 20, 8, Allocator.CACHING), seen)
    spec: Any = document_of(profile)["spec"]
    assert spec["summary"] == {
        "models": "H100 (3), L4 (0)",
        "runs": 3,
        "outOfMemory": "L4",
        "peak": "59.8 GiB",
        "lastSeen": "2026-11-30T14:46:40Z",
    }


def test_a_profile_tells_what_was_trained_without_arguments_and_without_secrets() -> None:
    words = ["torchrun", "train.py", "--model_name_or_path=meta-llama/Llama-3.1-8B", "--per_device_train_batch_size=8"]
    words += ["--hub_token=hf_secret", "--output_dir=/home/ann/out", "--optim=adamw_torch"]
    container: dict[str, Any] = {
        "name": "a",
        "image": "ann:pw@registry.example/train:1@sha256:" + "0" * 64,
        "command": words,
    }
    container |= {"env": [{"name": "KEY", "value": "secret"}], "resources": {"limits": {"nvidia.com/gpu": 8}}}
    obj = pytorchjob({"containers": [container]}, 2)
    job = read_job(obj, kind=Kind("kubeflow.org", "v1", "PyTorchJob"), namespace="team-a", user=User())
    assert isinstance(job, TrainingJob)
    document = document_of(Profile("team-a", "recipe-0", Recipe("0" * 20, "1" * 20)), training_of(job), ["one"])
    assert document["spec"]["training"] == {
        "kind": "PyTorchJob.kubeflow.org",
        "image": "registry.example/train:1",
        "trainer": "Hugging Face Trainer",
        "model": "meta-llama/Llama-3.1-8B",
        "devices": 16,
    }
    assert document["spec"]["policies"] == ["one"]
    assert not [secret for secret in ("hf_", "pw", "secret", "/home", "output") if secret in str(document)]
    assert TrainingProfile.model_validate(document).spec.training.devices == 16


def test_a_bad_one_is_refused_by_its_fields_in_a_line() -> None:
    document = document_of(Profile("team-a", "recipe-0", Recipe("0" * 20, "1" * 20)))
    document["spec"] |= {"a": 1, "b": 2, "c": 3, "d": "x\ny" * 1000}
    with pytest.raises(ProfileError, match=r"^spec\.a: Extra inputs .*; spec\.b: .*; and 1 problems more$"):
        read_profile(document)
