"""The story of a decision is that decision's: step by step, it comes to the same end."""

from itertools import pairwise

from hypothesis import assume, event, given

from tests.properties import naive
from tests.properties.strategies import CASES, Case
from tests.samples import ask
from webhook.decision.story import Listener, Story
from webhook.model.verdict import Review


def told(case: Case) -> tuple[Review, Story]:
    heard = Listener()
    outcome = ask(case.job, case.fleet, policy=case.policy, now=1000.0, tell=heard)
    story = heard.story(outcome)
    assume(story is not None)
    assert story is not None
    return outcome, story


@given(CASES)
def test_the_steps_of_each_role_end_in_the_nodes_on_which_its_pods_may_land(case: Case) -> None:
    outcome, story = told(case)
    assume(story.landings)
    pods = naive.device_pods(case.job)
    assert {role.name for one in story.landings for role in one.roles} == set(pods)
    for landing in story.landings:
        steps = landing.steps
        assert steps[0].before == landing.every == len(case.fleet.nodes)
        assert all(one.left == other.before and one.left <= one.before for one, other in pairwise(steps))
        assert steps[-1].left == landing.nodes
        kinds = (landing.unknown, landing.two_models, landing.shares)
        assert landing.nodes == sum(landing.models.values()) + sum(kinds)
        for role in landing.roles:
            assert landing.nodes == len(naive.lands(pods[role.name][1], case.nodes))
    assert outcome.decision.pool.nodes <= sum(one.nodes for one in story.landings)


@given(CASES)
def test_a_step_that_leaves_none_is_the_first_and_the_terms_of_an_affinity_begin_where_it_does(case: Case) -> None:
    _, story = told(case)
    for step in (step for landing in story.landings for step in landing.steps):
        assert step.near is None or (step.before and not step.left)
        for term in (term for term in step.terms if term):
            assert term[0].before == step.before
            assert all(one.left == other.before for one, other in pairwise(term))
            assert term[-1].left <= step.left
        if len(step.terms) == 1 and step.terms[0]:
            assert step.terms[0][-1].left == step.left


@given(CASES)
def test_the_choice_and_the_label_key_are_those_of_the_decision(case: Case) -> None:
    outcome, story = told(case)
    event(outcome.verdict)
    models = outcome.decision.models
    if story.chosen is not None:
        among = (story.chosen.among, *(one.left for one in story.chosen.narrowed))
        assert all(set(one) > set(other) or one == other for one, other in pairwise(among))
        assert len(among[-1]) == 1
        if models:
            assert among[-1][0].model == models[0]
    pin = outcome.decision.pin
    if pin is not None:
        assert story.keys is not None
        assert story.keys.pin == pin
        (taken,) = [one for one in story.keys.keys if one.key == pin.key]
        assert taken.values == pin.values
        assert taken.nodes <= story.keys.nodes


@given(CASES)
def test_the_gates_leave_what_the_choice_is_among(case: Case) -> None:
    outcome, story = told(case)
    left = outcome.decision.pool.candidates
    for gate in story.gates:
        assert {*gate.out, *gate.left} == set(left)
        left = gate.left
    if story.chosen is not None and not any(one.code == "SST401" for one in outcome.decision.findings):
        assert story.chosen.among == left


@given(CASES)
def test_the_parts_add_up_to_the_demand(case: Case) -> None:
    outcome, story = told(case)
    assume(story.parts)
    demand = outcome.demand
    ends = ((one.low_mib, one.likely_mib, one.high_mib) for one in story.parts)
    for whole, parts in zip((demand.low_mib, demand.likely_mib, demand.high_mib), zip(*ends, strict=True), strict=True):
        assert whole is not None
        assert abs(sum(parts) - whole) < 1e-6 * whole


@given(CASES)
def test_whoever_listens_changes_nothing(case: Case) -> None:
    outcome, _ = told(case)
    assert outcome == case.review()
