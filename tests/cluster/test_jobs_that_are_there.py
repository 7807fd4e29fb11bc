"""`samestep audit`, `explain TYPE/NAME` and `bundle` in front of a real API server, with pods that a real scheduler
placed and no webhook at all: what the first week is like."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.rig import ControlPlane
from tests.cluster.team import LARGE, PER_SAMPLE, SMALL, Team, spread_pod
from tests.samples import job
from webhook.cli import main


def samestep(team: Team, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-n", team.namespace, "--kubeconfig", str(team.cluster.kubeconfig)])


@pytest.mark.usefixtures("demo_fleet")
def test_a_spread_job_is_found_where_its_pods_are_and_one_that_waits_is_told_why(
    control_plane: ControlPlane, team: Team, tmp_path: Path
) -> None:
    spread = spread_pod(batch=16)
    spread["containers"][0]["env"] = [{"name": "WANDB_API_KEY", "value": "a-secret-of-the-team"}]
    team.apply(job(spread, **PER_SAMPLE))
    assert set(team.models_of("ddp", 4)) == {LARGE, SMALL}
    team.apply(job(spread_pod(gpus=4), name="waits"))
    team.kubectl("wait", "pods", "-l", "job-name=waits", "--for=condition=PodScheduled=false", "--timeout=60s")

    result = samestep(team, "audit", "-o", "json")

    assert result.exit_code == 1, result.output
    items: dict[str, Any] = {one["object"]["name"]: one for one in json.loads(result.stdout)["items"]}
    assert items.keys() == {"ddp", "waits"}
    assert (items["ddp"]["state"], items["ddp"]["found"]) == ("Running", ["mixed", "unpinned", "wouldBePinned"])
    assert {one["model"]: one["pods"] for one in items["ddp"]["landed"]["models"]} == {SMALL: 2, LARGE: 2}
    # Four GPUs for each of four ranks: no one model has so many.
    assert "wouldBeDenied" in items["waits"]["found"]

    told = samestep(team, "explain", "jobs.batch/waits")
    assert told.exit_code == 0, told.output
    assert "scheduler" in told.stdout
    assert "Insufficient nvidia.com/gpu" in told.stdout
    pod = control_plane.api.get(f"/api/v1/namespaces/{team.namespace}/pods")["items"][0]["metadata"]["name"]
    assert f"po/{pod} is part of it." in samestep(team, "explain", f"po/{pod}").stdout

    out = tmp_path / "bundle.tar.gz"
    made = samestep(team, "bundle", "job/ddp", "-w", str(out))
    assert made.exit_code == 0, made.output
    assert b"a-secret-of-the-team" not in gzip.decompress(out.read_bytes())
    assert "SST308 runs on several GPU models" in CliRunner().invoke(main, ["explain", "--bundle", str(out)]).stdout


def test_who_may_see_a_namespace_alone_is_told_of_a_job_in_it_what_stands_there(team: Team) -> None:
    team.kubectl("create", "serviceaccount", "dev")
    team.kubectl("create", "rolebinding", "dev", "--clusterrole=edit", f"--serviceaccount={team.namespace}:dev")
    team.apply(job(spread_pod(gpus=4), name="waits"))
    team.kubectl("wait", "pods", "-l", "job-name=waits", "--for=condition=PodScheduled=false", "--timeout=60s")
    dev = team.cluster.kubeconfig_for(f"system:serviceaccount:{team.namespace}:dev")

    told = CliRunner().invoke(main, ["explain", "job/waits", "-n", team.namespace, "--kubeconfig", str(dev)])

    assert told.exit_code == 2
    assert "State: Pending" in told.stdout
    assert "no nodes available to schedule pods" in told.stdout
    assert "you may not list nodes" in told.stdout
    assert "Verdict:" not in told.stdout
    assert f"unreadable: /api/v1/pods: only those of namespace {team.namespace} may be listed" in told.stderr


@pytest.mark.parametrize("command", ["audit", "bundle job/any", "explain job/any", "fleet", "learn", "uninstall"])
def test_who_may_see_nothing_is_told_what_was_refused(control_plane: ControlPlane, command: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), "--kubeconfig", str(control_plane.kubeconfig_for("nobody"))])

    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    refused = "among what may be listed of" if "explain" in command else 'forbidden: User "nobody" cannot'
    assert refused in done.stderr.splitlines()[-1]
