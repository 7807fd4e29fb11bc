"""`samestep init`: what it writes, and that it passes lint and test as it stands."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from controlplane.nodes import A100_80GB, L40S, RTX_5090, cpu_node, gpu_node
from tests.samples import Json, demo_nodes
from tests.unit.cli.folders import write
from webhook.cli import main
from webhook.cli.policy_tests import Written, read_tests

FLEETS = sorted((Path(__file__).parents[2] / "corpus" / "_fleets").glob("*.yaml"))
Init = Callable[..., Result]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    """Runs the command for these nodes."""
    monkeypatch.chdir(tmp_path)

    def run(*nodes: Json, options: tuple[str, ...] = ()) -> Result:
        write(tmp_path, {"nodes.yaml": [*nodes]})
        return CliRunner().invoke(main, ["init", "--fleet", "nodes.yaml", *options], catch_exceptions=False)

    return run


def unlabelled(name: str, resource: str) -> Json:
    """A node with eight devices that no label tells of."""
    node = cpu_node(name)
    for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
        amounts[resource] = "8"
    return node


def other_vendor() -> Json:
    """A node with eight devices of another vendor, which has labels of its own."""
    node = unlabelled("mi300x", "amd.com/gpu")
    node["metadata"]["labels"] |= {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
    return node


def tainted(node: Json, *taints: str) -> Json:
    """The node with these taints ("key=value:effect", "key:effect")."""
    made = []
    for one in taints:
        told, _, effect = one.rpartition(":")
        key, _, value = told.partition("=")
        made.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    node["spec"]["taints"] = made
    return node


def several_vendors() -> list[Json]:
    return [
        tainted(
            gpu_node("l40s", L40S), "gpu=yes:NoSchedule", "team:NoExecute", "node.kubernetes.io/not-ready:NoExecute"
        ),
        tainted(gpu_node("a100", A100_80GB), "gpu=yes:NoSchedule"),
        other_vendor(),
        cpu_node("no-devices"),
    ]


MADE = {
    "demo": demo_nodes(),
    "one node": [gpu_node("one", RTX_5090, devices=1)],
    "all tainted": [tainted(one, "gpu:NoSchedule") for one in demo_nodes()],
    "several vendors": several_vendors(),
    "no label tells the vendors apart": [unlabelled("one", "nvidia.com/gpu"), unlabelled("two", "amd.com/gpu")],
}


@pytest.mark.parametrize("nodes", MADE.values(), ids=MADE)
def test_what_is_written_passes_lint_and_test(init: Init, nodes: list[Json]) -> None:
    assert init(*nodes).exit_code == 0
    passes("nodes.yaml")


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda one: one.stem)
def test_what_is_written_for_fleets_of_the_corpus_passes_too(init: Init, fleet: Path) -> None:
    assert init(*yaml.safe_load_all(fleet.read_text("utf-8"))).exit_code == 0
    passes("nodes.yaml")


def passes(fleet: str) -> None:
    linted = CliRunner().invoke(main, ["lint", "--strict", "--fleet", fleet])
    assert (linted.exit_code, linted.output) == (0, "0 errors, 0 warnings\n")
    tested = CliRunner().invoke(main, ["test"])
    assert tested.exit_code == 0, tested.output
    checked = CliRunner().invoke(
        main,
        ["check", "--policies", "policies", "--fleet", fleet, "-f", next(Path("policies/jobs").glob("*")).as_posix()],
    )
    assert checked.exit_code in (0, 1), checked.output


def test_there_are_cases_for_what_the_policy_is_about(init: Init) -> None:
    init(*demo_nodes())
    (written,) = read_tests(Path("policies/policy.test.yaml"))
    assert isinstance(written, Written)
    verdicts = {one.name: one.expect.verdict for one in written.test.spec.cases}
    assert verdicts == {
        "a job of one device": "Admit",
        "two pods that train together": "Pin",
        "two pods that need twice the memory of the largest device": "Deny",
    }


def test_what_people_read(init: Init, snapshot: SnapshotAssertion) -> None:
    printed = init(*several_vendors()).stdout
    shown = ("policy.yaml", "pools.yaml", "policy.test.yaml", "jobs/nvidia-two-pods.yaml")
    assert "\n".join([printed, *(Path("policies", name).read_text("utf-8") for name in shown)]) == snapshot


def test_a_pool_for_each_vendor_tolerates_what_all_its_nodes_are_tainted_with(init: Init) -> None:
    init(*several_vendors())
    pools = {
        one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(Path("policies/pools.yaml").read_text())
    }
    assert pools.keys() == {"amd", "nvidia"}
    assert pools["nvidia"]["inject"]["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    ]
    assert "inject" not in pools["amd"]
    assert pools["amd"]["nodeSelector"]["matchExpressions"][0]["key"].startswith("amd.com/")


def test_vendors_that_no_label_tells_apart_get_no_pools(init: Init) -> None:
    init(unlabelled("one", "nvidia.com/gpu"), unlabelled("two", "amd.com/gpu"))
    assert not Path("policies/pools.yaml").exists()


def test_there_are_no_pools_where_one_vendor_is(init: Init) -> None:
    init(*(tainted(one, "gpu=yes:NoSchedule") for one in demo_nodes()))
    assert not Path("policies/pools.yaml").exists()
    job = yaml.safe_load(Path("policies/jobs/two-pods.yaml").read_text())
    assert job["spec"]["template"]["spec"]["tolerations"][0]["key"] == "gpu"


def test_of_many_nodes_that_are_alike_a_few_are_kept(init: Init) -> None:
    init(*(gpu_node(f"n{number:03}", card) for number in range(20) for card in [(RTX_5090, L40S)[number % 2]]))
    kept = yaml.safe_load(Path("policies/fleet.yaml").read_text())["items"]
    assert [one["metadata"]["name"] for one in kept] == ["n000", "n001", "n002", "n003", "n004", "n005", "n006", "n007"]


def test_nothing_is_written_over(init: Init, tmp_path: Path) -> None:
    write(tmp_path, {"policies/pools.yaml": "mine"})
    assert init(*demo_nodes()).exit_code == 0  # one vendor: no pools
    again = init(*demo_nodes())
    assert (again.exit_code, "policies/policy.yaml" in again.stderr) == (2, True)
    refused = init(*several_vendors(), options=("-o", "policies"))
    assert (refused.exit_code, Path("policies/pools.yaml").read_text()) == (2, "mine")
    assert init(*several_vendors(), options=("-o", "others")).exit_code == 0


def test_a_file_in_the_way_is_told(init: Init, tmp_path: Path) -> None:
    write(tmp_path, {"policies": "a file"})
    result = init(*demo_nodes())
    assert (result.exit_code, "policies" in result.stderr) == (2, True)


@pytest.mark.parametrize("nodes", [[], [cpu_node("none")]])
def test_a_fleet_without_accelerators_gives_no_policy(init: Init, nodes: list[Json]) -> None:
    result = init(*nodes)
    assert (result.exit_code, Path("policies").exists()) == (2, False)
    assert "no node there has an accelerator" in result.stderr


def test_a_fleet_that_cannot_be_read_gives_no_policy(init: Init) -> None:
    result = init({"kind": "Node"})
    assert (result.exit_code, result.stderr) == (
        2,
        "unreadable: nodes.yaml#0: apiVersion: expected a string, got nothing\n",
    )
