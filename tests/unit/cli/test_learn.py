"""`samestep learn` and what `samestep serve` is told of a Prometheus, where that is wrong. What is learned is tested on
a real API server (tests/monitoring/test_learning.py)."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli import main


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["learn", "--since", "soon"], "expected a time like 12h, 7d or 4w, got 'soon'"),
        (["learn", "--since", "0d"], "expected a time like"),
        (["learn", "--since", "999999d"], "expected a time like"),
        (["learn", "--prometheus", "prometheus:9090"], "expected http:// or https:// and a host"),
        (["learn", "--prometheus-token-file", "token"], "go with --prometheus"),
        (["learn", "--prometheus", "http://a", "--prometheus-token-file", "no-such"], "no-such: no such file"),
        (["learn", "--policies", "no-such"], "no-such: No such file or directory"),
        (["serve", "--prometheus", "ftp://a"], "expected http:// or https:// and a host"),
        (["serve", "--prometheus-ca-file", "ca"], "go with --prometheus"),
        (["serve", "--fleet", "nodes.yaml", "--prometheus", "http://a"], "goes with a cluster"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_asked(options: list[str], told: str) -> None:
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 2, done.output
    assert told in done.output, done.output


def test_without_a_cluster_there_is_nothing_to_learn_from(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["learn", f"--kubeconfig={tmp_path / 'none'}"])
    assert done.exit_code == 2, done.output
    assert "no such kubeconfig file" in done.output
