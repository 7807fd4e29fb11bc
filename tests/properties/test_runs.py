"""Whatever stands in profiles: nothing fails, nothing is widened, what fits counts for a job and never against it."""

from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.profiles import known, profile
from tests.properties.strategies import CASES, NAMES, PLAIN, Case, examples
from tests.properties.test_stability import told
from tests.samples import patched
from webhook.answer.response import admission_response, patch
from webhook.evidence.recipe import recipe_of
from webhook.model.demand import DemandSource
from webhook.model.policy import Evidence
from webhook.model.profile import Allocator, Observation, OutOfMemory, Profile, Recipe
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

PRODUCTS = st.sampled_from([offer.holds for offer in PLAIN])
ODD = st.sampled_from((float("nan"), float("inf"), -1.0, 1e300, 0.0))
TIMES = st.floats(0, 1000) | ODD
EVENTS = st.builds(OutOfMemory, TIMES, st.sampled_from(NAMES), st.integers(0, 3) | st.just(1 << 80))


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    memory = draw(st.sampled_from((32_607.0, 97_887.0, 81_559.0)) | ODD)
    return Observation(
        product=draw(PRODUCTS | st.text(max_size=20)),
        memory_mib=memory,
        runs=draw(st.integers(-1, 5)),
        good_at=draw(st.none() | TIMES),
        peak_mib=draw(st.none() | st.floats(1, 100_000) | ODD),
        out_of_memory=draw(st.none() | EVENTS),
        imbalance=draw(st.none() | st.floats(0, 1) | ODD),
    )


@st.composite
def profiles(draw: st.DrawFn, recipe: Recipe) -> list[Profile]:
    """Of the recipe itself, and of neighbours with other micro-batches."""
    own = replace(recipe, allocator=draw(st.sampled_from(Allocator)))
    found = [profile(own, *draw(st.lists(observations(), max_size=4)), name="own")]
    for number, batch in enumerate(draw(st.lists(st.integers(-1, 256) | st.just(1 << 70), max_size=4))):
        near = replace(own, digest=f"near-{number}", micro_batch=batch)
        found.append(profile(near, *draw(st.lists(observations(), max_size=4)), name=f"near-{number}"))
    return found


@st.composite
def seen(draw: st.DrawFn) -> tuple[Case, list[Profile]]:
    """A case whose job was seen to run."""
    case = draw(CASES)
    job = case.review().job
    assume(job is not None and job.device_roles)
    assert job is not None
    found = draw(profiles(recipe_of(job, Evidence())))
    return replace(case, profiles=known(*found)), found


@examples(1)
@given(seen(), st.sampled_from(Stage))
def test_no_profile_makes_a_review_fail_and_the_answer_is_the_same_twice(
    case: tuple[Case, list[Profile]], stage: Stage
) -> None:
    outcome, again = case[0].review(stage=stage), case[0].review(stage=stage)
    assert admission_response(outcome) == admission_response(again)
    assert told(replace(case[0], profiles=known(*case[1][::-1])).review(stage=stage)) == told(outcome)


@examples(0.5)
@given(seen())
def test_what_was_admitted_or_pinned_by_them_is_admitted_unchanged(case: tuple[Case, list[Profile]]) -> None:
    outcome = case[0].review()
    assume(outcome.verdict is not Verdict.DENY)
    after = patched(outcome)
    for stage in Stage:
        again = case[0].review(after, stage=stage)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])


@examples(0.5)
@given(seen(), PRODUCTS)
def test_one_more_good_run_never_turns_an_admission_into_a_denial(
    case: tuple[Case, list[Profile]], product: str
) -> None:
    assume(case[0].review().verdict is not Verdict.DENY)
    own, *others = case[1]
    good = Observation(product, 32_607.0, runs=1, good_at=1000.0)
    more = replace(own, observations=(*own.observations, good))
    assert replace(case[0], profiles=known(more, *others)).review().verdict is not Verdict.DENY


@examples(0.5)
@given(seen())
def test_what_was_seen_of_memory_denies_nothing_but_where_devices_ran_out(case: tuple[Case, list[Profile]]) -> None:
    outcome = case[0].review()
    assume(outcome.demand.source is DemandSource.OBSERVED)
    event("a line" if outcome.lessons.batches else "a peak")
    assert not [one.code for one in outcome.decision.findings if one.code == "SST201"]
    low, likely, high = outcome.demand.low_mib, outcome.demand.likely_mib, outcome.demand.high_mib
    assert high is not None
    assert sorted(ends := [one for one in (low, likely, high) if one is not None]) == ends
