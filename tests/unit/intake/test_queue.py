"""The queue that a job names."""

from typing import Any

import pytest

from tests.unit.intake.jobs import GPU, JOB, PYTORCH_JOB, container, job, pytorch_job, read
from webhook.model.placement import Operator, Requirement
from webhook.model.queues import QueueName
from webhook.model.request import Kind

KUEUE = "kueue.x-k8s.io/queue-name"
VOLCANO = "scheduling.volcano.sh/queue-name"
Json = dict[str, Any]


def with_metadata(source: Json, **metadata: object) -> Json:
    return {**source, "metadata": {**source["metadata"], **metadata}}


def in_template(source: Json, **metadata: object) -> Json:
    template = {**source["spec"]["template"], "metadata": metadata}
    return {**source, "spec": {**source["spec"], "template": template}}


def vcjob(queue: object) -> Json:
    task = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [container()]}}}
    return {"metadata": {"name": "ddp"}, "spec": {"queue": queue, "tasks": [task]}}


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        (with_metadata(job(container()), labels={KUEUE: "lq"}), JOB, QueueName("Kueue", "lq")),
        (with_metadata(pytorch_job(container()), labels={KUEUE: "lq"}), PYTORCH_JOB, QueueName("Kueue", "lq")),
        (with_metadata(job(container()), annotations={KUEUE: "old"}), JOB, QueueName("Kueue", "old")),
        (
            with_metadata(job(container()), labels={KUEUE: "lq"}, annotations={KUEUE: "old"}),
            JOB,
            QueueName("Kueue", "lq"),
        ),
        # Kueue looks at the job alone.
        (in_template(job(container()), labels={KUEUE: "lq"}), JOB, None),
        (vcjob("research"), Kind("batch.volcano.sh", "v1alpha1", "Job"), QueueName("Volcano", "research")),
        (vcjob(""), Kind("batch.volcano.sh", "v1alpha1", "Job"), None),
        (vcjob(7), Kind("batch.volcano.sh", "v1alpha1", "Job"), None),
        (
            pytorch_job(container(), runPolicy={"schedulingPolicy": {"queue": "research"}}),
            PYTORCH_JOB,
            QueueName("Volcano", "research"),
        ),
        (in_template(job(container()), annotations={VOLCANO: "research"}), JOB, QueueName("Volcano", "research")),
        (with_metadata(job(container()), annotations={VOLCANO: "research"}), JOB, QueueName("Volcano", "research")),
        (in_template(job(container()), labels={"kai.scheduler/queue": "team"}), JOB, QueueName("KAI", "team")),
        (with_metadata(job(container()), labels={KUEUE: 7}), JOB, None),
        (in_template(job(container()), labels=["no map"]), JOB, None),
        (job(container()), JOB, None),
    ],
)
def test_a_queue_is_named_by_label_annotation_or_field(source: Json, kind: Kind, expected: QueueName | None) -> None:
    assert read(source, kind).queue == expected


@pytest.mark.parametrize("place", [with_metadata, in_template])
def test_a_node_pool_of_kai_is_a_label_that_its_nodes_carry(place: Any) -> None:  # noqa: ANN401 - one of two functions
    source = place(job(container()), labels={"kai.scheduler/queue": "team", "kai.scheduler/node-pool": "h100"})
    pool = Requirement("kai.scheduler/node-pool", Operator.IN, ("h100",))
    assert read(source).queue == QueueName("KAI", "team", (pool,))


def test_the_template_of_a_role_without_devices_says_nothing() -> None:
    source = in_template(job({"name": "main", "resources": {"limits": {"cpu": 1}}}), annotations={VOLCANO: "research"})
    assert GPU not in str(source)
    assert read(source).queue is None
