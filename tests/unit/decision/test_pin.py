"""How the pin is written."""

from typing import Any

from controlplane.nodes import A100_80GB, RTX_5090, RTX_PRO_6000
from tests.samples import Json, ask, nodes, patched, pod, pytorchjob, worker
from webhook.answer.response import patch
from webhook.model.policy import Policy

PRODUCT = "nvidia.com/gpu.product"
LARGE = "44Gi"


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def terms_of(obj: Json) -> list[Any]:
    required = worker(obj)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: list[Any] = required["nodeSelectorTerms"]
    return found


def test_a_slash_in_a_key_is_escaped_and_nothing_that_is_there_is_replaced() -> None:
    obj = pytorchjob(pod(nodeSelector={"kubernetes.io/os": "linux"}), memory_per_device=LARGE)
    operations = patch(ask(obj))
    assert [one["path"] for one in operations] == [
        "/spec/pytorchReplicaSpecs/Worker/template/spec/nodeSelector/nvidia.com~1gpu.product",
        "/metadata/annotations/samestep.dev~1pinned",
    ]
    assert worker(patched(ask(obj)))["nodeSelector"] == {
        "kubernetes.io/os": "linux",
        PRODUCT: RTX_PRO_6000.product,
    }


def test_null_parents_are_made() -> None:
    obj = pytorchjob(pod(nodeSelector=None), memory_per_device=LARGE)
    assert worker(patched(ask(obj)))["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}
    bare = pytorchjob()
    bare["metadata"]["annotations"] = None
    assert "samestep.dev/pinned" in patched(ask(bare))["metadata"]["annotations"]


def test_an_affinity_of_the_users_own_is_kept_beside_a_nodeselector() -> None:
    terms: tuple[Json, ...] = (
        {"matchExpressions": [expression("a", "DoesNotExist")]},
        {"matchExpressions": [expression("b", "DoesNotExist")]},
    )
    obj = pytorchjob(pod(affinity=affinity(*terms)), memory_per_device=LARGE)
    after = patched(ask(obj))
    assert terms_of(after) == list(terms)
    assert worker(after)["nodeSelector"] == {PRODUCT: RTX_PRO_6000.product}


def test_several_values_go_into_every_term_that_is_not_empty() -> None:
    known = nodes((A100_80GB, 2, 8), (RTX_5090, 2, 8))
    known[0]["metadata"]["labels"][PRODUCT] = "A100-SXM4-80GB"
    terms: tuple[Json, ...] = (
        {"matchExpressions": [expression("a", "DoesNotExist")]},
        {"matchFields": [expression("metadata.name", "NotIn", "elsewhere")]},
        {},
    )
    after = patched(ask(pytorchjob(pod(affinity=affinity(*terms)), memory_per_device=LARGE), known))
    ours = expression(PRODUCT, "In", "A100-SXM4-80GB", A100_80GB.product)
    assert terms_of(after) == [
        {"matchExpressions": [expression("a", "DoesNotExist"), ours]},
        {"matchFields": terms[1]["matchFields"], "matchExpressions": [ours]},
        {},
    ]


def test_missing_parents_of_an_affinity_are_made_and_no_more() -> None:
    known = nodes((A100_80GB, 2, 8), (RTX_5090, 2, 8))
    known[0]["metadata"]["labels"][PRODUCT] = "A100-SXM4-80GB"
    preferred: Json = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    givens: list[Json | None] = [None, {}, {"nodeAffinity": None}, {"nodeAffinity": preferred}, {"podAntiAffinity": {}}]
    for given in givens:
        obj = pytorchjob(pod(affinity=given), memory_per_device=LARGE)
        after = patched(ask(obj, known))
        assert len(terms_of(after)) == 1
        for key, value in (given or {}).items():
            if value:
                assert worker(after)["affinity"][key].items() >= value.items()
    assert len(terms_of(patched(ask(pytorchjob(memory_per_device=LARGE), known)))) == 1


def test_a_cloud_key_that_some_nodes_lack_is_passed_over_for_one_that_all_carry() -> None:
    known = nodes((A100_80GB, 3, 8), (RTX_5090, 2, 8))
    for index, one in enumerate(known[:3]):
        one["metadata"]["labels"] |= {"team-key": "a100"} if index else {}
    outcome = ask(pytorchjob(memory_per_device=LARGE), known, policy=Policy(pin_keys=("team-key",)))
    assert worker(patched(outcome))["nodeSelector"] == {PRODUCT: A100_80GB.product}


def test_where_no_key_is_on_every_node_the_one_that_keeps_the_gangs_room_serves() -> None:
    known = nodes((A100_80GB, 3, 8), (RTX_5090, 2, 8))
    # No product label of the vendor separates: a node of unknown model shares it.
    odd = nodes((A100_80GB, 1, 8))[0]
    odd["metadata"]["name"] = "odd"
    odd["metadata"]["labels"]["nvidia.com/gpu.count"] = "4"
    for one in known[1:3]:
        one["metadata"]["labels"]["team-key"] = "a100"
    policy = Policy(pin_keys=("team-key",))
    outcome = ask(pytorchjob(pod(gpus=8), workers=2, memory_per_device=LARGE), [*known, odd], policy=policy)
    assert worker(patched(outcome))["nodeSelector"] == {"team-key": "a100"}
    outcome = ask(pytorchjob(pod(gpus=8), workers=3, memory_per_device=LARGE), [*known, odd], policy=policy)
    assert "SST307" in [one.code for one in outcome.decision.findings]
