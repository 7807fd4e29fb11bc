"""The same question gets the same answer: asked twice, asked of what came of it, or asked in another order."""

from random import Random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.strategies import CASES, Case, examples, under
from tests.samples import Json, codes, patched, products
from webhook.answer.response import admission_response, patch
from webhook.model.policy import ValidationAction
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict


@examples(2)
@given(CASES)
def test_what_was_admitted_or_pinned_is_admitted_unchanged_by_every_stage(case: Case) -> None:
    outcome = case.review()
    assume(outcome.verdict is not Verdict.DENY)
    after = patched(outcome)
    for stage in Stage:
        again = case.review(after, stage=stage)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
        assert case.review(after, old=after, stage=stage).verdict is Verdict.ADMIT


@given(CASES, st.booleans())
def test_a_pin_survives_that_the_file_without_it_is_put_in_place_again(case: Case, started: bool) -> None:
    outcome = case.review()
    assume(outcome.verdict is Verdict.PIN)
    status = {"status": {"startTime": "2026-07-31T00:00:00Z", "conditions": [{"type": "Running"}]}} if started else {}
    stored = patched(outcome) | status
    again = case.review(case.job | status, old=stored)
    assert patched(again)["spec"] == stored["spec"]
    assert case.review(patched(again), old=stored, stage=Stage.VALIDATE).verdict is Verdict.ADMIT


@given(CASES, st.randoms(use_true_random=False))
def test_the_order_of_nodes_keys_and_roles_makes_no_difference(case: Case, random: Random) -> None:
    outcome = case.review()
    nodes = random.sample(case.nodes, len(case.nodes))
    other = Case(shuffled(case.job, random), nodes, case.policy, case.grows, case.stale)
    assert told(other.review()) == told(outcome)


@given(CASES, st.sampled_from((ValidationAction.AUDIT, ValidationAction.WARN)), st.sampled_from(Stage))
def test_only_a_policy_that_denies_denies(case: Case, action: ValidationAction, stage: Stage) -> None:
    strict = case.review(stage=stage)
    outcome = under(action, case).review(stage=stage)
    assert outcome.verdict is not Verdict.DENY
    assert outcome.would_be is strict.verdict
    assert admission_response(outcome)["allowed"] is True
    if action is ValidationAction.AUDIT:
        assert not patch(outcome)
        assert "warnings" not in admission_response(outcome)
    elif strict.verdict is Verdict.PIN:
        assert patch(outcome) == patch(strict)


def told(outcome: Review) -> Json:
    """The answer; of roles that are alike any may stand in its sentences."""
    return {
        "verdict": outcome.verdict,
        "pin": outcome.decision.pin and (outcome.decision.pin.key, outcome.decision.pin.values),
        "models": products(outcome),
        "pool": {(one.model.product, one.usable_mib, one.devices, one.out) for one in outcome.decision.pool.candidates},
        "demand": outcome.demand,
        "codes": sorted(codes(outcome)),
        "patched": patched(outcome),
    }


def shuffled(value: Any, random: Random) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict():
            keys = random.sample(list(value), len(value))
            return {key: shuffled(value[key], random) for key in keys}
        case list():
            return [shuffled(one, random) for one in value]
    return value
