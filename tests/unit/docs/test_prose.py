"""Links lead somewhere, and the YAML that people will copy can be read."""

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.docs.markdown import PAGES, ROOT, Block, anchors, blocks, links
from webhook.intake import annotations
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.request import Kind, User
from webhook.policy.training_policy import TrainingPolicy
from webhook.policy.training_profile import TrainingProfile

YAML = [block for page in PAGES for block in blocks(page, "yaml")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_repository_resolve(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("block", YAML, ids=lambda block: str(block.page.relative_to(ROOT)))
def test_yaml_can_be_read_as_what_it_is(block: Block) -> None:
    for one in yaml.safe_load_all(block.text):
        match one:
            case {"kind": "TrainingPolicy"}:
                TrainingPolicy.model_validate(one)
            case {"kind": "TrainingProfile"}:
                TrainingProfile.model_validate(one)
            case {"kind": str(kind), "apiVersion": str(api_version)} if api_version in ("batch/v1", "kubeflow.org/v1"):
                group, _, version = api_version.rpartition("/")
                job = read_job(one, kind=Kind(group, version, kind), namespace="", user=User(""))
                assert isinstance(job, TrainingJob)
                assert job.findings == ()
            case _:
                assert one is not None


def test_every_annotation_is_documented_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "annotations.md").read_text("utf-8")
    assert set(re.findall(r"^\| `samestep\.dev/([a-z-]+)`", page, re.MULTILINE)) == set(annotations._KEYS)


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    written = {path.name for path in folder.glob("[0-9]*.md")}
    assert written == {link for link in links(folder / "README.md") if link.endswith(".md")}
