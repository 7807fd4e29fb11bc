"""The promise: after the patch exactly the chosen models are left, with their room, and nothing got wider."""

from typing import Any

from hypothesis import assume, given

from controlplane.nodes import A100_80GB, H100
from tests.properties import naive
from tests.properties.strategies import CASES, CLOUD_KEYS, HOLDS, PRODUCT, Case, spellings
from tests.samples import Json, patched
from webhook.answer.response import patch
from webhook.catalog.accelerators import accelerators
from webhook.decision.pool import target_pool
from webhook.decision.scope import Treatment, scope
from webhook.model.policy import Likeness, RoomRule
from webhook.model.verdict import Verdict


@given(CASES)
def test_after_the_patch_the_target_pool_holds_exactly_what_was_chosen(case: Case) -> None:
    outcome = case.review()
    assume(outcome.verdict is Verdict.PIN)
    after = patched(outcome)

    chosen = {spellings()[model.product] for model in outcome.decision.models}
    assert len(chosen) == 1 or kept_off(case) or may_count_as_one(case, chosen)
    before_nodes, after_nodes = reached(case, case.job), reached(case, after)
    assert after_nodes
    assert {node["metadata"]["annotations"][HOLDS] for node in after_nodes} <= chosen
    all_of_chosen = [node for node in before_nodes if node["metadata"]["annotations"][HOLDS] in chosen]
    # Of models that count as one, a label may leave no more than some.
    candidate = outcome.decision.candidate
    fewer = candidate is not None and candidate.models != outcome.decision.models
    assert after_nodes == all_of_chosen or fewer or not separable(case, all_of_chosen, before_nodes)

    again = case.review(after).job
    assert again is not None
    pool = target_pool(again, case.fleet)
    assert tuple(pool.models) == outcome.decision.models
    assert not pool.nodes & (pool.unknown | pool.two_models | pool.shares)


@given(CASES)
def test_after_the_patch_the_gang_has_its_room_where_the_decision_said_so(case: Case) -> None:
    outcome = case.review()
    short = any(one.code == "SST401" and one.variant != "packing" for one in outcome.decision.findings)
    assume(outcome.verdict is Verdict.PIN and not short)
    # Room is promised to ranks; pods that are only kept on what they ask for may wait for it.
    assert outcome.job is not None
    assume(case.policy.room is not RoomRule.IGNORE)
    assume(scope(outcome.job, case.policy).treatment is Treatment.ONE_MODEL)
    roles = naive.device_pods(patched(outcome))
    for gang, pod in roles.values():
        assert sum(naive.held(pod, node) for node in case.nodes if naive.lands(pod, [node])) >= gang
    for device in {naive.device(pod) for _, pod in roles.values()}:
        alike = [(gang, pod) for gang, pod in roles.values() if naive.device(pod) == device]
        there = [node for node in case.nodes if any(naive.lands(pod, [node]) for _, pod in alike)]
        wanted = sum(gang * naive.requests(pod)[device] for gang, pod in alike)
        assert sum(naive.offered(node, device) for node in there) >= wanted


@given(CASES)
def test_a_patch_only_adds_and_no_role_reaches_a_node_that_it_did_not_reach_before(case: Case) -> None:
    outcome = case.review()
    assume(patch(outcome))
    after = patched(outcome)
    assert_only_grown(case.job, after)
    before_roles, after_roles = naive.pods(case.job), naive.pods(after)
    for name, (_, pod) in before_roles.items():
        assert naive.lands(after_roles[name][1], case.nodes) <= naive.lands(pod, case.nodes)


def reached(case: Case, job: Json) -> list[Json]:
    names = {name for _, pod in naive.device_pods(job).values() for name in naive.lands(pod, case.nodes)}
    return [node for node in case.nodes if node["metadata"]["name"] in names]


def kept_off(case: Case) -> bool:
    """Whether the job was not narrowed to one model, only kept off some: it runs on one node."""
    return any(one.variant == "kept-off" for one in case.review().decision.findings)


def may_count_as_one(case: Case, chosen: set[str]) -> bool:
    """Whether policy lets these run together: one of its classes has them all, or they are the two of the drawn models
    that have the same memory."""
    named = (
        {one for one in chosen if {one, accelerators().short_name(one)} & set(names)} for names in case.policy.classes
    )
    equivalent = case.policy.likeness is Likeness.EQUIVALENT and chosen == {A100_80GB.product, H100.product}
    return chosen in named or equivalent


def separable(case: Case, chosen: list[Json], pool: list[Json]) -> bool:
    """Whether there is a key that all chosen nodes carry and no other node of the pool with the same values."""
    rest = [node for node in pool if node not in chosen]
    for key in (*case.policy.pin_keys, PRODUCT, *CLOUD_KEYS):
        values = {node["metadata"]["labels"].get(key) for node in chosen}
        if None not in values and not any(node["metadata"]["labels"].get(key) in values for node in rest):
            return True
    return False


def assert_only_grown(before: Any, after: Any) -> None:  # noqa: ANN401 - JSON
    """Everything that was there is there still; what was null counts as not there."""
    match before:
        case None:
            pass
        case dict():
            for key, value in before.items():
                assert_only_grown(value, after[key])
        case list():
            assert len(after) >= len(before)
            for old, new in zip(before, after, strict=False):
                assert_only_grown(old, new)
        case _:
            assert after == before
