"""Commands that ask a cluster, where there is none that answers: a line that says why, and a status of its own, since 1
is what `samestep audit` ends with where it has found something."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli import main

COMMANDS = (
    ["audit"],
    ["bundle", "job/any"],
    ["explain", "job/any"],
    ["fleet"],
    ["init"],
    ["learn"],
    ["uninstall"],
    ["uninstall", "--yes"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_cluster_that_does_not_answer_is_told_in_a_line(command: list[str], tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "gone",
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "nobody"}}],
        "clusters": [{"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "nobody", "user": {}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    done = CliRunner().invoke(main, [*command, "--kubeconfig", str(tmp_path / "config")])

    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line == "Error: no cluster to ask: cannot reach the API server at http://127.0.0.1:1: Connection refused"
