"""What makes a job easier to place never turns an admission into a denial, and every way out leads out."""

from dataclasses import replace

import jsonpatch
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.properties.strategies import CASES, Case, Json, examples
from tests.samples import patched
from webhook.model.job import TrainingJob
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

MEMORY = st.integers(1, 200_000) | st.integers(1, 2_000_000)


@examples(2)
@given(CASES, MEMORY, MEMORY, st.sampled_from(("memory-per-device", "memory-per-sample")))
def test_less_declared_memory_never_turns_an_admission_into_a_denial(
    case: Case, one: int, other: int, annotation: str
) -> None:
    assume(case.review(declaring(case.job, annotation, max(one, other))).verdict is not Verdict.DENY)
    assert case.review(declaring(case.job, annotation, min(one, other))).verdict is not Verdict.DENY


@examples(2)
@given(CASES, st.integers(0, 7))
def test_a_copy_of_a_node_never_turns_an_admission_into_a_denial(case: Case, index: int) -> None:
    # A copy has another name: one that is asked for, or excluded, by name is not there twice.
    assume(case.nodes and "matchFields" not in str(case.job))
    assume(case.review().verdict is not Verdict.DENY)
    original = case.nodes[index % len(case.nodes)]
    metadata = original["metadata"]
    labels = metadata["labels"] | {"kubernetes.io/hostname": "copy"}
    copy = original | {"metadata": metadata | {"name": "copy", "labels": labels}}
    assert replace(case, nodes=[*case.nodes, copy]).review().verdict is not Verdict.DENY


@examples(0.4)
@given(CASES, st.none() | st.integers(300_000, 3_000_000))
def test_every_suggestion_is_admitted_when_it_is_applied(case: Case, kib: int | None) -> None:
    if kib is not None:  # much for each sample: smaller batches are suggested, too
        case = replace(case, job=declaring(case.job, "memory-per-sample", kib))
    outcome = case.review()
    assume(outcome.suggestions)
    assert outcome.verdict is Verdict.DENY
    kinds = [one.kind.partition("_")[0] for one in outcome.suggestions]
    assert len(kinds) == len(set(kinds)) <= 3
    assert replace(case, nodes=case.nodes[::-1]).review().suggestions == outcome.suggestions
    for suggestion in outcome.suggestions:
        changed: Json = jsonpatch.apply_patch(case.job, list(suggestion.operations))
        assert changed != case.job
        admitted = case.review(changed)
        assert admitted.verdict is not Verdict.DENY
        assert suggestion.model in admitted.decision.models
        assert case.review(patched(admitted), stage=Stage.VALIDATE).verdict is Verdict.ADMIT
        event(suggestion.kind)
        if suggestion.kind == "devices":
            assert outcome.job is not None
            assert admitted.job is not None
            assert devices(admitted.job) == devices(outcome.job)


def devices(job: TrainingJob) -> int:
    return sum(role.pods * role.devices for role in job.device_roles)


def declaring(job: Json, annotation: str, amount: int) -> Json:
    """Amounts in MiB for a device, in KiB for a sample."""
    declared = {f"samestep.dev/{annotation}": f"{amount}Mi"}
    if annotation == "memory-per-sample":
        declared = {f"samestep.dev/{annotation}": f"{amount}Ki", "samestep.dev/memory-fixed": "2Gi"}
    before = job["metadata"].get("annotations") or {}
    wishes = {key: before[key] for key in before if key in ("samestep.dev/model", "samestep.dev/sized-for")}
    return job | {"metadata": job["metadata"] | {"annotations": wishes | declared}}
