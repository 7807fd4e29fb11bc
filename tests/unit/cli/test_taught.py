"""A kind that only the policy knows, offline: read, pinned, and sent to the webhook."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.nodes import RTX_PRO_6000
from tests.samples import Json, demo_nodes, pod
from tests.unit.policy.test_kinds import ENTRY, document
from webhook.cli import main
from webhook.cluster.registration import manifest


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(document(ENTRY)))
    return str(file)


def run(*groups: Json) -> Json:
    return {
        "apiVersion": "ml.example.com/v1",
        "kind": "TrainingRun",
        "metadata": {"name": "run", "namespace": "team-a", "annotations": {"samestep.dev/memory-per-device": "44Gi"}},
        "spec": {"groups": list(groups)},
    }


def group(name: str, replicas: int, gpus: int) -> Json:
    return {"name": name, "scale": {"replicas": replicas}, "pod": {"spec": pod(gpus=gpus, command=("python", "t.py"))}}


TWO_GROUPS = run(group("driver", 1, 0), group("rank", 4, 2))


def check(tmp_path: Path, *options: str) -> Result:
    jobs, nodes = tmp_path / "run.yaml", tmp_path / "nodes.yaml"
    jobs.write_text(yaml.safe_dump(TWO_GROUPS))
    nodes.write_text(yaml.safe_dump_all(demo_nodes()))
    return CliRunner().invoke(main, ["check", "-f", str(jobs), "--fleet", str(nodes), "-o", "json", *options])


def test_a_kind_that_the_policy_teaches_is_pinned_in_the_roles_with_devices(tmp_path: Path, policy: str) -> None:
    (item,) = json.loads(check(tmp_path, "--policies", policy).stdout)["items"]
    assert (item["verdict"], item["models"]) == ("Pin", [RTX_PRO_6000.product])
    assert (item["job"]["coupling"], item["job"]["devices"]) == ("Synchronous", 8)
    assert [(role["name"], role["pods"], role["devices"]) for role in item["job"]["roles"]] == [
        ("driver", 1, 0),
        ("rank", 4, 2),
    ]
    written = [one["path"] for one in item["patch"] if not one["path"].startswith("/metadata")]
    assert written == ["/spec/groups/1/pod/spec/nodeSelector"]


def test_without_the_policy_it_is_not_known(tmp_path: Path) -> None:
    (item,) = json.loads(check(tmp_path).stdout)["items"]
    assert (item["verdict"], item["findings"][0]["code"]) == ("Admit", "SST102")


def test_a_bad_entry_is_told_with_file_and_field(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump(document(ENTRY.replace("each: Item", "each: Items"))))
    result = check(tmp_path, "--policies", str(file))
    assert result.exit_code == 2
    assert "bad.yaml:15:7: spec.kinds.0.roles.0.each: Input should be 'One', 'Entry' or 'Item'" in result.stderr
    assert "Traceback" not in result.output


def test_the_webhook_configurations_are_the_manifest_where_nothing_is_taught() -> None:
    assert webhooks() == list(yaml.safe_load_all(manifest()))


def test_the_webhook_configurations_name_a_taught_kind(policy: str) -> None:
    for configuration in webhooks("--policies", policy):
        *_, last = configuration["webhooks"]
        (rule,) = last["rules"]
        assert (rule["apiGroups"], rule["apiVersions"], rule["resources"]) == (
            ["ml.example.com"],
            ["v1"],
            ["trainingruns"],
        )
        conditions = {one["name"]: one["expression"] for one in last["matchConditions"]}
        assert "object.?spec.?groups" in conditions["asks-for-devices"]
        assert "r.?pod.?spec.?containers" in conditions["asks-for-devices"]
        assert "o.kind == 'TrainingRun'" in conditions["no-child-of-a-decided-job"]


def test_fields_that_are_no_identifiers_of_cel_are_looked_up_by_index(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(yaml.safe_dump(document(ENTRY.replace("at: spec.groups", "at: spec.run-groups.for"))))
    (webhook,) = (one for one in webhooks("--policies", str(file))[0]["webhooks"] if "trainingruns" in one["name"])
    expression = webhook["matchConditions"][-1]["expression"]
    assert "object.?spec[?'run-groups'][?'for']" in expression


def webhooks(*options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["webhooks", *options], catch_exceptions=False)
    assert result.exit_code == 0
    return list(yaml.safe_load_all(result.stdout))
