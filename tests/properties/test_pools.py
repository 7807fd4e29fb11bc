"""Jobs that are given pools: what is written keeps them in their pool and on their model, widens nothing but by the
pool's tolerations, and is the same when asked again."""

from copy import deepcopy
from dataclasses import replace
from random import Random

import jsonpatch
from hypothesis import assume, event, given
from hypothesis import strategies as st

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.kinds import WRITTEN
from tests.properties import naive, strategies
from tests.properties.strategies import AFFINITY, CASES, HOLDS, PRODUCT, RARELY, SELECTORS, Case, examples, spellings
from tests.properties.test_any_json import assert_presentable
from tests.properties.test_pin import assert_only_grown
from tests.properties.test_train_job import SHAPES, as_train_job, jobs_of
from tests.samples import Json, ask, codes, patched, products
from webhook.answer.response import patch
from webhook.catalog.codes import action_of
from webhook.model.finding import Action
from webhook.model.job import PatchShape
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.policy import LabelSelector
from webhook.model.request import Stage
from webhook.model.rules import AcceleratorPool, Rules
from webhook.model.surroundings import NOTHING_IN_VIEW, Surroundings
from webhook.model.verdict import Review, Verdict

POOL = "samestep.dev/pool"
NAMESPACES = {"team-a": {"team": "a"}}
NAMES = ("first", "second", "third")


def holds(key: str, operator: Operator, *values: str) -> Requirement:
    return Requirement(key, operator, values)


NODES: st.SearchStrategy[LabelSelector] = st.lists(
    st.sampled_from(
        (
            holds("zone", Operator.IN, "a"),
            holds("zone", Operator.IN, "b"),
            holds("zone", Operator.EXISTS),
            holds("zone", Operator.NOT_IN, "a"),
            holds("pool", Operator.IN, "x", "y"),
            holds("pool", Operator.IN, "x"),
            holds("pool", Operator.DOES_NOT_EXIST),
            holds("rank", Operator.EXISTS),
            holds(PRODUCT, Operator.IN, RTX_5090.product),
            holds(PRODUCT, Operator.IN, RTX_5090.product, RTX_PRO_6000.product),
        )
    ),
    max_size=2,
).map(tuple)
TOLERATIONS = st.lists(
    st.sampled_from(
        (
            Toleration("dedicated", "Exists"),
            Toleration("dedicated", "Equal", "gpu", "NoSchedule"),
            Toleration("dedicated", "Equal", "", "NoExecute"),
            Toleration("", "Exists"),
        )
    ),
    max_size=2,
).map(tuple)
ALLOWED: st.SearchStrategy[tuple[LabelSelector, tuple[str, ...]]] = st.sampled_from(
    (
        *(((), ()),) * 4,
        ((holds("team", Operator.IN, "a"),), ()),
        ((), ("system:authenticated",)),
        ((holds("team", Operator.IN, "b"),), ("nobody",)),
    )
)


@st.composite
def pools(draw: st.DrawFn) -> tuple[AcceleratorPool, ...]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)):
        namespaces, groups = draw(ALLOWED)
        found.append(
            AcceleratorPool(
                name,
                draw(NODES),
                order=draw(st.integers(0, 2)),
                namespaces=namespaces,
                groups=groups,
                most=draw(st.sampled_from((None, None, 0, 1000))),
                tolerations=draw(TOLERATIONS),
                queue="lq" if draw(RARELY) else "",
                scheduler=draw(st.sampled_from(("gang", "volcano", "kai-scheduler"))) if draw(RARELY) else "",
            )
        )
    return tuple(found)


