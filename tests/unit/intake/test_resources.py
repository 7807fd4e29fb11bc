from typing import Any

import pytest

from tests.unit.intake.jobs import GPU, Json, container, job, read, template
from webhook.model.job import Role


def role(*containers: dict[str, Any], **spec: Json) -> Role:
    return read({"spec": {"template": template(*containers, **spec)}}).roles[0]


def asks(**resources: Json) -> dict[str, Any]:
    return {"resources": {"requests": resources}}


def test_containers_add_up_and_a_limit_without_a_request_counts_as_one() -> None:
    first = {"resources": {"limits": {GPU: 1, "cpu": "1500m", "memory": "2Gi"}, "requests": {"cpu": 1}}}
    second = {"resources": {"limits": {GPU: "1"}, "requests": {"memory": "1Gi", GPU: None}}}
    found = role(first, second, {"resources": None}, {})
    assert found.requests == {GPU: 2, "cpu": 1000, "memory": 3 << 30}
    assert (found.device, found.devices) == (GPU, 2)


def test_an_init_container_counts_by_itself_and_not_on_top() -> None:
    found = role(container("x", gpus=8), initContainers=[asks(**{GPU: 1}), asks(cpu=4)])
    assert found.requests == {GPU: 8, "cpu": 4000}


def test_an_init_container_may_be_the_largest() -> None:
    assert role(container("x", gpus=1), initContainers=[asks(**{GPU: 4})]).devices == 4


def test_sidecars_count_beside_containers_and_beside_init_containers_after_them() -> None:
    sidecar = {**asks(cpu=1), "restartPolicy": "Always"}
    assert role(asks(cpu=2), initContainers=[asks(cpu=3), sidecar]).requests == {"cpu": 3000}
    assert role(asks(cpu=2), initContainers=[sidecar, asks(cpu=3)]).requests == {"cpu": 4000}
    assert role(asks(cpu=2), initContainers=[sidecar, sidecar, asks(cpu=1)]).requests == {"cpu": 4000}


def test_pod_level_resources_override_and_overhead_is_added() -> None:
    found = role(
        {"resources": {"requests": {"cpu": 1, "memory": 10}, "limits": {GPU: 1}}},
        resources={"requests": {"cpu": 3}, "limits": {"cpu": 9, "memory": 99, "hugepages-2Mi": 5, GPU: 7}},
        overhead={"cpu": "250m"},
    )
    assert found.requests == {"cpu": 3250, "memory": 10, "hugepages-2Mi": 5, GPU: 1}


@pytest.mark.parametrize("zero", [0, "0", 0.0, None])
def test_zero_devices_are_none(zero: object) -> None:
    found = role({"resources": {"limits": {GPU: zero}}})
    assert (found.device, found.devices, found.requests) == ("", 0, {})


def test_of_two_accelerators_the_first_is_the_device_and_both_are_requested() -> None:
    found = role({"resources": {"limits": {"amd.com/gpu": 2, GPU: 4}}})
    assert (found.device, found.devices, found.requests) == ("amd.com/gpu", 2, {"amd.com/gpu": 2, GPU: 4})


def test_fabric_resources_are_no_devices() -> None:
    found = role({"resources": {"limits": {"rdma/hca": 1, "example.com/license": 2}}})
    assert (found.device, found.devices) == ("", 0)


def test_huge_amounts_are_capped() -> None:
    assert role({"resources": {"limits": {GPU: "9e99"}}}).devices == (1 << 63) - 1


def test_the_devices_of_a_job_are_found_in_whichever_container_has_them() -> None:
    bystanders: list[dict[str, Any]] = [{"name": "agent"}, {"name": "proxy", "resources": {}}]
    trainer = container("torchrun", "train.py", "--per_device_train_batch_size=8", gpus=8)
    found = read(job(*bystanders, trainer, pods=2))
    assert found.roles[0].devices == 8
    assert found.batch.micro is not None
    assert found.batch.micro.field == "spec.template.spec.containers[2].command[2]"
