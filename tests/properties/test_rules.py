"""Any rules on any job: never an error, the same whatever the order they are given in, and no promise that breaks."""

import random
from dataclasses import replace

import jsonpatch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.strategies import CASES, POLICIES, Case
from tests.properties.test_pools import pools
from tests.samples import USER
from webhook.answer.document import document
from webhook.answer.response import admission_response, patch
from webhook.catalog.codes import action_of, codes
from webhook.model.finding import Action
from webhook.model.placement import Operator, Requirement
from webhook.model.policy import Condition, Language, Match, Policy, ValidationAction
from webhook.model.request import Kind, Object, Request, Stage
from webhook.model.rules import PolicyException, Rules
from webhook.model.verdict import Review, Verdict
from webhook.model.world import World
from webhook.review import review

NOW = 1000.0
NAMESPACES = {"team-a": {"team": "a", "samestep.dev/lang": "ko"}}
NAMES = ("p0", "p1", "p2", "p3")
KINDS = ("PyTorchJob.kubeflow.org", "Job.batch", "Pod", "Odd.odd.io")
CODES = st.sampled_from((*codes(), "SST302", "SST201", "SST401", "SST203", "SST301"))
EXPRESSIONS = (
    "job.devices > 4",
    "object.metadata.?labels['app'].orValue('') != 'notebook'",
    "object.spec.nothing == 1",
    "object.spec",
    "nobody",
    "(",
    "true",
    "request.operation == 'CREATE'",
    "has(object.spec.pytorchReplicaSpecs)",
)


@st.composite
def selectors(draw: st.DrawFn) -> tuple[Requirement, ...]:
    if draw(st.booleans()):
        return ()
    key = draw(st.sampled_from(("team", "app", "kubernetes.io/metadata.name", "nobody")))
    values = draw(st.lists(st.sampled_from(("a", "team-a", "b")), max_size=2))
    return (Requirement(key, draw(st.sampled_from(Operator)), tuple(values)),)


MATCHES = st.builds(
    Match,
    selectors(),
    selectors(),
    st.none() | st.lists(st.sampled_from(KINDS), max_size=3).map(tuple),
    st.lists(st.builds(Condition, st.just("c"), st.sampled_from(EXPRESSIONS)), max_size=1).map(tuple),
)


@st.composite
def policies(draw: st.DrawFn) -> tuple[Policy, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    return tuple(
        replace(
            draw(POLICIES),
            name=name,
            priority=draw(st.integers(-1, 1)),
            match=draw(st.just(Match()) | MATCHES),
            validation_action=draw(st.sampled_from(ValidationAction)),
            codes=draw(st.dictionaries(CODES, st.sampled_from(Action), max_size=4)),
            exceptions=draw(st.booleans()),
            config_maps=draw(st.booleans()),
            language=draw(st.sampled_from(Language)),
        )
        for name in names
    )


EXCEPTIONS = st.builds(
    PolicyException,
    namespace=st.sampled_from(("team-a", "team-a", "team-b")),
    name=st.sampled_from(("x", "y")),
    policies=st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
    until=st.sampled_from((0.0, NOW, NOW + 1, float("inf"), float("nan"))),
    reason=st.just("a trial"),
    kinds=st.lists(st.sampled_from(KINDS), max_size=1).map(tuple),
    names=st.lists(st.sampled_from(("*", "[", "job-*", "")), max_size=1).map(tuple),
    codes=st.lists(CODES, max_size=3).map(tuple),
)
RULES = st.builds(
    Rules,
    policies=policies(),
    never_good=st.lists(st.just("broken"), max_size=1).map(tuple),
    pools=st.just(()) | pools(),
    exceptions=st.lists(EXCEPTIONS, max_size=3).map(tuple),
)


def decided(case: Case, rules: Rules, stage: Stage = Stage.MUTATE, obj: Object | None = None) -> Review:
    obj = case.job if obj is None else obj
    group, _, version = obj["apiVersion"].rpartition("/")
    request = Request(Kind(group, version, obj["kind"]), "CREATE", obj, None, stage, "team-a", user=USER, now=NOW)
    return review(request, World(case.fleet, case.policy, rules=rules, namespaces=NAMESPACES))


@given(CASES, RULES, st.sampled_from(Stage))
def test_any_rules_give_an_answer_that_can_be_written_down(case: Case, rules: Rules, stage: Stage) -> None:
    outcome = decided(case, rules, stage)
    response = admission_response(outcome)
    document(outcome, "a.yaml")
    assert response["allowed"] is (outcome.verdict is not Verdict.DENY)
    denying = [one for one in outcome.decision.findings if action_of(one) is Action.DENY]
    assert bool(denying) is (outcome.verdict is Verdict.DENY)
    assert ("patch" in response) <= (outcome.verdict is Verdict.PIN)
    names = [one.name for one in rules.policies]
    assert outcome.policy.name in ("", *names) or not (names or rules.never_good)
    assert outcome.would_be is not Verdict.ADMIT or outcome.verdict is Verdict.ADMIT


@given(CASES, RULES, st.randoms())
def test_the_order_of_policies_of_different_priority_does_not_matter(
    case: Case, rules: Rules, shuffled: random.Random
) -> None:
    distinct = [replace(one, priority=index) for index, one in enumerate(rules.policies)]
    first = decided(case, replace(rules, policies=tuple(distinct)))
    shuffled.shuffle(distinct)
    assert decided(case, replace(rules, policies=tuple(distinct))) == first


@given(CASES, RULES)
def test_what_is_suggested_under_any_rules_is_admitted(case: Case, rules: Rules) -> None:
    outcome = decided(case, rules)
    assume(outcome.suggestions)
    for one in outcome.suggestions:
        changed = jsonpatch.apply_patch(case.job, one.operations)
        assert decided(case, rules, obj=changed).verdict is not Verdict.DENY


@given(CASES, RULES)
def test_what_the_mutating_stage_lets_through_the_validating_stage_does_not_miss_a_pin_on(
    case: Case, rules: Rules
) -> None:
    outcome = decided(case, rules)
    assume(outcome.verdict is not Verdict.DENY and outcome.job is not None)
    stored = jsonpatch.apply_patch(case.job, patch(outcome))
    after = decided(case, rules, Stage.VALIDATE, stored)
    missing = [one for one in after.decision.findings if one.code == "SST302" and action_of(one) is Action.DENY]
    assert not missing


@given(CASES, RULES)
def test_an_audit_of_all_policies_changes_and_denies_nothing(case: Case, rules: Rules) -> None:
    audits = tuple(replace(one, validation_action=ValidationAction.AUDIT) for one in rules.policies)
    assume(audits)
    outcome = decided(case, replace(rules, policies=audits))
    response = admission_response(outcome)
    assert outcome.verdict is Verdict.ADMIT
    assert "patch" not in response
    assert "warnings" not in response
