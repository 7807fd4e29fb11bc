"""Jobs whose devices come through claims are decided on the nodes that ResourceSlices list devices for."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from controlplane.nodes import A100_80GB, H100, gpu_node
from tests.samples import USER, codes, patched, pod, products, pytorchjob, worker
from webhook.decision.notes import Tell, untold
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.model.fleet import Fleet, Listed, Node
from webhook.model.policy import Policy
from webhook.model.request import Kind, Request, Stage
from webhook.model.surroundings import Reference
from webhook.model.verdict import Review, Verdict
from webhook.model.world import World
from webhook.review import review

Json = dict[str, Any]
KIND = Kind("kubeflow.org", "v1", "PyTorchJob")
TEMPLATE = Reference(Kind("resource.k8s.io", "", "ResourceClaimTemplate"), "team-a", "four-gpus")
# As the driver says it, in ResourceSlices; feature discovery writes a dash for each space.
SPOKEN = {A100_80GB.product: "NVIDIA A100-SXM4-80GB", H100.product: "NVIDIA H100 80GB HBM3"}


def node(name: str, product: str, memory_mib: int) -> Node:
    """A node whose devices are listed in ResourceSlices, and have no resource name."""
    raw = gpu_node(name, A100_80GB if "A100" in product else H100, devices=8)
    for amounts in (raw["status"]["allocatable"], raw["status"]["capacity"]):
        amounts.pop("nvidia.com/gpu", None)
    read = read_node(raw, slices=(Listed("NVIDIA", SPOKEN[product], memory_mib, 8),))
    assert read is not None
    return read


def fleet() -> Fleet:
    cards = [(A100_80GB.product, A100_80GB.memory_mib, 3), (H100.product, H100.memory_mib, 2)]
    return build_fleet(
        node(f"{product.lower()}-{index}", product, memory)
        for product, memory, count in cards
        for index in range(count)
    )


def claiming(template: str) -> Json:
    """A pod whose devices are those of a claim by the template of this name."""
    spec = pod(gpus=0, resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": template}])
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    return spec


def four(*products: str) -> Json:
    """A claim template that asks for four devices of this product; without one, of any."""
    expressions = (f'device.attributes["gpu.nvidia.com"].productName == "{SPOKEN[one]}"' for one in products)
    selectors = [{"cel": {"expression": one}} for one in expressions]
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 4, "selectors": selectors}
    return {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}}


def known(**templates: Json) -> World:
    return World(fleet(), Policy(), {replace(TEMPLATE, name=name): one for name, one in templates.items()})


def ask(*wanted: str, memory: str = "44Gi", tell: Tell = untold) -> Review:
    job = pytorchjob(claiming("gpus"), memory_per_device=memory)
    request = Request(KIND, "CREATE", job, namespace="team-a", user=USER, now=1000.0)
    return review(request, known(gpus=four(*wanted)), tell)


def test_a_job_that_claims_devices_is_pinned_to_one_model() -> None:
    outcome = ask()
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [A100_80GB.product])


def test_a_selector_that_names_a_product_leaves_only_its_nodes() -> None:
    outcome = ask(H100.product)
    assert (outcome.verdict, products(outcome)) == (Verdict.ADMIT, [H100.product])


def test_memory_is_judged_on_the_devices_that_are_listed() -> None:
    outcome = ask(memory="200Gi")
    assert (outcome.verdict, codes(outcome)[0]) == (Verdict.DENY, "SST201")


def of_two_roles(master: str, worker: str) -> Review:
    """A master and its workers claim devices alike, but for the products that their templates name (empty: any)."""
    job = pytorchjob(workers=1, memory_per_device="44Gi")
    for role in ("Master", "Worker"):
        job["spec"]["pytorchReplicaSpecs"][role] = {"replicas": 1, "template": {"spec": claiming(role.lower())}}
    request = Request(KIND, "CREATE", job, namespace="team-a", user=USER, now=1000.0)
    templates = {name: four(*filter(None, (product,))) for name, product in (("master", master), ("worker", worker))}
    return review(request, known(**templates))


def test_roles_that_claim_different_products_have_no_model_in_common() -> None:
    outcome = of_two_roles(A100_80GB.product, H100.product)
    assert (outcome.verdict, codes(outcome)) == (Verdict.DENY, ["SST401"])
    there = {one.model.product: one.short_role for one in outcome.decision.pool.candidates}
    assert there == {A100_80GB.product: "Worker", H100.product: "Master"}


@pytest.mark.parametrize(("master", "worker"), [(H100.product, ""), ("", H100.product)])
def test_a_role_that_claims_any_product_is_pinned_to_that_of_the_other(master: str, worker: str) -> None:
    outcome = of_two_roles(master, worker)
    assert (outcome.verdict, products(outcome)) == (Verdict.PIN, [H100.product])


def of_template(name: str) -> Json:
    return pytorchjob(claiming(name), memory_per_device="44Gi")


def updated(new: Json, old: Json | None, stage: Stage = Stage.MUTATE) -> Review:
    """The review where three templates ask for four devices each: of any product, of A100 alone, of H100 alone."""
    request = Request(KIND, "CREATE", new, namespace="team-a", user=USER, now=1000.0, stage=stage)
    if old is not None:
        request = replace(request, operation="UPDATE", old_object=old)
    return review(request, known(any=four(), a100=four(A100_80GB.product), h100=four(H100.product)))


@pytest.mark.parametrize("applied_from_git", [True, False], ids=["applied from Git", "edited"])
def test_a_job_that_has_not_started_moves_to_the_product_that_its_claims_name_now(applied_from_git: bool) -> None:
    stored = patched(updated(of_template("any"), None))
    assert worker(stored)["nodeSelector"] == {"nvidia.com/gpu.product": A100_80GB.product}
    new = of_template("h100") if applied_from_git else deepcopy(stored)
    worker(new)["resourceClaims"][0]["resourceClaimTemplateName"] = "h100"
    outcome = updated(new, stored)
    after = patched(outcome)
    assert products(outcome) == [H100.product]
    assert worker(after).get("nodeSelector", {}) in ({}, {"nvidia.com/gpu.product": H100.product})
    assert updated(after, stored, Stage.VALIDATE).verdict is Verdict.ADMIT


def test_claims_of_a_running_job_may_not_be_widened_to_a_second_model() -> None:
    old, new = of_template("a100"), of_template("any")
    old["status"] = new["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    assert codes(updated(new, old)) == ["SST302"]
