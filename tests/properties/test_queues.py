"""Jobs in a Kueue queue: whatever its flavors, the pods of an admitted job are on one model, and none waits.

Which flavors Kueue may assign is said here a second time, over raw objects and pods one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties import naive
from tests.properties.strategies import CASES, GPU, HOLDS, LABELS, PRODUCT, TOLERATIONS, Case, examples, spellings
from tests.properties.test_pin import may_count_as_one
from tests.queues import flavor, local, queue, read
from tests.samples import Json, ask, patched
from webhook.answer.response import patch
from webhook.decision.notes import Tried, Unpinned
from webhook.decision.scope import Treatment, scope
from webhook.decision.story import Listener
from webhook.model.policy import PinWhen, RoomRule
from webhook.model.request import Stage
from webhook.model.verdict import Review, Verdict

_LABELS = st.one_of(
    *(st.fixed_dictionaries({key: st.sampled_from(LABELS[key])}) for key in (PRODUCT, PRODUCT, "zone", "pool")),
    st.just({}),
    st.fixed_dictionaries({key: st.sampled_from(LABELS[key]) for key in ("zone", PRODUCT)}),
)


@dataclass(frozen=True, slots=True)
class Queued:
    """A case whose job is in a queue of these flavors, with these quotas of GPUs; `case` knows the queue."""

    case: Case
    flavors: list[Json]
    quotas: list[int]


@st.composite
def queued_cases(draw: st.DrawFn) -> Queued:
    case = draw(CASES)
    labels = draw(st.lists(_LABELS, min_size=1, max_size=4, unique_by=str))
    spread = draw(st.sampled_from(([], [], draw(TOLERATIONS))))
    flavors = [flavor(f"f{index}", one, tolerations=spread) for index, one in enumerate(labels)]
    quotas = [draw(st.sampled_from((99, 99, 99, 8, 4, 0))) for _ in flavors]
    of = queue({one["metadata"]["name"]: quota for one, quota in zip(flavors, quotas, strict=True)})
    labels_of_job = case.job["metadata"].get("labels", {}) | {"kueue.x-k8s.io/queue-name": "lq"}
    job = case.job | {"metadata": case.job["metadata"] | {"namespace": "team-a", "labels": labels_of_job}}
    if job["kind"] == "Job" and job["apiVersion"] == "batch/v1" and draw(st.sampled_from((True, True, True, False))):
        job = job | {"spec": job["spec"] | {"suspend": True}}
    return Queued(replace(case, job=job, queues=read(*flavors, of, local())), flavors, quotas)


QUEUED = queued_cases()


@given(QUEUED)
def test_each_flavor_that_is_left_holds_one_candidate(drawn: Queued) -> None:
    outcome = drawn.case.review()
    assume(decided(outcome) and asks_for_gpus(drawn, outcome))
    chosen = {spellings()[model.product] for model in outcome.decision.models}
    together: set[str] = set()
    for _, _, nodes in assignable(drawn, patched(outcome)):
        held = {node["metadata"]["annotations"][HOLDS] for node in nodes}
        assert len(held) <= 1 or may_count_as_one(drawn.case, held)
        together |= held
    assert together <= chosen
    assert len(together) <= 1 or left_to_queue(outcome) or may_count_as_one(drawn.case, together)


@given(QUEUED)
def test_no_flavor_that_is_left_lacks_room_for_the_gang_where_that_is_not_said(drawn: Queued) -> None:
    outcome = drawn.case.review()
    said = {(one.code, one.variant) for one in outcome.decision.findings}
    assume(decided(outcome) and asks_for_gpus(drawn, outcome) and not {"SST401"} & {code for code, _ in said})
    assume(("SST301", "other-quota") not in said and not drawn.case.grows)
    assume(drawn.case.policy.room is not RoomRule.IGNORE and outcome.verdict is Verdict.PIN)
    for gang, pod, nodes in assignable(drawn, patched(outcome)):
        assert sum(naive.held(pod, node) for node in nodes) >= gang


@examples(0.5)
@given(QUEUED)
def test_an_answer_is_left_alone_when_it_comes_back(drawn: Queued) -> None:
    outcome = drawn.case.review()
    assume(outcome.verdict is not Verdict.DENY)
    stored = patched(outcome)
    for stage in (Stage.MUTATE, Stage.VALIDATE):
        again = drawn.case.review(stored, stage=stage)
        assert (again.verdict, patch(again)) == (Verdict.ADMIT, [])


@examples(0.5)
@given(QUEUED)
def test_a_pin_in_a_queue_lets_no_role_land_where_it_could_not_before(drawn: Queued) -> None:
    outcome = drawn.case.review()
    assume(outcome.verdict is Verdict.PIN)
    before, after = naive.pods(drawn.case.job), naive.pods(patched(outcome))
    for name, (_, pod) in before.items():
        assert naive.lands(after[name][1], drawn.case.nodes) <= naive.lands(pod, drawn.case.nodes)


@given(QUEUED)
def test_the_story_of_a_job_in_a_queue_ends_where_its_pods_may_land_and_in_its_pin(drawn: Queued) -> None:
    case, heard = drawn.case, Listener()
    outcome = ask(case.job, case.fleet, policy=case.policy, now=1000.0, queues=case.queues, tell=heard)
    story = heard.story(outcome)
    assume(story is not None and asks_for_gpus(drawn, outcome))
    assert story is not None
    for landing in story.landings:
        assert all(one.left == other.before for one, other in pairwise(landing.steps))
        assert landing.steps[-1].left == landing.nodes
        for role in landing.roles:
            there = [nodes for name, _, _, nodes in offered(drawn, case.job, enough=False) if name == role.name]
            assert landing.nodes == len({node["metadata"]["name"] for nodes in there for node in nodes})
    if (pin := outcome.decision.pin) is not None:
        assert story.keys is not None
        assert story.keys.pin == pin
        keys = {one.key: one for one in story.keys.keys}
        assert len(keys) == len(story.keys.keys)
        assert keys[pin.key].values == pin.values
        assert pin.beside is None or keys[pin.beside.key].tried is Tried.BESIDE
    elif left_to_queue(outcome) and outcome.verdict is Verdict.ADMIT:
        assert story.unpinned is Unpinned.QUEUE or story.keys is not None


def decided(outcome: Review) -> bool:
    """Whether the answer promises one model: a pin of coupled ranks."""
    kept_off = any(one.variant == "kept-off" for one in outcome.decision.findings)
    return (outcome.verdict is Verdict.PIN and not kept_off) or left_to_queue(outcome)


def left_to_queue(outcome: Review) -> bool:
    """Whether several models are left, of which Kueue is to choose one."""
    return outcome.verdict is not Verdict.DENY and len(outcome.decision.models) > 1 and held_back(outcome)


def held_back(outcome: Review) -> bool:
    """Whether Kueue gives all pods of the job one flavor, and the ranks are coupled (others may spread)."""
    job, policy = outcome.job, outcome.policy
    return (
        job is not None
        and job.suspended
        and len(job.device_roles) == 1
        and policy.pin_when is not PinWhen.NEVER
        and scope(job, policy).treatment is Treatment.ONE_MODEL
        and not any(one.code in ("SST307", "SST201", "SST401") for one in outcome.decision.findings)
    )


def asks_for_gpus(drawn: Queued, outcome: Review) -> bool:
    return outcome.job is not None and all(role.device == GPU for role in outcome.job.device_roles)


def assignable(drawn: Queued, job: Json) -> Iterator[tuple[int, Json, list[Json]]]:
    """By role with devices and flavor that Kueue may give it: the gang, its pod then, and where that may land."""
    return ((gang, pod, nodes) for _, gang, pod, nodes in offered(drawn, job, enough=True))


def offered(drawn: Queued, job: Json, *, enough: bool) -> Iterator[tuple[str, int, Json, list[Json]]]:
    """The same with the role's name, of flavors whose quota is `enough` for the gang, or of all that have any."""
    keys = {key for one in drawn.flavors for key in one["spec"].get("nodeLabels", {})}
    gang: int
    for name, (gang, pod) in naive.device_pods(job).items():
        wanted = int(gang * naive.requests(pod)[GPU])
        for one, quota in zip(drawn.flavors, drawn.quotas, strict=True):
            labels = one["spec"].get("nodeLabels", {})
            if quota < max(wanted if enough else 1, 1) or not naive.meets(pod, labels, keys):
                continue
            given_pod = pod | {
                "nodeSelector": (pod.get("nodeSelector") or {}) | labels,
                "tolerations": [*(pod.get("tolerations") or []), *one["spec"].get("tolerations", [])],
            }
            names = naive.lands(given_pod, drawn.case.nodes)
            yield name, gang, given_pod, [node for node in drawn.case.nodes if node["metadata"]["name"] in names]
