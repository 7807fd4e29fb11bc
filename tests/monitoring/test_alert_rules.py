"""The alert rules of manifests/components/monitoring, by Prometheus' own promtool."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from controlplane.build import GoUnavailableError, artifact
from demo.serving import ROOT

TESTS = Path(__file__).parent / "alerts" / "rules.test.yaml"
RULES = yaml.safe_load((ROOT / "manifests" / "components" / "monitoring" / "rules.yaml").read_text())["spec"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules and their tests, as promtool takes them."""
    made = tmp_path_factory.mktemp("alerts")
    (made / "rules.yaml").write_text(yaml.safe_dump(RULES))
    shutil.copy(TESTS, made)
    return made


def promtool(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    try:
        program = artifact("promtool")
    except GoUnavailableError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def test_promtool_takes_the_rules(folder: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", folder / "rules.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(len(group["rules"]) for group in RULES["groups"])
    assert f"SUCCESS: {count} rules found" in done.stdout


def test_each_alert_fires_when_it_should_and_not_before(folder: Path) -> None:
    done = promtool("test", "rules", folder / TESTS.name)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    cases = [case for test in yaml.safe_load(TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    fired = {case["alertname"] for case in cases if case["exp_alerts"]}

    assert fired == {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}
