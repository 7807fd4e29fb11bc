"""Devices that pods ask for through claims (DRA)."""

from typing import Any

import pytest

from tests.samples import pod, pytorchjob
from webhook.intake.read import read_job
from webhook.intake.references import references
from webhook.model.job import Coupling, TrainingJob
from webhook.model.policy import Policy
from webhook.model.request import Kind, User
from webhook.model.surroundings import Reference, Surroundings

Json = dict[str, Any]

KIND = Kind("kubeflow.org", "v1", "PyTorchJob")
TEMPLATE = Reference(Kind("resource.k8s.io", "", "ResourceClaimTemplate"), "team-a", "four-gpus")
TYPE = "device.attributes['gpu.nvidia.com'].type == 'gpu'"


def product(name: str) -> str:
    return f'device.attributes["gpu.nvidia.com"].productName == "{name}"'


def claiming(**entry: str) -> Json:
    spec = pod(gpus=0)
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    spec["containers"].insert(0, {"name": "logs", "image": "logs"})
    spec["resourceClaims"] = [{"name": "gpus", **(entry or {"resourceClaimTemplateName": "four-gpus"})}]
    return pytorchjob(spec, workers=3)


def template(*requests: Json) -> Surroundings:
    return {TEMPLATE: {"metadata": {"name": "four-gpus"}, "spec": {"spec": {"devices": {"requests": list(requests)}}}}}


def asked(device_class: str = "gpu.nvidia.com", *expressions: str, **more: object) -> Json:
    selectors = {"selectors": [{"cel": {"expression": one}} for one in expressions]} if expressions else {}
    return {"deviceClassName": device_class, **selectors, **more}


def read(obj: Json, surroundings: Surroundings) -> TrainingJob:
    job = read_job(obj, kind=KIND, namespace="team-a", user=User(), surroundings=surroundings)
    assert isinstance(job, TrainingJob)
    return job


@pytest.mark.parametrize(
    "request_of",
    [
        {"name": "r", "exactly": asked(count=4)},
        {"name": "r", **asked(count=4)},
        {"name": "r", "firstAvailable": [{"name": "only", **asked(count=4)}]},
    ],
    ids=["as in v1", "as up to v1beta1", "one alternative"],
)
def test_the_class_and_number_of_a_template_are_devices_of_each_pod(request_of: Json) -> None:
    job = read(claiming(), template(request_of))
    (role,) = job.device_roles
    assert (role.device, role.devices, role.pods, role.products) == ("gpu.nvidia.com", 4, 3, ())
    assert job.coupling is Coupling.SYNCHRONOUS
    assert [(one.name, one.read) for one in job.containers] == [("logs", False), ("train", True)]


def test_several_requests_and_several_claims_add_up() -> None:
    obj = claiming()
    spec = obj["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["resourceClaims"].append({"name": "more", "resourceClaimTemplateName": "four-gpus"})
    requests = ({"name": "a", "exactly": asked(count=2)}, {"name": "b", "exactly": asked()})
    (role,) = read(obj, template(*requests)).device_roles
    assert role.devices == 6


HOPPER = 'device.attributes["gpu.nvidia.com"].productName in ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]'


def test_selectors_that_name_products_are_kept() -> None:
    request_of = {"name": "r", "exactly": asked("gpu.nvidia.com", f"{TYPE} && {HOPPER}")}
    (role,) = read(claiming(), template(request_of)).device_roles
    assert role.products == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")


def test_the_products_left_are_those_that_all_selectors_of_a_pod_name() -> None:
    one = {"name": "a", "exactly": asked("gpu.nvidia.com", HOPPER, product("NVIDIA H200"))}
    (role,) = read(claiming(), template(one, {"name": "b", "exactly": asked(count=3)})).device_roles
    assert (role.devices, role.products) == (4, ("NVIDIA H200",))


def test_a_pod_that_asks_for_devices_of_two_models_is_told() -> None:
    requests = [{"name": name, "exactly": asked("gpu.nvidia.com", product(name))} for name in ("h200", "l40s")]
    job = read(claiming(), template(*requests))
    assert [(one.code, one.variant) for one in job.findings] == [("SST104", "selector")]


@pytest.mark.parametrize(
    "exactly",
    [
        asked("gpu.nvidia.com", 'device.attributes["gpu.nvidia.com"].productName.lowerAscii().matches("h100")'),
        asked("gpu.nvidia.com", f"!({product('NVIDIA H100 80GB HBM3')})"),
        asked("gpu.nvidia.com", f"{product('a')} || {product('b')}"),
    ],
)
def test_devices_that_are_selected_in_another_way_are_not_counted_and_that_is_told(exactly: Json) -> None:
    job = read(claiming(), template({"name": "r", "exactly": exactly}))
    assert not job.device_roles
    assert [(one.code, one.variant) for one in job.findings] == [("SST104", "selector")]


@pytest.mark.parametrize("entry", [{"resourceClaimTemplateName": "other"}, {"resourceClaimName": "shared"}])
def test_a_claim_that_is_not_in_view_is_told(entry: dict[str, str]) -> None:
    job = read(claiming(**entry), template({"name": "r", "exactly": asked(count=4)}))
    assert not job.device_roles
    where = "spec.pytorchReplicaSpecs.Worker.template.spec.resourceClaims[0]"
    assert [(one.code, one.variant, one.where) for one in job.findings] == [("SST104", "claim", where)]


def test_classes_that_are_no_accelerators_are_no_devices() -> None:
    job = read(claiming(), template({"name": "r", "exactly": asked("dra.net", count=2)}))
    assert (job.device_roles, job.findings) == ((), ())


@pytest.mark.parametrize("broken", [{"spec": "x"}, {"spec": {"spec": {"devices": {"requests": [7]}}}}, {}])
def test_a_template_that_is_none_asks_for_nothing(broken: Json) -> None:
    assert read(claiming(), {TEMPLATE: broken}).device_roles == ()


def test_the_templates_of_claims_are_referred_to() -> None:
    assert references(claiming(), KIND, "team-a", Policy()) == (TEMPLATE,)
    assert references(claiming(resourceClaimName="shared"), KIND, "team-a", Policy()) == ()
    assert references({"spec": {"pytorchReplicaSpecs": 7}}, KIND, "team-a", Policy()) == ()
