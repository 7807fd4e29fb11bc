"""Containers that are made to end with the last of their log."""

from typing import Any

import pytest

from tests.samples import Json, ask, job, patched, pod, pytorchjob, worker
from tests.unit.intake.runtimes import in_view, node, runtime, train_job
from webhook.answer.response import patch
from webhook.model.policy import Evidence, Policy, ValidationAction
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict

FALLBACK = "FallbackToLogsOnError"
ON = Policy(evidence=Evidence(termination_message=True))


def said(obj: Json) -> list[str | None]:
    return [one.get("terminationMessagePolicy") for one in worker(obj)["containers"]]


def ending(policy: Any, **spec: Any) -> Json:  # noqa: ANN401 - any JSON
    there = pod(**spec)
    there["containers"][0]["terminationMessagePolicy"] = policy
    return there


def test_nothing_is_changed_unless_policy_wants_it() -> None:
    assert said(patched(ask(pytorchjob()))) == [None]


@pytest.mark.parametrize("there", [None, "File"])
def test_a_created_job_gets_it_with_its_pin_where_nothing_else_or_the_default_is_set(there: str | None) -> None:
    outcome = ask(pytorchjob(ending(there)), policy=ON)
    assert outcome.verdict is Verdict.PIN
    assert said(patched(outcome)) == [FALLBACK]
    assert worker(patched(outcome))["nodeSelector"]


def test_a_job_that_needs_no_pin_gets_it_too() -> None:
    outcome = ask(pytorchjob(pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"})), policy=ON)
    assert outcome.verdict is Verdict.ADMIT
    assert said(patched(outcome)) == [FALLBACK]


@pytest.mark.parametrize("there", [FALLBACK, "Fantasy", 7, ["File"]])
def test_what_is_set_otherwise_stays(there: object) -> None:
    obj = pytorchjob(ending(there))
    assert said(patched(ask(obj, policy=ON))) == [there]


def test_a_second_time_nothing_is_left_to_change() -> None:
    once = patched(ask(pytorchjob(), policy=ON))
    assert patched(ask(once, policy=ON)) == once


def test_only_containers_with_devices_get_it() -> None:
    obj = pytorchjob()
    worker(obj)["containers"].append({"name": "logs", "image": "registry.example/logs:1"})
    worker(obj)["initContainers"] = [{"name": "fetch", "image": "registry.example/fetch:1"}]
    changed = patched(ask(obj, policy=ON))
    assert said(changed) == [FALLBACK, None]
    assert worker(changed)["initContainers"] == [{"name": "fetch", "image": "registry.example/fetch:1"}]


@pytest.mark.parametrize(
    "left_alone",
    [
        ask(pytorchjob(), policy=ON, stage=Stage.VALIDATE),
        ask(pytorchjob(memory_per_device="120Gi"), policy=ON),
        ask(pytorchjob(pod(gpus=0)), policy=ON),
        ask(pytorchjob(pod(gpus=1), workers=1), policy=ON),
        ask(pytorchjob(workers="four"), policy=ON),  # type: ignore[arg-type]
        ask(
            pytorchjob(),
            policy=Policy(evidence=Evidence(termination_message=True), validation_action=ValidationAction.AUDIT),
        ),
    ],
    ids=["the final object", "denied", "no devices", "one device", "cannot be read", "audit"],
)
def test_these_are_left_alone(left_alone: Review) -> None:
    assert [one for one in patch(left_alone) if "terminationMessagePolicy" in one["path"]] == []


def test_a_template_that_stands_in_another_object_is_left_alone() -> None:
    outcome = ask(train_job(), policy=ON, surroundings=in_view(runtime(node(gpus=4), nodes=2)))
    assert outcome.verdict is Verdict.PIN
    assert outcome.to_log == ()


def test_an_update_that_drops_it_gets_it_back_for_a_template_may_not_change() -> None:
    submitted = job()
    stored = patched(ask(submitted, policy=ON))
    replaced = {**submitted, "metadata": {**submitted["metadata"], "labels": {"by": "git"}}}
    worker(replaced)["containers"][0]["terminationMessagePolicy"] = "File"
    assert said(patched(ask(replaced, old=stored, policy=ON))) == [FALLBACK]


def test_an_update_of_what_never_had_it_is_left_alone() -> None:
    before = job()
    after = job(pod(command=("torchrun", "--nnodes=4", "other.py")))
    assert said(patched(ask(after, old=before, policy=ON))) == [None]
