"""Where policy requires one fabric, what a job may use after its pin has one."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties import naive
from tests.properties.strategies import CASES, Case
from tests.samples import Json, patched
from webhook.decision.scope import Treatment, scope
from webhook.model.policy import Differing, PinWhen, Sameness
from webhook.model.request import Stage
from webhook.model.verdict import Verdict

LABELS = st.lists(st.sampled_from(("zone", "pool", "rank")), min_size=1, max_size=2, unique=True).map(tuple)


def requiring(case: Case, labels: tuple[str, ...]) -> Case:
    return replace(case, policy=replace(case.policy, fabric=Sameness(Differing.REQUIRE, labels)))


def landing(case: Case, job: Json) -> list[Json]:
    names = {name for _, one in naive.device_pods(job).values() for name in naive.lands(one, case.nodes)}
    return [node for node in case.nodes if node["metadata"]["name"] in names]


@given(CASES, LABELS)
def test_one_value_of_each_label_is_left_or_the_submitter_is_told(drawn: Case, labels: tuple[str, ...]) -> None:
    case = requiring(drawn, labels)
    outcome = case.review()
    assume(outcome.verdict is Verdict.PIN and outcome.job is not None and case.policy.pin_when is not PinWhen.NEVER)
    assert outcome.job is not None
    assume(scope(outcome.job, case.policy).treatment is Treatment.ONE_MODEL)
    before, after = landing(case, case.job), landing(case, patched(outcome))
    assert after
    assert [one for one in after if one not in before] == []
    left = {key: {node["metadata"]["labels"].get(key) for node in after} - {None} for key in labels}
    told = any(one.code == "SST602" for one in outcome.decision.findings)
    assert told or all(len(values) <= 1 for values in left.values())


@given(CASES, LABELS, st.sampled_from((Stage.MUTATE, Stage.VALIDATE)))
def test_it_is_left_alone_when_it_comes_back(drawn: Case, labels: tuple[str, ...], stage: Stage) -> None:
    case = requiring(drawn, labels)
    outcome = case.review()
    assume(outcome.verdict is Verdict.PIN)
    again = case.review(patched(outcome), stage=stage)
    assert (again.verdict, again.decision.pin) == (Verdict.ADMIT, None)
