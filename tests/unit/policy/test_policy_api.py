"""What the models take of the examples that the API server is asked about too, and what they make of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from tests.policy_examples import EXAMPLES, GOOD, NAMESPACED, Example, head
from tests.samples import Json
from webhook.catalog.codes import codes
from webhook.model.finding import Action
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.policy import Condition, Differing, Evidence, FleetShown, Language, Likeness, Match, Policy, Sameness
from webhook.model.rules import AcceleratorPool as ResolvedPool
from webhook.model.rules import PolicyException
from webhook.policy.accelerator_pool import AcceleratorPool
from webhook.policy.definitions import definitions
from webhook.policy.exception import TrainingPolicyException
from webhook.policy.parts import Metadata, faults
from webhook.policy.training_policy import NEVER_DENIES, TrainingPolicy
from webhook.policy.training_profile import TrainingProfile

ROOT = Path(__file__).parents[3]
_Kind: TypeAlias = type[TrainingPolicy | AcceleratorPool | TrainingPolicyException | TrainingProfile]
KINDS: dict[str, _Kind] = {
    one.__name__: one for one in (TrainingPolicy, AcceleratorPool, TrainingPolicyException, TrainingProfile)
}


def refusal(model: type[BaseModel], document: Json) -> list[str]:
    try:
        model.model_validate(document)
    except ValidationError as error:
        return faults(error)
    return []


@pytest.mark.parametrize("kind", KINDS)
def test_each_good_example_is_read_and_each_bad_one_is_refused_by_its_field(kind: str) -> None:
    for one in (one for one in EXAMPLES if one.kind == kind):
        found = refusal(KINDS[kind], one.document)
        assert bool(found) == bool(one.field), (one, found)
        # A field of another one's parts, or one that the message names.
        named = (
            rf"^{re.escape(one.field)}[.:]|^{re.escape(one.field.rpartition('.')[0])}: {one.field.rpartition('.')[2]}: "
        )
        assert not found or any(re.search(named, line) for line in found), (one, found)


@pytest.mark.parametrize("kind", KINDS)
def test_each_constraint_of_a_definition_has_an_example_that_breaks_it(kind: str) -> None:
    broken = {re.sub(r"\.\d+(?=\.|$)", ".[]", one.field) for one in EXAMPLES if one.kind == kind}
    document = next(text for text in definitions().values() if yaml.safe_load(text)["spec"]["names"]["kind"] == kind)
    (version,) = yaml.safe_load(document)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    missing = {path for path in constrained(spec, "spec") if path not in broken}
    # What is inside a taught kind is held together by the catalog's own tests; one path of each form is tried.
    assert {path for path in missing if not path.startswith("spec.kinds.[].")} == set()


def constrained(schema: Json, path: str) -> Iterator[str]:
    """Fields that may not hold everything of their type."""
    if schema.keys() & {
        "enum",
        "pattern",
        "maxLength",
        "maxItems",
        "maxProperties",
        "minimum",
        "x-kubernetes-validations",
    }:
        yield next((f"{path}{rule.get('fieldPath', '')}" for rule in schema.get("x-kubernetes-validations", ())), path)
    for name, part in schema.get("properties", {}).items():
        yield from constrained(part, f"{path}.{name}")
    if "items" in schema:
        yield from constrained(schema["items"], f"{path}.[]")


def test_everything_that_a_policy_can_say_arrives() -> None:
    selector = {
        "matchLabels": {"b": "c", "a": "b"},
        "matchExpressions": [{"key": "samestep.dev/ignore", "operator": "DoesNotExist"}],
    }
    requirements = (
        Requirement("a", Operator.IN, ("b",)),
        Requirement("b", Operator.IN, ("c",)),
        Requirement("samestep.dev/ignore", Operator.DOES_NOT_EXIST),
    )
    policy = resolved(
        priority=7,
        match={
            "namespaceSelector": selector,
            "objectSelector": {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y", "z"]}]},
            "kinds": ["Job.batch", "Pod"],
            "matchConditions": [{"name": "small", "expression": "job.devices < 8"}],
        },
        codes=[{"code": "SST302", "action": "Warn"}, {"code": "SST202", "action": "Audit"}],
        likeness={
            "require": "Equivalent",
            "computeTolerance": "15%",
            "bandwidthTolerance": "5%",
            "classes": [["A100-SXM4-80GB", "A100-80GB-PCIe"]],
            "host": {"action": "Require", "labels": ["rack"], "resources": {"memory": "1%", "cpu": "2%"}},
            "fabric": {"action": "Ignore", "labels": ["fabric"]},
        },
        annotations={"model": False, "ignore": True, "allowMixed": True},
        exceptions="Allowed",
        evidence={"ignoreImageTag": True, "query": "used_bytes", "terminationMessage": True},
        messages={"fleet": "None"},
        language="ko",
    )
    assert policy == Policy(
        name="one",
        priority=7,
        match=Match(
            requirements,
            (Requirement("x", Operator.NOT_IN, ("y", "z")),),
            ("Job.batch", "Pod"),
            (Condition("small", "job.devices < 8"),),
        ),
        codes={"SST302": Action.WARN, "SST202": Action.INFORM},
        likeness=Likeness.EQUIVALENT,
        compute_tolerance_percent=15,
        bandwidth_tolerance_percent=5,
        classes=(("A100-SXM4-80GB", "A100-80GB-PCIe"),),
        host=Sameness(Differing.REQUIRE, ("rack",), (("cpu", 2), ("memory", 1))),
        fabric=Sameness(Differing.IGNORE, ("fabric",)),
        model=False,
        ignore=True,
        allow_mixed=True,
        exceptions=True,
        evidence=Evidence(ignore_image_tag=True, query="used_bytes", termination_message=True),
        fleet_shown=FleetShown.NONE,
        language=Language.KO,
    )


def resolved(**spec: Any) -> Policy:  # noqa: ANN401 - fields of a spec
    return TrainingPolicy.model_validate(Example("TrainingPolicy", spec).document).resolved()


def test_no_kinds_at_all_are_all_kinds() -> None:
    assert resolved(match={"kinds": []}).match.kinds is None


@pytest.mark.parametrize(
    ("on_unknown", "entries", "action"),
    [
        ("Warn", [], None),
        ("Allow", [], Action.INFORM),
        ("Deny", [], Action.DENY),
        ("Deny", [{"code": "SST203", "action": "Warn"}], Action.WARN),
        ("Allow", [{"code": "SST203", "action": "Deny"}], Action.DENY),
        ("Deny", [{"code": "SST202", "action": "Deny"}], Action.DENY),
    ],
)
def test_on_unknown_is_short_for_an_entry_that_goes_before_it(
    on_unknown: str, entries: list[Json], action: Action | None
) -> None:
    assert resolved(memory={"onUnknown": on_unknown}, codes=entries).codes.get("SST203") is action


def test_the_codes_that_may_not_deny_are_no_fault_of_the_job() -> None:
    wanted = {code for code in codes() if code in ("SST301", "SST402", "SST403") or code[:4] in ("SST7", "SST9")}
    assert set(NEVER_DENIES) == wanted
    assert {"SST403", "SST901", "SST902"} <= wanted


def test_everything_that_a_pool_can_say_arrives() -> None:
    spec = {
        "nodeSelector": {"matchLabels": {"pool": "gold"}},
        "modelLabel": "gpu-type",
        "allowed": {"namespaceSelector": {"matchLabels": {"team": "a"}}, "groups": ["research"]},
        "order": 10,
        "capacity": {"max": 64},
        "inject": {
            "tolerations": [
                {"key": "gold", "value": "yes", "effect": "NoSchedule"},
                {"operator": "Exists"},
            ],
            "queueName": "gold",
            "schedulerName": "volcano",
        },
    }
    assert AcceleratorPool.model_validate(Example("AcceleratorPool", spec).document).resolved() == ResolvedPool(
        name="one",
        nodes=(Requirement("pool", Operator.IN, ("gold",)),),
        order=10,
        model_label="gpu-type",
        namespaces=(Requirement("team", Operator.IN, ("a",)),),
        groups=("research",),
        most=64,
        tolerations=(Toleration("gold", "Equal", "yes", "NoSchedule"), Toleration(operator="Exists")),
        queue="gold",
        scheduler="volcano",
    )
    bare = AcceleratorPool.model_validate(Example("AcceleratorPool", {}).document)
    assert bare.resolved() == ResolvedPool("one")


def test_everything_that_an_exception_can_say_arrives() -> None:
    spec = {
        "policies": ["one-model-per-job"],
        "match": {"kinds": ["Job.batch"], "names": ["exp-*"]},
        "codes": ["SST302"],
        "reason": "the paper is due",
        "until": "2027-01-01T00:00:00Z",
    }
    found = TrainingPolicyException.model_validate(Example("TrainingPolicyException", spec).document).resolved()
    assert found == PolicyException(
        namespace="default",
        name="one",
        policies=("one-model-per-job",),
        until=1798761600,
        reason="the paper is due",
        kinds=("Job.batch",),
        names=("exp-*",),
        codes=("SST302",),
    )
    later = spec | {"until": "2027-01-01T09:00:00+09:00"}
    assert (
        TrainingPolicyException.model_validate(Example("TrainingPolicyException", later).document).resolved() == found
    )


@pytest.mark.parametrize("kind", NAMESPACED)
def test_what_counts_in_one_namespace_says_in_which(kind: str) -> None:
    document = Example(kind, {}).document
    document["metadata"] = {"name": "one"}
    assert refusal(KINDS[kind], document) == ["metadata.namespace: Field required"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["", "One", "a_b", "-a", "a" * 254, 1])
def test_a_name_is_one_that_an_object_can_have(kind: str, name: object) -> None:
    document = Example(kind, {}).document
    document["metadata"] |= {"name": name}
    assert refusal(KINDS[kind], document)[0].startswith("metadata.name: ")


@pytest.mark.parametrize(
    ("written", "created"),
    [(None, 0), ("2027-01-01T00:00:00Z", 1798761600), ("2027-01-01T00:00:01Z", 1798761601)],
)
def test_who_was_first_is_known_of_what_is_in_a_cluster(written: str | None, created: float) -> None:
    document = head("TrainingPolicy")
    document["metadata"] |= {"creationTimestamp": written, "uid": "1", "labels": {"a": "b"}}
    policy = TrainingPolicy.model_validate(document)
    assert policy.metadata.created == created
    assert Metadata(name="one").created == 0


@pytest.mark.parametrize("kind", GOOD)
def test_the_status_is_left_alone_whatever_it_is(kind: str) -> None:
    document = Example(kind, {}).document | {"status": {"conditions": [{"of": "another release"}], "more": 1}}
    assert refusal(KINDS[kind], document) == []


def test_each_definition_and_each_schema_for_editors_says_what_every_field_is_for() -> None:
    for text in definitions().values():
        schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        untold = [path for path, part in fields(schema, "") if "description" not in part]
        assert set(untold) <= {".apiVersion", ".kind", ".metadata"}
    for file in (ROOT / "schemas").glob("*.json"):
        schema = json.loads(file.read_text("utf-8"))
        assert "description" in schema
        assert "x-kubernetes" not in file.read_text("utf-8")
        assert schema["additionalProperties"] is False


def fields(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Every field that has a name; what a taught kind holds is told in the catalog of kinds."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        if f"{path}.{name}" != ".spec.kinds":
            yield from fields(part.get("items", part), f"{path}.{name}")