@st.composite
def cases(draw: st.DrawFn) -> "Pooled":
    case = draw(CASES)
    if draw(st.sampled_from((False, False, True))):
        metadata = case.job["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), POOL: draw(st.sampled_from((*NAMES, "none")))}
    return Pooled(case, draw(pools()))


class Pooled:
    """A case with pools."""

    def __init__(self, case: Case, drawn: tuple[AcceleratorPool, ...]) -> None:
        self.case, self.pools = case, drawn

    def __repr__(self) -> str:
        return f"Pooled({self.case!r}, {self.pools!r})"

    def review(
        self,
        obj: Json | None = None,
        *,
        old: Json | None = None,
        stage: Stage = Stage.MUTATE,
        seen: Surroundings = NOTHING_IN_VIEW,
    ) -> Review:
        case = self.case
        return ask(
            deepcopy(case.job if obj is None else obj),
            case.fleet,
            old=deepcopy(old),
            stage=stage,
            policy=case.policy,
            now=1000.0,
            surroundings=seen,
            rules=Rules((case.policy,), pools=self.pools),
            namespaces=NAMESPACES,
        )

    def pool(self, name: str) -> AcceleratorPool:
        return next(one for one in self.pools if one.name == name)


def tolerating(pod: Json, pool: AcceleratorPool) -> Json:
    """The pod spec with the pool's tolerations on it already."""
    more = [_written(one) for one in pool.tolerations]
    return {**pod, "tolerations": [*(pod.get("tolerations") or ()), *more]}


def _written(one: Toleration) -> Json:
    fields = {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
    return {name: value for name, value in fields.items() if value}


def in_pool(node: Json, pool: AcceleratorPool) -> bool:
    labels = node["metadata"]["labels"]
    return all(naive._holds(_as_json(one), labels) for one in pool.nodes)


def _as_json(one: Requirement) -> Json:
    return {"key": one.key, "operator": str(one.operator), "values": list(one.values)}


@examples(2)
@given(cases())
def test_what_a_job_is_given_leaves_it_in_its_pool_on_what_was_chosen(drawn: Pooled) -> None:
    outcome = drawn.review()
    event(f"{outcome.verdict} in a pool: {bool(outcome.decision.pool_name)}")
    assume(outcome.verdict is Verdict.PIN and outcome.decision.pool_name)
    pool, after = drawn.pool(outcome.decision.pool_name), patched(outcome)
    assert_only_grown(drawn.case.job, after)
    chosen = {spellings()[model.product] for model in outcome.decision.models}
    now = naive.device_pods(after)
    for name, (_, pod) in naive.device_pods(drawn.case.job).items():
        landing = naive.lands(now[name][1], drawn.case.nodes)
        before = naive.lands(tolerating(pod, pool), [one for one in drawn.case.nodes if in_pool(one, pool)])
        assert landing <= before
        if outcome.decision.pin is None:
            assert landing == before
        else:
            nodes = [one for one in drawn.case.nodes if one["metadata"]["name"] in landing]
            assert {node["metadata"]["annotations"][HOLDS] for node in nodes} <= chosen


@examples(2)
@given(cases())
def test_what_was_answered_is_admitted_unchanged_by_every_stage(drawn: Pooled) -> None:
    outcome = drawn.review()
    assume(outcome.verdict is not Verdict.DENY)
    after = patched(outcome)
    for stage in Stage:
        again = drawn.review(after, stage=stage)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
        if stage is Stage.MUTATE:
            assert again.decision.pool_name == outcome.decision.pool_name
        assert "SST302" not in codes(again)
        assert drawn.review(after, old=after, stage=stage).verdict is Verdict.ADMIT


@given(cases(), st.booleans())
def test_what_was_given_survives_that_the_file_without_it_is_put_in_place_again(drawn: Pooled, started: bool) -> None:
    outcome = drawn.review()
    assume(outcome.verdict is Verdict.PIN)
    # An update that leaves the spec alone is none of ours: a label that names a queue goes with it.
    assume(patched(outcome)["spec"] != drawn.case.job["spec"])
    status = {"status": {"startTime": "2026-07-31T00:00:00Z", "conditions": [{"type": "Running"}]}} if started else {}
    stored = patched(outcome) | status
    again = drawn.review(drawn.case.job | status, old=stored)
    assert patched(again)["spec"] == stored["spec"]
    assert patched(again)["metadata"] == stored["metadata"]
    assert drawn.review(patched(again), old=stored, stage=Stage.VALIDATE).verdict is Verdict.ADMIT


@given(cases())
def test_a_job_that_names_a_pool_is_in_that_one_or_in_none(drawn: Pooled) -> None:
    asked = (drawn.case.job["metadata"].get("annotations") or {}).get(POOL)
    assume(asked and drawn.case.policy.model)
    outcome = drawn.review()
    assert outcome.decision.pool_name in ("", asked)
    if asked not in {one.name for one in drawn.pools}:
        assert not patch(outcome)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_pools_are_told_makes_no_difference(drawn: Pooled, random: Random) -> None:
    shuffled = Pooled(drawn.case, tuple(random.sample(drawn.pools, len(drawn.pools))))
    assert shuffled.review() == drawn.review()


@given(cases())
def test_without_a_pool_that_it_may_use_a_job_is_decided_as_if_there_were_none(drawn: Pooled) -> None:
    assume(POOL not in (drawn.case.job["metadata"].get("annotations") or {}))
    others = tuple(replace(one, namespaces=(holds("team", Operator.IN, "b"),), groups=()) for one in drawn.pools)
    assert Pooled(drawn.case, others).review().decision == drawn.case.review().decision


@given(cases())
def test_what_is_suggested_is_admitted(drawn: Pooled) -> None:
    outcome = drawn.review()
    for one in outcome.suggestions:
        changed = jsonpatch.apply_patch(drawn.case.job, one.operations)
        assert drawn.review(changed).verdict is not Verdict.DENY


@given(cases(), st.sampled_from(sorted(WRITTEN)), st.sampled_from(Stage))
def test_every_kind_gets_an_answer(drawn: Pooled, kind: str, stage: Stage) -> None:
    pod = naive.pods(drawn.case.job)
    assume(pod)
    job = WRITTEN[kind](deepcopy(next(iter(pod.values()))[1]), 4)
    outcome = drawn.review(job, stage=stage)
    assert_presentable(outcome)
    if stage is Stage.MUTATE and outcome.verdict is Verdict.PIN:
        assert drawn.review(patched(outcome)).verdict is Verdict.ADMIT


@given(cases(), st.sampled_from(SHAPES))
def test_a_train_job_is_given_the_same(drawn: Pooled, shape: PatchShape) -> None:
    drawn = Pooled(drawn.case, tuple(replace(one, scheduler="") for one in drawn.pools))
    job, seen = as_train_job(drawn.case, [], shape)
    there, here = drawn.review(), drawn.review(job, seen=seen)
    same = (there.verdict, there.decision.pool_name, there.decision.pin, products(there))
    assert (here.verdict, here.decision.pool_name, here.decision.pin, products(here)) == same
    assume(here.verdict is not Verdict.DENY)
    stored = patched(here)
    for stage in Stage:
        again = drawn.review(stored, stage=stage, seen=seen)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
    if here.verdict is Verdict.PIN:
        assert patched(drawn.review(job, old=stored, seen=seen))["spec"] == stored["spec"]


@given(cases(), st.sampled_from(SHAPES))
def test_what_a_job_is_answered_that_cannot_be_kept_to_its_pool_is_what_the_check_says(
    drawn: Pooled, shape: PatchShape
) -> None:
    # No scheduler can be written into a TrainJob.
    pools = tuple(replace(one, scheduler="gang", namespaces=(), groups=()) for one in drawn.pools)
    drawn = Pooled(drawn.case, pools)
    job, seen = as_train_job(drawn.case, [], shape)
    job["metadata"]["annotations"] = {**(job["metadata"].get("annotations") or {}), POOL: pools[0].name}
    outcome = drawn.review(job, seen=seen)
    event(f"{outcome.verdict} {codes(outcome)}")
    checked = drawn.review(patched(outcome), seen=seen, stage=Stage.VALIDATE)
    assert checked.verdict is not Verdict.DENY or outcome.verdict is Verdict.DENY


LAYERS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"nodeSelector": SELECTORS, "affinity": AFFINITY, "tolerations": strategies.TOLERATIONS}
    ).map(deepcopy),
    max_size=2,
)


