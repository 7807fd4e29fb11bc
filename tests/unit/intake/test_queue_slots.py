"""Where a queue can be named for a job."""

from typing import Any

import pytest

from tests.kinds import WRITTEN
from tests.samples import pod
from webhook.catalog.queues import queue_systems, system_of
from webhook.catalog.workloads import workloads
from webhook.intake.read import read_job
from webhook.model.job import TrainingJob
from webhook.model.patch import add, pointer
from webhook.model.placement import Pointer
from webhook.model.queues import QueueName, Slot
from webhook.model.request import Kind, User

Json = dict[str, Any]


def read(obj: Json) -> TrainingJob:
    group, _, version = obj["apiVersion"].rpartition("/")
    found = read_job(obj, kind=Kind(group, version, obj["kind"]), namespace="team-a", user=User("alice"))
    assert isinstance(found, TrainingJob)
    return found


def write(obj: Json, slot: Slot, name: str) -> None:
    """RFC 6902 add, by hand."""
    value: Any = name
    for step in reversed(slot.below):
        value = {step: value}
    inner: Any = obj
    for step in slot.at[:-1]:
        inner = inner[step]
    assert pointer(slot.at) == add(slot.at, value)["path"]
    inner[slot.at[-1]] = value


@pytest.mark.parametrize("scheduler", ["", "volcano", "kai-scheduler", "mine"])
@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_of_every_kind_what_is_written_there_is_read_as_its_queue(kind: str, scheduler: str) -> None:
    obj = WRITTEN[kind](pod(), 4)
    job = read(obj)
    assert job.queue is None
    slots = job.queue_slots(scheduler)
    assert slots
    for slot in slots:
        write(obj, slot, "lq")
    system = system_of(scheduler, job.kind.group)
    assert read(obj).queue == QueueName(system.system, "lq")
    assert not read(obj).queue_slots(scheduler)


@pytest.mark.parametrize(
    ("metadata", "at"),
    [
        ({}, ("metadata", "labels")),
        ({"labels": None}, ("metadata", "labels")),
        ({"labels": {}}, ("metadata", "labels", "kueue.x-k8s.io/queue-name")),
        ({"labels": {"kueue.x-k8s.io/queue-name": ""}}, ("metadata", "labels", "kueue.x-k8s.io/queue-name")),
    ],
)
def test_the_missing_parents_are_made_and_no_more(metadata: Json, at: Pointer) -> None:
    obj = WRITTEN["PyTorchJob"](pod(), 4)
    obj["metadata"] |= metadata
    (slot,) = read(obj).queue_slots("")
    assert slot.at == at


def test_each_system_is_the_one_of_its_schedulers_and_one_goes_with_any() -> None:
    for system in queue_systems():
        for scheduler in system.schedulers:
            assert system_of(scheduler, "batch") == system
    assert system_of("", "batch.volcano.sh").system == "Volcano"
    assert system_of("default", "batch.volcano.sh").system == "Kueue"
    assert [one.system for one in queue_systems() if not one.schedulers] == ["Kueue"]
    systems = {one.system for one in queue_systems()}
    assert all(set(one.queues) <= systems for one in workloads().entries)
