"""`samestep schema`: what is printed is what is checked in."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.unit.cli.folders import case, exception, policy, policy_test, pool
from webhook.cli import main
from webhook.policy.definitions import MODELS

ROOT = Path(__file__).parents[3]


def printed(*words: str) -> str:
    result = CliRunner().invoke(main, ["schema", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("kind", MODELS)
def test_a_schema_is_the_one_that_is_checked_in(kind: str) -> None:
    assert printed(kind) == (ROOT / "schemas" / f"{kind.lower()}_v1alpha1.json").read_text("utf-8")
    assert printed(kind.lower()) == printed(kind)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "manifests" / "base" / "crds").glob("*.yaml")), ids=lambda path: path.name
)
def test_a_definition_is_the_one_that_is_checked_in(path: Path) -> None:
    text = path.read_text("utf-8")
    assert printed(yaml.safe_load(text)["spec"]["names"]["kind"], "--crd") == text


def test_all_definitions_together_can_be_applied() -> None:
    kinds = [one["spec"]["names"]["kind"] for one in yaml.safe_load_all(printed("--crd"))]
    assert kinds == [one for one in MODELS if one != "PolicyTest"]


def test_the_schema_of_all_kinds_takes_an_object_of_each_by_its_kind() -> None:
    schema = json.loads(printed())
    assert set(schema["discriminator"]["mapping"]) == set(MODELS)
    named = {one["$ref"].rpartition("/")[2] for one in schema["oneOf"]}
    assert named == set(MODELS)
    for obj in (policy(), pool(), exception(), policy_test(case())):
        part = schema["$defs"][obj["kind"]]
        assert part["properties"]["kind"]["const"] == obj["kind"]


def test_a_policy_test_is_no_custom_resource() -> None:
    result = CliRunner().invoke(main, ["schema", "PolicyTest", "--crd"])
    assert (result.exit_code, "no custom resource" in result.stderr) == (2, True)