@given(cases(), LAYERS, st.sampled_from(SHAPES))
def test_whatever_a_train_job_lays_over_its_runtime_what_it_is_given_is_recognised_and_survives(
    drawn: Pooled, laid: list[Json], shape: PatchShape
) -> None:
    names = list(jobs_of(drawn.case))
    layers = [(names[index % len(names)], pod) for index, pod in enumerate(laid)]
    job, seen = as_train_job(drawn.case, layers, shape)
    outcome = drawn.review(job, seen=seen)
    assume(outcome.verdict is Verdict.PIN)
    stored = patched(outcome)
    assert_only_grown_in_lists_of_patches(job, stored, shape)
    for stage in Stage:
        again = drawn.review(stored, stage=stage, seen=seen)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])
        assert products(again) == products(outcome) or not outcome.decision.models
    assert patched(drawn.review(job, old=stored, seen=seen))["spec"] == stored["spec"]
    pods = {role.name: role for role in outcome.job.roles} if outcome.job else {}
    after = drawn.review(stored, seen=seen).job
    assert after is not None
    for role in after.roles:
        for toleration in pods[role.name].placement.tolerations:
            assert toleration in role.placement.tolerations


def assert_only_grown_in_lists_of_patches(before: Json, after: Json, shape: PatchShape) -> None:
    """An entry of ours may come before the others."""
    there = before["spec"].get(shape.value) or []
    now = after["spec"].get(shape.value) or []
    assert len(now) >= len(there)
    for old, new in zip(reversed(there), reversed(now), strict=False):
        assert_only_grown(old, new)


@given(cases())
def test_a_pool_that_may_grow_is_never_short_of_room_for_good(drawn: Pooled) -> None:
    grown = tuple(replace(one, most=1_000_000) for one in drawn.pools)
    outcome = Pooled(drawn.case, grown).review()
    if outcome.decision.pool_name:
        denying = {one.code for one in outcome.decision.findings if action_of(one) is Action.DENY}
        assert "SST401" not in denying
