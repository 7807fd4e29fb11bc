"""Who wins: several policies on one job, and what exceptions change."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from controlplane.nodes import RTX_5090, RTX_PRO_6000
from tests.samples import USER, Json, codes, demo_nodes, fleet, job, nodes, pod, products, pytorchjob
from webhook.answer.response import admission_response
from webhook.answer.warnings import warnings
from webhook.catalog.codes import action_of
from webhook.model.finding import Action
from webhook.model.fleet import Fleet
from webhook.model.placement import Operator, Requirement
from webhook.model.policy import Condition, LabelSelector, Language, Match, Policy, Strategy, ValidationAction
from webhook.model.request import Kind, Request, Stage
from webhook.model.rules import PolicyException, Rules
from webhook.model.verdict import ExceptionUse, Review, Verdict
from webhook.model.world import World
from webhook.policy.common import common
from webhook.policy.matching import index_of, selects
from webhook.review import review

FLEET = fleet(demo_nodes())
ONE_MODEL = fleet(nodes((RTX_5090, 2, 4)))
NAMESPACES = {"team-a": {"team": "a", "samestep.dev/lang": "ko"}, "team-b": {"team": "b"}}
NOW = 1000.0
WARN, AUDIT = ValidationAction.WARN, ValidationAction.AUDIT
TOO_LARGE = pytorchjob(memory_per_device="200Gi")


def label(key: str, *values: str, operator: Operator = Operator.IN) -> LabelSelector:
    return (Requirement(key, operator, values),)


def under(
    *policies: Policy,
    obj: Json | None = None,
    old: Json | None = None,
    known: Fleet = FLEET,
    namespace: str = "team-a",
    stage: Stage = Stage.MUTATE,
    **rules: Any,  # noqa: ANN401 - fields of Rules
) -> Review:
    obj = pytorchjob() if obj is None else obj
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = Kind(group, version, obj["kind"])
    operation = "CREATE" if old is None else "UPDATE"
    request = Request(kind, operation, obj, old, stage, namespace, user=USER, now=NOW)
    world = World(known, Policy("default"), rules=Rules(policies, **rules), namespaces=NAMESPACES)
    return review(request, world)


def audit(outcome: Review) -> dict[str, str]:
    annotations: dict[str, str] = admission_response(outcome)["auditAnnotations"]
    return annotations


# Which match


def test_without_any_policy_the_default_decides() -> None:
    outcome = under()
    assert outcome.verdict is Verdict.PIN
    assert outcome.policy.name == "default"


def test_where_policies_exist_and_none_matches_the_job_is_out_of_scope() -> None:
    outcome = under(Policy("b", match=Match(namespaces=label("team", "b"))), obj=TOO_LARGE)
    assert outcome.verdict is outcome.would_be is Verdict.ADMIT
    assert outcome.because == "out of scope of every policy"
    assert outcome.policy.name == ""
    assert outcome.job is None


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ((), True),
        (label("team", "a", "x"), True),
        (label("team", "b"), False),
        (label("team", "b", operator=Operator.NOT_IN), True),
        (label("nobody", "b", operator=Operator.NOT_IN), True),
        (label("team", operator=Operator.EXISTS), True),
        (label("samestep.dev/ignore", operator=Operator.DOES_NOT_EXIST), True),
        (label("team", operator=Operator.DOES_NOT_EXIST), False),
        (label("team"), False),
        (label("team", operator=Operator.NOT_IN), False),
        (label("team", "0", operator=Operator.GT), False),
        (label("kubernetes.io/metadata.name", "team-a"), True),
        ((*label("team", "a"), *label("nobody", "x")), False),
    ],
)
def test_a_namespace_is_selected_by_its_labels(selector: LabelSelector, matches: bool) -> None:
    assert bool(under(Policy(match=Match(namespaces=selector))).job) is matches


def test_of_a_namespace_that_is_not_in_view_only_the_name_is_known() -> None:
    absent = Policy("absent", match=Match(namespaces=label("samestep.dev/ignore", operator=Operator.DOES_NOT_EXIST)))
    assert under(absent, namespace="unseen").policy.name == "absent"
    named = Policy("named", match=Match(namespaces=label("kubernetes.io/metadata.name", "unseen")))
    assert under(named, namespace="unseen").policy.name == "named"
    teams = Policy("teams", match=Match(namespaces=label("team", operator=Operator.EXISTS)))
    assert under(teams, namespace="unseen").policy.name == ""


def test_an_object_of_the_cluster_is_in_every_namespace_selector() -> None:
    rules = Rules((Policy("b", match=Match(namespaces=label("team", "b"))),))
    request = Request(Kind("", "v1", "Node"), "CREATE", {})
    assert [one.name for one in index_of(rules).candidates(request, NAMESPACES)] == ["b"]


def labelled(**labels: Any) -> Json:  # noqa: ANN401
    obj = pytorchjob()
    obj["metadata"]["labels"] = labels
    return obj


def test_an_object_is_selected_by_its_labels_before_or_after_an_update() -> None:
    policy = Policy("apps", match=Match(objects=label("app", "train")))
    assert under(policy, obj=labelled(app="train")).policy.name == "apps"
    assert under(policy, obj=labelled(app="other")).policy.name == ""
    changed = labelled(app="other")
    changed["spec"]["runPolicy"] = {}
    assert under(policy, obj=changed, old=labelled(app="train")).policy.name == "apps"


@pytest.mark.parametrize("labels", [None, 3, ["app"], {"app": 3}])
def test_labels_of_a_wrong_type_are_none(labels: Any) -> None:  # noqa: ANN401
    obj = pytorchjob()
    obj["metadata"]["labels"] = labels
    assert under(Policy("apps", match=Match(objects=label("app", "train"))), obj=obj).policy.name == ""


def test_kinds_are_named_with_their_group() -> None:
    policy = Policy("jobs", match=Match(kinds=("Job.batch",)))
    assert under(policy, obj=job()).policy.name == "jobs"
    assert under(policy).policy.name == ""


def test_what_a_wrapper_holds_is_matched_for_itself() -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"jobTemplate": {"spec": job(pod(gpus=2, command=("torchrun", "--nnodes=4", "train.py")))["spec"]}},
    }
    lenient = Policy("jobs", match=Match(kinds=("Job.batch",)), codes={"SST203": Action.DENY})
    outcome = under(lenient, Policy("ray", match=Match(kinds=("RayJob.ray.io",))), obj=cron)
    assert (outcome.verdict, outcome.policy.name) == (Verdict.ADMIT, "jobs")
    assert codes(outcome) == ["SST203"]


# Conditions


def test_a_condition_sees_what_was_read() -> None:
    for expression in (
        "job.kind == 'PyTorchJob.kubeflow.org' && job.devices == 8 && job.coupling == 'Synchronous'",
        "job.roles.all(one, one.pods == 4 && one.devices == 2)",
        "!has(job.batch) && !has(job.model)",
        "namespaceObject.metadata.labels.team == 'a' && namespaceObject.metadata.name == 'team-a'",
        "request.operation == 'CREATE' && request.userInfo.username == 'user@example.com'",
        "request.kind.kind == object.kind && oldObject == null",
    ):
        policy = Policy("one", match=Match(conditions=(Condition("c", expression),)))
        assert under(policy).policy.name == "one", expression


def test_a_condition_without_an_answer_is_no_match_and_no_denial() -> None:
    fails = Policy("fails", priority=1, match=Match(conditions=(Condition("c", "object.metadata.labels.x == '1'"),)))
    outcome = under(fails, Policy("rest"))
    assert (outcome.verdict, outcome.policy.name) == (Verdict.PIN, "rest")
    assert "SST704" in codes(outcome)
    assert "labels" in audit(outcome)["rules"]
    assert not any("SST704" in line for line in warnings(outcome))
    alone = under(fails, obj=TOO_LARGE)
    assert (alone.verdict, codes(alone)) == (Verdict.ADMIT, ["SST704"])
    assert audit(alone)["codes"] == "SST704"


def test_a_condition_that_is_false_decides_before_one_without_an_answer() -> None:
    conditions = (Condition("a", "object.nothing == 1"), Condition("b", "false"))
    assert codes(under(Policy(match=Match(conditions=conditions)))) == []


# Who steers, who gates


def test_the_highest_priority_steers_and_the_order_given_breaks_ties() -> None:
    large = Policy("large", priority=5, strategy=Strategy.LARGEST)
    small = Policy("small", strategy=Strategy.BEST_FIT)
    declared = pytorchjob(memory_per_device="10Gi")
    for order in ((large, small), (small, large)):
        outcome = under(*order, obj=declared)
        assert (outcome.policy.name, products(outcome)) == ("large", [RTX_PRO_6000.product])
    tied = under(small, replace(large, priority=0), obj=declared)
    assert (tied.policy.name, products(tied)) == ("small", [RTX_5090.product])
    (met,) = [one for one in tied.decision.findings if one.code == "SST703"]
    assert met.facts == {"policy": "small", "others": "large"}
    assert not any("SST703" in line for line in warnings(tied))


def test_every_matching_policy_gates_with_its_strictest_action() -> None:
    outcome = under(Policy("steers", priority=1), Policy("gates", codes={"SST203": Action.DENY}))
    assert (outcome.verdict, outcome.policy.name) == (Verdict.DENY, "steers")
    assert codes(outcome) == ["SST203"]
    assert outcome.decision.pin is None


def test_what_one_policy_lowers_another_still_denies() -> None:
    lowers = Policy("lowers", priority=1, codes={"SST201": Action.WARN})
    assert under(lowers, obj=TOO_LARGE).verdict is Verdict.ADMIT
    assert under(lowers, Policy("denies"), obj=TOO_LARGE).verdict is Verdict.DENY


def test_a_lowered_denial_is_admitted_unpinned_with_a_warning() -> None:
    outcome = under(Policy(codes={"SST201": Action.WARN}), obj=TOO_LARGE)
    assert outcome.decision.pin is None
    assert outcome.would_be is Verdict.ADMIT
    assert warnings(outcome)[0].startswith("SST201")


def test_what_the_decision_withheld_is_never_raised() -> None:
    grows = replace(ONE_MODEL, grows="an autoscaler")
    eager = Policy(codes={"SST401": Action.DENY, "SST403": Action.DENY})
    outcome = under(eager, obj=pytorchjob(workers=40), known=grows)
    assert outcome.verdict is not Verdict.DENY
    assert any(one.code == "SST401" and one.action is Action.WARN for one in outcome.decision.findings)
    nowhere = pytorchjob(pod(nodeSelector={"zone": "nowhere"}))
    assert under(eager, obj=nowhere).verdict is Verdict.ADMIT


def test_an_update_is_not_denied_for_what_was_there_before() -> None:
    before = pytorchjob(micro_batch="many")
    after = pytorchjob(workers=5, micro_batch="many")
    assert under(Policy(), obj=before).verdict is Verdict.DENY
    assert under(Policy(), obj=after, old=before).verdict is not Verdict.DENY


def test_a_kind_that_is_not_known_is_denied_where_policy_says_so() -> None:
    odd = {"apiVersion": "odd.io/v1", "kind": "Odd", "metadata": {"name": "x"}, "spec": {"template": {"spec": pod()}}}
    assert codes(under(Policy(), obj=odd)) == ["SST102"]
    strict = under(Policy(codes={"SST102": Action.DENY}), obj=odd)
    assert strict.verdict is Verdict.DENY
    assert admission_response(strict)["status"]["message"].startswith("SST102")
    assert codes(under(Policy(match=Match(namespaces=label("team", "b"))), obj=odd)) == []


def test_a_denial_is_told_by_the_code_that_leads() -> None:
    strict = Policy(codes={"SST101": Action.DENY, "SST103": Action.DENY})
    obj = pytorchjob(memory_per_device="200Gi", memory_fixed="1Gi", memory_per_sample="1Gi", nonsense="x")
    outcome = under(strict, obj=obj)
    denying = [one.code for one in outcome.decision.findings if action_of(one) is Action.DENY]
    assert denying[0] == "SST201"
    assert set(denying) > {"SST201"}


# Warn and Audit


def test_warn_pins_and_admits_what_would_be_denied() -> None:
    pinned = under(Policy(validation_action=WARN))
    assert (pinned.verdict, pinned.would_be) == (Verdict.PIN, Verdict.PIN)
    refused = under(Policy(validation_action=WARN), obj=TOO_LARGE)
    assert (refused.verdict, refused.would_be, refused.decision.pin) == (Verdict.ADMIT, Verdict.DENY, None)
    assert warnings(refused)[0].startswith("SST201")


def test_audit_records_what_would_have_been() -> None:
    outcome = under(Policy(validation_action=AUDIT))
    response = admission_response(outcome)
    assert (outcome.verdict, outcome.would_be) == (Verdict.ADMIT, Verdict.PIN)
    assert "patch" not in response
    assert "warnings" not in response
    patch = orjson.loads(response["auditAnnotations"]["would-be-patch"])
    assert RTX_PRO_6000.product in str(patch)
    assert response["auditAnnotations"]["would-be"] == "Pin"
    large = admission_response(under(Policy(validation_action=AUDIT), obj=TOO_LARGE))
    assert "warnings" not in large
    assert large["auditAnnotations"]["would-be"] == "Deny"
    assert "would-be-patch" not in large["auditAnnotations"]


def test_a_would_be_patch_is_bounded() -> None:
    obj = pytorchjob()
    roles = obj["spec"]["pytorchReplicaSpecs"]
    for index in range(60):
        roles[f"Worker{index}"] = roles["Worker"]
    outcome = under(Policy(validation_action=AUDIT), obj=obj)
    assert all(len(one) <= 4096 for one in audit(outcome).values())


def test_a_gate_that_denies_does_so_beside_one_that_only_audits() -> None:
    audits = Policy("audits", priority=1, validation_action=AUDIT)
    assert under(audits, Policy("gates"), obj=TOO_LARGE).verdict is Verdict.DENY


@pytest.mark.parametrize("stage", Stage)
def test_where_the_steering_policy_gives_no_pin_no_other_misses_it(stage: Stage) -> None:
    outcome = under(Policy("audits", priority=1, validation_action=AUDIT), Policy("gates"), stage=stage)
    assert outcome.verdict is Verdict.ADMIT
    assert not any(line.startswith("SST30") for line in warnings(outcome))
    assert under(Policy("pins", priority=1), Policy("gates"), stage=Stage.VALIDATE).verdict is Verdict.DENY


def test_a_policy_that_audits_raises_nothing_for_others() -> None:
    outcome = under(
        Policy("pins", priority=1), Policy("audits", validation_action=AUDIT, codes={"SST203": Action.DENY})
    )
    assert (outcome.verdict, outcome.would_be) == (Verdict.PIN, Verdict.DENY)
    assert "patch" in admission_response(outcome)


# Broken policies


def test_a_policy_that_was_never_good_counts_as_existing() -> None:
    outcome = under(obj=TOO_LARGE, never_good=("broken",))
    assert (outcome.verdict, codes(outcome)) == (Verdict.ADMIT, ["SST701"])
    assert "broken" in audit(outcome)["rules"]
    assert codes(under(obj=job(pod(gpus=0)), never_good=("broken",))) == []
    assert codes(under(Policy(), obj=TOO_LARGE, never_good=("broken",))) == ["SST201"]


# Exceptions


def exception(**fields: Any) -> PolicyException:  # noqa: ANN401
    whole = PolicyException("team-a", "trial", policies=("p",), until=NOW + 1, reason="a trial")
    return replace(whole, **fields)


OPEN = Policy("p", exceptions=True)


def test_an_exception_without_codes_takes_the_job_out_of_the_policy() -> None:
    outcome = under(OPEN, obj=TOO_LARGE, exceptions=(exception(),))
    assert (outcome.verdict, outcome.policy.name) == (Verdict.ADMIT, "")
    assert outcome.exceptions == (ExceptionUse("p", "team-a/trial"),)
    assert audit(outcome)["exceptions"] == "p: team-a/trial"
    rest = under(OPEN, Policy("rest"), obj=TOO_LARGE, exceptions=(exception(),))
    assert (rest.verdict, rest.policy.name) == (Verdict.DENY, "rest")


@pytest.mark.parametrize(
    "changed",
    [
        {"namespace": "team-b"},
        {"policies": ("other",)},
        {"kinds": ("Job.batch",)},
        {"names": ("exp-*", "dd")},
        {"until": NOW},
    ],
)
def test_an_exception_that_is_for_something_else_or_over_does_nothing(changed: dict[str, Any]) -> None:
    assert under(OPEN, obj=TOO_LARGE, exceptions=(exception(**changed),)).verdict is Verdict.DENY


def test_an_exception_counts_only_where_the_policy_allows_it() -> None:
    assert under(Policy("p"), obj=TOO_LARGE, exceptions=(exception(),)).verdict is Verdict.DENY


@pytest.mark.parametrize("metadata", [{"name": "exp-1"}, {"generateName": "exp-"}])
def test_an_exception_goes_by_the_name_or_how_it_begins(metadata: Json) -> None:
    obj = pytorchjob(memory_per_device="200Gi")
    obj["metadata"] = {**{key: value for key, value in obj["metadata"].items() if key != "name"}, **metadata}
    found = under(OPEN, obj=obj, exceptions=(exception(names=("exp-*",), kinds=("PyTorchJob.kubeflow.org",)),))
    assert found.verdict is Verdict.ADMIT


def test_a_code_that_is_excepted_does_not_deny_under_that_policy_alone() -> None:
    only = (exception(codes=("SST201",)),)
    outcome = under(OPEN, obj=TOO_LARGE, exceptions=only)
    assert outcome.verdict is Verdict.ADMIT
    assert outcome.exceptions == (ExceptionUse("p", "team-a/trial", "SST201"),)
    assert warnings(outcome)[0].startswith("SST201")
    assert under(OPEN, Policy("strict"), obj=TOO_LARGE, exceptions=only).verdict is Verdict.DENY
    assert under(OPEN, exceptions=only).exceptions == ()


@pytest.mark.parametrize("stage", Stage)
def test_where_the_missing_pin_is_excepted_there_is_no_pin(stage: Stage) -> None:
    outcome = under(OPEN, Policy("gates", priority=-1), exceptions=(exception(codes=("SST302",)),), stage=stage)
    assert (outcome.verdict, outcome.decision.pin) == (Verdict.ADMIT, None)
    assert "SST301" not in codes(outcome)
    assert outcome.exceptions == (ExceptionUse("p", "team-a/trial", "SST302"),)


@pytest.mark.parametrize("stage", Stage)
def test_that_a_job_is_pinned_is_no_reason_to_deny_it(stage: Stage) -> None:
    plain, strict = (under(Policy("p", codes=said), stage=stage) for said in ({}, {"SST301": Action.DENY}))
    assert (strict.verdict, strict.decision.pin) == (plain.verdict, plain.decision.pin)


def test_an_expired_exception_is_reported() -> None:
    outcome = under(OPEN, exceptions=(exception(until=NOW), exception(name="other", namespace="team-b", until=0)))
    (expired,) = [one for one in outcome.decision.findings if one.code == "SST702"]
    assert expired.facts == {"exception": "team-a/trial", "policy": "p"}
    assert outcome.verdict is Verdict.PIN
    assert not any("SST702" in line for line in warnings(outcome))


# The rest of what the steering policy says


def test_the_namespace_says_in_which_language_over_the_policy() -> None:
    assert under(Policy()).language is Language.KO
    assert under(Policy(), namespace="team-b").language is Language.EN
    assert under(Policy(language=Language.KO), namespace="team-b").language is Language.KO


def test_what_concerns_the_fleet_is_what_all_policies_say() -> None:
    low = Policy("low", model_labels=("b", "a"), stale_after_s=60)
    high = Policy("high", priority=1, model_labels=("a", "c"), config_maps=True)
    whole = common(Rules((low, high)), Policy("default"))
    assert whole.model_labels == ("a", "c", "b")
    assert (whole.config_maps, whole.stale_after_s) == (True, 60)
    assert common(Rules(never_good=("x",)), Policy("default")).name == "default"


def test_an_index_is_of_one_object_and_never_of_its_equal() -> None:
    first, equal = Rules((Policy(),)), Rules((Policy(),))
    assert index_of(first) is index_of(first)
    assert index_of(first) is not index_of(equal)


def test_a_selector_of_nothing_selects_everything() -> None:
    assert selects((), {})
