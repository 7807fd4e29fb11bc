"""What docs/how-to/pools-per-vendor.md says of its own pools and jobs."""

from typing import Any

import pytest
import yaml

from controlplane.nodes import A100_80GB, H100, gpu_node
from tests.samples import Json, ask, codes, fleet, patched, products
from tests.unit.decision.vendors import amd_node, npu_node
from tests.unit.docs.markdown import ROOT, blocks
from webhook.model.fleet import Fleet
from webhook.model.policy import Policy
from webhook.model.request import User
from webhook.model.rules import AcceleratorPool as Pool
from webhook.model.rules import Rules
from webhook.model.verdict import Review, Verdict
from webhook.policy.accelerator_pool import AcceleratorPool

PAGE = ROOT / "docs" / "how-to" / "pools-per-vendor.md"
EACH = [list(yaml.safe_load_all(block.text)) for block in blocks(PAGE, "yaml")]
VENDORS, SUBMITTED, STORED, RESEARCH, CLOUD, QUEUED = range(6)


def pools(*which: int) -> tuple[Pool, ...]:
    found = (one for index in which for one in EACH[index] if one["kind"] == "AcceleratorPool")
    return tuple(AcceleratorPool.model_validate(one).resolved() for one in found)


def nodes() -> Fleet:
    """Two nodes for each stack, labelled and tainted as the page says, and two of the research team's."""
    found = []
    for stack, taint, team, made in (
        ("cuda", "nvidia.com/gpu", "", [gpu_node(f"h100-{index}", H100, devices=8) for index in (1, 2)]),
        ("cuda", "nvidia.com/gpu", "research", [gpu_node(f"a100-{index}", A100_80GB, devices=8) for index in (1, 2)]),
        ("rocm", "amd.com/gpu", "", [amd_node(f"mi300x-{index}", devices=8) for index in (1, 2)]),
        ("rbln", "rebellions.ai/npu", "", [npu_node(f"rebel-{index}", devices=8) for index in (1, 2)]),
    ):
        for node in made:
            node["metadata"]["labels"] |= {"stack": stack, **({"team": team} if team else {})}
            node["spec"]["taints"] = [{"key": taint, "value": "present", "effect": "NoSchedule"}]
            if team:
                node["spec"]["taints"].append({"key": "team", "value": team, "effect": "NoSchedule"})
            found.append(node)
    return fleet(found)


def asked(obj: Json, *which: int, team: str = "vision", **more: Any) -> Review:  # noqa: ANN401 - as `ask` takes them
    rules = Rules((Policy(),), pools=pools(*which))
    return ask(obj, nodes(), rules=rules, namespaces={"team-a": {"team": team}}, **more)


def wanting(device: str, *, replicas: int = 2, memory: str = "60Gi", pool: str = "") -> Json:
    (obj,) = yaml.safe_load_all(blocks(PAGE, "yaml")[SUBMITTED].text)
    worker = obj["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker["replicas"] = replicas
    worker["template"]["spec"]["containers"][0] |= {"image": "train", "resources": {"limits": {device: 8}}}
    obj["metadata"]["annotations"] = {"samestep.dev/memory-per-device": memory}
    if pool:
        obj["metadata"]["annotations"]["samestep.dev/pool"] = pool
    found: Json = obj
    return found


def test_the_job_of_the_page_is_stored_as_the_page_shows() -> None:
    (submitted,), (stored,) = EACH[SUBMITTED], EACH[STORED]
    outcome = asked(submitted, VENDORS)
    assert (outcome.verdict, codes(outcome)) == (Verdict.PIN, ["SST301"])
    assert patched(outcome) == stored


@pytest.mark.parametrize(
    ("device", "pool"), [("nvidia.com/gpu", "cuda"), ("amd.com/gpu", "rocm"), ("rebellions.ai/REBEL", "npu")]
)
def test_who_asks_for_a_vendors_devices_comes_to_its_pool(device: str, pool: str) -> None:
    outcome = asked(wanting(device), VENDORS)
    assert (outcome.verdict, outcome.decision.pool_name) == (Verdict.PIN, pool)
    assert len(products(outcome)) == 1


def test_the_research_pool_is_for_its_namespaces_and_its_group_and_comes_first() -> None:
    obj = wanting("nvidia.com/gpu")
    assert asked(obj, VENDORS, RESEARCH).decision.pool_name == "cuda"
    assert asked(obj, VENDORS, RESEARCH, user=User("alice", ("gpu-admins",))).decision.pool_name == "cuda-research"
    outcome = asked(obj, VENDORS, RESEARCH, team="research")
    assert (outcome.decision.pool_name, products(outcome)) == ("cuda-research", [A100_80GB.product])
    named = wanting("nvidia.com/gpu", pool="cuda-research")
    assert asked(named, VENDORS, RESEARCH, team="research").verdict is Verdict.PIN
    assert codes(asked(named, VENDORS, RESEARCH)) == ["SST404"]


def test_the_cloud_pool_gets_what_fits_no_other_even_while_it_is_empty() -> None:
    large = wanting("nvidia.com/gpu", replicas=6)
    assert asked(large, VENDORS).verdict is Verdict.DENY
    outcome = asked(large, VENDORS, CLOUD)
    assert (outcome.verdict, outcome.decision.pool_name) == (Verdict.PIN, "cuda-cloud")


def test_the_queue_of_the_page_is_named_and_is_there() -> None:
    outcome = asked(wanting("amd.com/gpu"), QUEUED)
    queue = patched(outcome)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    of_kind = {one["kind"]: one for one in EACH[QUEUED]}
    assert of_kind["LocalQueue"]["metadata"]["name"] == queue
    assert of_kind["LocalQueue"]["spec"]["clusterQueue"] == of_kind["ClusterQueue"]["metadata"]["name"]
    (flavor,) = of_kind["ClusterQueue"]["spec"]["resourceGroups"][0]["flavors"]
    assert flavor["name"] == of_kind["ResourceFlavor"]["metadata"]["name"]
    labels = of_kind["ResourceFlavor"]["spec"]["nodeLabels"]
    (pool,) = pools(QUEUED)
    assert {one.key: one.values[0] for one in pool.nodes} == labels
