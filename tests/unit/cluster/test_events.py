"""Events, written to an API server of a few lines that does as it is told."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples import Json, ask, job
from tests.unit.cluster.api_server import ApiServer, served, until
from webhook.answer.events import Told
from webhook.cluster.access import Access
from webhook.cluster.denials import Denials
from webhook.cluster.events import Events, Outcome, event_on
from webhook.model.policy import Policy, ValidationAction
from webhook.model.request import Stage
from webhook.model.verdict import Review

TOLD = Told("Pinned", warning=False, message="pinned to one")
DENIED = ask(job(memory_per_device="200Gi"))


class Writing:
    """What is written, and what is told of it."""

    def __init__(self, kubeconfig: Path, identity: str = "one") -> None:
        self.troubles: dict[str, str] = {}
        self.outcomes: Counter[Outcome] = Counter()
        self.events = Events(Access(kubeconfig).client, identity, self._trouble, self._count, again_s=0.05)

    def _count(self, outcome: Outcome) -> None:
        self.outcomes[outcome] += 1

    def _trouble(self, followed: str, problem: str) -> None:
        self.troubles.pop(followed, None)
        if problem:
            self.troubles[followed] = problem


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    async with served(tmp_path) as started:
        yield started


@pytest.fixture
def server(cluster: tuple[ApiServer, Path]) -> ApiServer:
    return cluster[0]


@pytest.fixture
async def writing(cluster: tuple[ApiServer, Path]) -> AsyncIterator[Writing]:
    writing = Writing(cluster[1])
    yield writing
    await writing.events.stop(0)


def stored(name: str = "ddp", uid: str = "u1") -> Json:
    obj = job(name=name)
    obj["metadata"] |= {"uid": uid, "resourceVersion": "7"}
    return obj


def denied(namespace: str, **changes: object) -> Review:
    return replace(DENIED, request=replace(DENIED.request, namespace=namespace, **changes))  # type: ignore[arg-type]


async def test_an_event_is_in_the_namespace_of_its_object_and_names_it(server: ApiServer, writing: Writing) -> None:
    writing.events.start()
    writing.events.write(event_on(stored(), TOLD, "one", once=True))
    await until(lambda: server.events)

    [event] = server.events
    assert server.asked == ["/api/v1/namespaces/team-a/events"]
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "Pinned", "pinned to one")
    assert event["involvedObject"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "team-a",
        "name": "ddp",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert event["metadata"]["name"].startswith("ddp.")
    assert writing.outcomes == {Outcome.WRITTEN: 1}


async def test_one_that_another_replica_has_written_is_there_and_no_trouble(
    cluster: tuple[ApiServer, Path], writing: Writing
) -> None:
    other = Writing(cluster[1], "two")
    for one in (writing, other):
        one.events.start()
        one.events.write(event_on(stored(), TOLD, one.events.identity, once=True))
        await one.events.stop()

    assert len(cluster[0].events) == 1
    assert (writing.outcomes, other.outcomes) == ({Outcome.WRITTEN: 1}, {Outcome.THERE: 1})
    assert not other.troubles


async def test_another_reason_another_object_and_an_object_made_anew_have_events_of_their_own(
    server: ApiServer, writing: Writing
) -> None:
    objects = (stored(), stored("other"), stored(uid="u2"), stored("long-" * 50))
    for obj in objects:
        writing.events.write(event_on(obj, TOLD, "one", once=True))
    writing.events.write(event_on(stored(), replace(TOLD, reason="WouldDeny"), "one", once=True))
    writing.events.start()
    await writing.events.stop()

    names = [event["metadata"]["name"] for event in server.events]
    assert len(set(names)) == 5
    assert max(map(len, names)) < 253


async def test_what_the_api_server_refuses_is_dropped_and_told_of(server: ApiServer, writing: Writing) -> None:
    server.refuses_events = 403
    writing.events.start()
    writing.events.write(event_on(stored(), TOLD, "one", once=True))
    await until(lambda: writing.troubles)

    assert writing.troubles == {"events": "events not written: 403 events is forbidden"}
    assert writing.outcomes == {Outcome.DROPPED: 1}
    server.refuses_events = None
    writing.events.write(event_on(stored("other"), TOLD, "one", once=True))
    await until(lambda: not writing.troubles)
    assert [event["involvedObject"]["name"] for event in server.events] == ["other"]


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (403, 'unable to create new content in namespace "team-a" because it is being terminated'),
        (404, 'namespaces "team-a" not found'),
    ],
)
async def test_a_namespace_that_goes_away_is_no_trouble(
    server: ApiServer, writing: Writing, status: int, refusal: str
) -> None:
    server.refuses_events, server.refusal = status, refusal
    writing.events.start()
    writing.events.write(event_on(stored(), TOLD, "one", once=True))
    await writing.events.stop()

    assert writing.outcomes == {Outcome.DROPPED: 1}
    assert writing.troubles == {}


async def test_what_only_fails_for_the_moment_is_written_later_and_in_order(
    server: ApiServer, writing: Writing
) -> None:
    server.refuses_events = 503
    writing.events.start()
    for name in ("a", "b", "c"):
        writing.events.write(event_on(stored(name), TOLD, "one", once=True))
    await until(lambda: writing.troubles)
    server.refuses_events = None
    await until(lambda: len(server.events) == 3)

    assert [event["involvedObject"]["name"] for event in server.events] == ["a", "b", "c"]
    await until(lambda: not writing.troubles)


async def test_no_more_than_a_thousand_wait_and_the_newest_are_kept(server: ApiServer, writing: Writing) -> None:
    for index in range(1005):
        writing.events.write(event_on(stored(f"job-{index}"), TOLD, "one", once=True))
    assert writing.outcomes == {Outcome.DROPPED: 5}
    writing.events.start()
    await writing.events.stop(20)

    assert len(server.events) == 1000
    assert server.events[0]["involvedObject"]["name"] == "job-5"


async def test_stopping_does_not_wait_for_an_api_server_that_is_away(server: ApiServer, writing: Writing) -> None:
    server.delay_s = 30
    server.refuses_events = 503
    writing.events.start()
    writing.events.write(event_on(stored(), TOLD, "one", once=True))

    async with asyncio.timeout(2):
        await writing.events.stop(0.1)


async def test_denials_are_told_once_a_minute_by_namespace_and_code(server: ApiServer, writing: Writing) -> None:
    denials = Denials(writing.events, every_s=0.1)
    for namespace in ("team-a", "team-a", "team-b", "team-a"):
        denials.hear(denied(namespace))
    writing.events.start()
    denials.start()
    await until(lambda: len(server.events) == 2)
    await asyncio.sleep(0.3)

    assert len(server.events) == 2
    assert [(one["count"], one["type"], one["reason"]) for one in server.events] == [
        (3, "Warning", "SST201"),
        (1, "Warning", "SST201"),
    ]
    assert server.events[0]["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "namespace": "team-a",
        "name": "team-a",
    }
    assert server.events[0]["message"].startswith(
        "denied within a minute: 3; the first, Job ddp: SST201 out of memory: "
    )
    await denials.stop()


async def test_only_what_was_denied_in_earnest_counts(server: ApiServer, writing: Writing) -> None:
    warning = ask(job(memory_per_device="200Gi"), policy=Policy(validation_action=ValidationAction.WARN))
    checked = ask(job(memory_per_device="200Gi"), stage=Stage.VALIDATE)
    denials = Denials(writing.events)
    for review in (
        denied("team-a", dry_run=True),
        denied("team-b", stage=Stage.AUDIT),
        denied(""),
        warning,
        ask(job()),
        replace(checked, request=replace(checked.request, namespace="checked")),
    ):
        denials.hear(review)
    writing.events.start()
    await denials.stop()
    await writing.events.stop()

    assert [event["metadata"]["namespace"] for event in server.events] == ["checked"]


async def test_what_is_denied_in_too_many_namespaces_is_told_in_sum(
    server: ApiServer, writing: Writing, caplog: pytest.LogCaptureFixture
) -> None:
    denials = Denials(writing.events)
    for index in range(103):
        denials.hear(denied(f"team-{index}"))
    denials.hear(denied("team-0"))
    writing.events.start()
    with caplog.at_level(logging.WARNING):
        await denials.stop()
    await writing.events.stop(20)

    assert len(server.events) == 100
    assert [one.getMessage() for one in caplog.records if one.name == "webhook.cluster.denials"] == [
        "denials without an Event, of more than 100 namespaces and codes: 3"
    ]
    assert server.events[0]["count"] == 2
