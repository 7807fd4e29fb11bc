"""The policy pack: every set passes its own tests and lint; and every policy that documentation shows loads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.mutation.policies import PACK, ROOT, accepted, mutants, policy_files
from tests.unit.docs.markdown import PAGES, blocks
from webhook.cli import main
from webhook.cli.policy_tests import CaseResult, Written, read_tests, run
from webhook.cli.policy_tests import tests_in as files_with_tests
from webhook.policy.objects import KINDS, is_ours, read_object
from webhook.policy.policy_test import PolicyTest
from webhook.policy.training_profile import read_profile

RECIPES = ROOT / "docs" / "how-to" / "choose-a-policy.md"
MISTAKEN = ROOT / "docs" / "how-to" / "lint-policies.md"
"""Shows what lint finds."""
NAMES = sorted(one.name for one in PACK.iterdir() if one.is_dir())
TESTS = [one for file in files_with_tests(PACK) for one in read_tests(file)]
SHOWN = [
    pytest.param(document, id=f"{block.page.stem}-{number}")
    for page in PAGES
    if page != MISTAKEN
    for number, block in enumerate(blocks(page, "yaml"))
    for document in yaml.safe_load_all(block.text)
    if isinstance(document, dict) and str(document.get("apiVersion")).startswith("samestep.dev/")
]


def linted() -> Iterator[Path]:
    """The sets that people use: a folder with a policy.yaml, or a file by itself."""
    for file in policy_files():
        path = PACK / file
        yield path.parent if (path.parent / "policy.yaml").exists() else path


@pytest.mark.parametrize("written", TESTS, ids=lambda one: one.test.metadata.name)
def test_every_case_of_the_pack_comes_out_as_it_says(written: Written) -> None:
    results = list(run(written))
    assert [one for one in results if not (isinstance(one, CaseResult) and one.passed)] == []


@pytest.mark.parametrize("path", dict.fromkeys(linted()), ids=lambda one: one.relative_to(PACK).as_posix())
def test_lint_finds_nothing_in_any_set(path: Path) -> None:
    fleet = (path if path.is_dir() else path.parent) / "fleet.yaml"
    options = ["--fleet", str(fleet)] if fleet.exists() else []
    result = CliRunner().invoke(main, ["lint", "--strict", *options, str(path)])
    assert (result.exit_code, result.output) == (0, "0 errors, 0 warnings\n")


@pytest.mark.parametrize("name", NAMES)
def test_every_set_has_a_test_of_its_name_and_a_recipe(name: str) -> None:
    assert (PACK / name / f"{name}.test.yaml").exists()
    assert f"\n## {name}\n" in RECIPES.read_text("utf-8")


@pytest.mark.parametrize("file", policy_files())
def test_every_policy_names_its_schema_and_says_when_to_use_it(file: str) -> None:
    schema, comment = (PACK / file).read_text("utf-8").splitlines()[:2]
    kind = yaml.safe_load((PACK / file).parent.joinpath(schema.partition("$schema=")[2]).read_text("utf-8"))
    assert schema.startswith("# yaml-language-server: $schema=")
    assert {one["kind"] for one in yaml.safe_load_all((PACK / file).read_text("utf-8"))} == {
        kind["properties"]["kind"]["const"]
    }
    assert comment.startswith("# ")


def test_every_job_and_fleet_of_the_pack_is_used_by_a_case() -> None:
    used = set()
    for one in TESTS:
        assert isinstance(one, Written)
        spec = one.test.spec
        named = [*spec.fleet, *spec.policies, *(job for case in spec.cases for job in (*case.jobs, *case.old_jobs))]
        used |= {one.path(name).resolve() for name in named}
    there = {path for path in PACK.rglob("*.yaml") if not path.name.endswith(".test.yaml")}
    assert there - used == set()


@pytest.mark.parametrize("document", SHOWN)
def test_every_policy_that_documentation_shows_loads(document: dict[str, object]) -> None:
    if document["kind"] == "PolicyTest":
        assert PolicyTest.model_validate(document).spec.cases
    elif document["kind"] == "TrainingProfile":
        assert read_profile(document).observations
    else:
        assert is_ours(document)
        assert read_object(document).key.kind in KINDS


def test_every_mutant_that_may_survive_is_one_and_says_why() -> None:
    names = [one.name for one in mutants()]
    assert len(names) == len(set(names))
    assert accepted().keys() <= set(names)
    assert all(accepted().values())
