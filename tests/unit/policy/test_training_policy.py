"""`TrainingPolicy` as YAML: what it resolves to, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from webhook.model.job import Coupling
from webhook.model.policy import PinWhen, Policy, RoomRule, Strategy, TabledMemory, UnknownNodes, ValidationAction
from webhook.policy.load import load_policy
from webhook.policy.parts import Selector, faults
from webhook.policy.training_policy import TrainingPolicy

DEFAULT = Path(__file__).parents[3] / "policies" / "one-model-per-job.yaml"


def resolved(**spec: Any) -> Policy:  # noqa: ANN401 - fields of a spec
    return TrainingPolicy.model_validate(_document(spec)).resolved()


def refused(**spec: Any) -> list[str]:  # noqa: ANN401 - fields of a spec
    with pytest.raises(ValidationError) as caught:
        TrainingPolicy.model_validate(_document(spec))
    return faults(caught.value)


def test_the_policy_that_is_written_out_equals_the_built_in_default() -> None:
    assert load_policy(DEFAULT) == Policy()
    assert TrainingPolicy.model_validate({**_document(), "metadata": {"name": Policy().name}}).resolved() == Policy()


def test_the_policy_that_is_written_out_names_every_field_that_has_a_default_value() -> None:
    written = yaml.safe_load(DEFAULT.read_text())["spec"]
    default = TrainingPolicy.model_validate(_document()).spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    nothing = Selector().model_dump(mode="json", by_alias=True)
    default["match"] = {name: {} if value == nothing else value for name, value in default["match"].items()}
    assert written == default


def test_the_policy_that_is_written_out_names_its_schema_for_editors() -> None:
    told = DEFAULT.read_text().splitlines()[0]
    assert told.startswith("# yaml-language-server: $schema=")
    schema = json.loads((DEFAULT.parent / told.partition("=")[2]).read_text())
    assert schema["properties"]["kind"]["const"] == "TrainingPolicy"


def test_every_setting_arrives() -> None:
    policy = resolved(
        validationActions=["Warn"],
        pin={"when": "Always", "strategy": "Ordered", "order": ["H100"], "keys": ["gpu-type"]},
        memory={"reserve": "1Gi", "headroom": "12%"},
        coupling={"whenUnknown": "Independent"},
        room="Ignore",
        unknownNodes="Deny",
        staleAfter="90s",
        annotations={"declare": False, "coupling": True},
    )
    assert policy == Policy(
        name="mine",
        validation_action=ValidationAction.WARN,
        pin_when=PinWhen.ALWAYS,
        strategy=Strategy.ORDERED,
        order=("H100",),
        pin_keys=("gpu-type",),
        reserve_mib=1024,
        headroom_percent=12,
        when_unknown=Coupling.INDEPENDENT,
        room=RoomRule.IGNORE,
        unknown_nodes=UnknownNodes.DENY,
        stale_after_s=90,
        declare=False,
        coupling=True,
    )


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300), ("90s", 90), ("1h30m", 5400), ("1h1m1s", 3661), ("0s", 0)])
def test_durations_are_hours_minutes_and_seconds(text: str, seconds: int) -> None:
    assert resolved(staleAfter=text).stale_after_s == seconds


@pytest.mark.parametrize("text", ["", "5", "5x", "5d", "1m1h", "-5m", "5 m", "1.5h", 5])
def test_any_other_duration_is_refused_by_name(text: object) -> None:
    assert [line.partition(":")[0] for line in refused(staleAfter=text)] == ["spec.staleAfter"]


@pytest.mark.parametrize(("text", "mib"), [("640Mi", 640), ("1Gi", 1024), ("0", 0), ("1048576", 1), ("0.5Gi", 512)])
def test_memory_is_a_quantity(text: str, mib: float) -> None:
    assert resolved(memory={"reserve": text}).reserve_mib == mib


@pytest.mark.parametrize("text", ["lots", "-1Gi", "1GiB", "1 Gi", "", "NaN", "9" * 60, 5])
def test_any_other_memory_is_refused_by_name(text: object) -> None:
    assert [line.partition(":")[0] for line in refused(memory={"reserve": text})] == ["spec.memory.reserve"]


@pytest.mark.parametrize(("text", "percent"), [("5%", 5), ("0%", 0), ("100%", 100)])
def test_headroom_is_a_whole_percentage(text: str, percent: int) -> None:
    assert resolved(memory={"headroom": text}).headroom_percent == percent


@pytest.mark.parametrize("text", ["5", "5.5%", "-5%", "%", "5 %", "1000%", 5])
def test_any_other_headroom_is_refused_by_name(text: object) -> None:
    assert [line.partition(":")[0] for line in refused(memory={"headroom": text})] == ["spec.memory.headroom"]


def test_the_table_arrives_in_mib_and_in_its_order() -> None:
    first = {"match": {"image": "*/vision*", "args": {"--arch": "resnet50", "--amp": "*"}}, "fixed": "2.5Gi"}
    second = {"match": {"model": "*llama*"}, "fixed": "20Gi", "perSample": "96Mi"}
    assert resolved(memory={"declared": [first, second]}).tabled == (
        TabledMemory(2560, None, "*/vision*", "", (("--amp", "*"), ("--arch", "resnet50"))),
        TabledMemory(20480, 96, "", "*llama*"),
    )


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"match": {"image": "*"}}, "fixed"),
        ({"match": {"image": "*"}, "fixed": "2.1GiB"}, "fixed"),
        ({"match": {"image": "*"}, "fixed": 2}, "fixed"),
        ({"match": {"image": "*"}, "fixed": "2Gi", "perSample": "-1Mi"}, "perSample"),
        ({"match": {"image": "*"}, "fixed": "2Gi", "per_sample": "1Mi"}, "per_sample"),
        ({"match": {"image": "*"}, "fixed": "2Gi", "perDevice": "1Mi"}, "perDevice"),
        ({"fixed": "2Gi"}, "match"),
        ({"match": {}, "fixed": "2Gi"}, "match"),
        ({"match": {"images": "*"}, "fixed": "2Gi"}, "match.images"),
        ({"match": {"args": ["--arch"]}, "fixed": "2Gi"}, "match.args"),
        ({"match": {"args": {"--lr": 0.1}}, "fixed": "2Gi"}, "match.args.--lr"),
        ({"match": {"args": {"": "x"}}, "fixed": "2Gi"}, "match.args"),
        ({"match": {"args": {"--a b": "x"}}, "fixed": "2Gi"}, "match.args"),
    ],
)
def test_a_bad_entry_of_the_table_is_refused_by_its_place(entry: dict[str, object], field: str) -> None:
    good = {"match": {"image": "*"}, "fixed": "1Gi"}
    found = refused(memory={"declared": [good, entry]})
    assert f"spec.memory.declared.1.{field}" in [line.partition(": ")[0] for line in found]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"validationActions": []}, "spec.validationActions"),
        ({"validationActions": ["Deny", "Warn"]}, "spec.validationActions"),
        ({"validationActions": "Deny"}, "spec.validationActions"),
        ({"validationActions": ["Dny"]}, "spec.validationActions.0"),
        ({"pin": {"when": "Sometimes"}}, "spec.pin.when"),
        ({"pin": {"wenn": "Always"}}, "spec.pin.wenn"),
        ({"pin": {"strategy": "mostFree"}}, "spec.pin.strategy"),
        ({"pin": {"order": "H100"}}, "spec.pin.order"),
        ({"pin": {"keys": [1]}}, "spec.pin.keys.0"),
        ({"coupling": {"whenUnknown": "Serving"}}, "spec.coupling.whenUnknown"),
        ({"coupling": {"when_unknown": "Synchronous"}}, "spec.coupling.when_unknown"),
        ({"room": "Maybe"}, "spec.room"),
        ({"unknownNodes": True}, "spec.unknownNodes"),
        ({"annotations": {"declare": "perhaps"}}, "spec.annotations.declare"),
        ({"likeness": {"requires": "Model"}}, "spec.likeness.requires"),
    ],
)
def test_a_value_or_field_that_is_not_known_is_refused_by_name(spec: dict[str, object], field: str) -> None:
    assert refused(**spec)[0].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": {"name": ""}}, "metadata.name"),
        ({"kind": "Policy"}, "kind"),
        ({"apiVersion": "samestep.dev/v2"}, "apiVersion"),
        ({"statuss": {}}, "statuss"),
    ],
)
def test_what_is_no_such_policy_is_refused_by_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TrainingPolicy.model_validate(_document() | change)
    assert faults(caught.value)[0].startswith(f"{field}: ")


def _document(spec: dict[str, Any] | None = None) -> dict[str, Any]:
    named = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": {"name": "mine"}}
    return {**named, "spec": spec} if spec else named
