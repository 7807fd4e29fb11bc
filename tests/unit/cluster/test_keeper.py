"""What is put right in the webhook configurations, and what is left as the platform team has it."""

import base64
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from pathlib import Path

import pytest

from tests.unit.cluster.api_server import ApiServer, Collection, Json, served
from webhook.catalog.workloads import workloads
from webhook.cluster.access import Access
from webhook.cluster.keeper import Keeper
from webhook.cluster.registration import webhook_configurations
from webhook.model.workload import Workloads
from webhook.policy.kinds import kinds_of
from webhook.policy.load import load_policy

BUNDLE = b"-----BEGIN CERTIFICATE-----"
TAUGHT = Path(__file__).parents[3] / "examples" / "own-kind" / "policy.yaml"
PREFIX = "/apis/admissionregistration.k8s.io/v1"


class Kept:
    """Both configurations as they are applied, and a keeper that has seen them and put them right."""

    kinds: Workloads | None
    """Those of which jobs are to be sent here."""

    def __init__(self, api: ApiServer, kubeconfig: Path) -> None:
        self.api = api
        self.kinds = workloads()
        self.events = api.serve("/api/v1/events", "Event")
        self.keeper = Keeper("gpu-admission", lambda: self.kinds, "replica-1")
        self._access = Access(kubeconfig)
        self._collections: dict[str, Collection] = {}
        for one in webhook_configurations({"service": {"name": "samestep", "namespace": "elsewhere", "port": 443}}):
            self._collections[one["kind"]] = api.serve(f"{PREFIX}/{one['kind'].lower()}s", one["kind"])
            self._collections[one["kind"]].put(one)

    async def look(self, bundle: bytes = BUNDLE) -> None:
        async with self._access.client() as client:
            await self.keeper.look(client)
            await self.keeper.keep(client, bundle)

    @property
    def mutating(self) -> Json:
        return self._collections["MutatingWebhookConfiguration"].objects["/samestep"]

    @property
    def validating(self) -> Json:
        return self._collections["ValidatingWebhookConfiguration"].objects["/samestep"]

    def edit(self, change: Callable[[Json], object]) -> Json:
        """The mutating one."""
        edited = deepcopy(self.mutating)
        change(edited)
        return self._collections["MutatingWebhookConfiguration"].put(edited)

    def remove(self, kind: str) -> None:
        self._collections[kind].remove("samestep")


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    async with served(tmp_path) as (api, kubeconfig):
        kept = Kept(api, kubeconfig)
        await kept.look()
        yield kept


def first(configuration: Json) -> Json:
    entry: Json = configuration["webhooks"][0]
    return entry


async def test_who_is_trusted_and_where_we_are_is_put_in(kept: Kept) -> None:
    wanted = {"caBundle": base64.b64encode(BUNDLE).decode()}
    service = {"name": "samestep", "namespace": "gpu-admission", "port": 443}
    for handler, configuration in (("pin", kept.mutating), ("check", kept.validating)):
        assert len(configuration["webhooks"]) == len(workloads().reviewed)
        for entry in configuration["webhooks"]:
            assert entry["clientConfig"] == wanted | {"service": service | {"path": f"/admit/{handler}"}}
    assert set(kept.keeper.repairs.elements()) == {
        ("MutatingWebhookConfiguration", "outdated"),
        ("ValidatingWebhookConfiguration", "outdated"),
    }
    assert not kept.events.objects


async def test_what_is_right_is_not_written(kept: Kept) -> None:
    before = deepcopy([kept.mutating, kept.validating])
    await kept.look()
    assert [kept.mutating, kept.validating] == before


EDITS: dict[str, Callable[[Json], object]] = {
    "clientConfig": lambda one: first(one)["clientConfig"].update(caBundle="AAAA"),
    "rules": lambda one: first(one)["rules"][0].update(operations=["DELETE"]),
    "matchConditions": lambda one: first(one).update(matchConditions=[{"name": "never", "expression": "false"}]),
    "sideEffects": lambda one: first(one).update(sideEffects="NoneOnDryRun"),
    "reinvocationPolicy": lambda one: first(one).update(reinvocationPolicy="Never"),
    "was not there": lambda one: one["webhooks"].pop(0),
}


@pytest.mark.parametrize("field", EDITS)
async def test_an_edit_of_what_is_ours_is_undone_and_told(
    kept: Kept, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = deepcopy(kept.mutating["webhooks"])
    kept.edit(EDITS[field])
    assert kept.mutating["webhooks"] != before
    await kept.look()

    by_name = {entry["name"]: entry for entry in before}
    assert {entry["name"]: entry for entry in kept.mutating["webhooks"]} == by_name
    [event] = kept.events.objects.values()
    told = f"put right: jobs.batch.pin.samestep.dev: {field}"
    assert (event["reason"], event["message"]) == ("EditUndone", told)
    assert event["involvedObject"]["kind"] == "MutatingWebhookConfiguration"
    assert event["reportingInstance"] == "replica-1"
    assert kept.keeper.repairs["MutatingWebhookConfiguration", "edited"] == 1
    assert "put right: MutatingWebhookConfiguration samestep, jobs.batch.pin.samestep.dev" in caplog.text


async def test_what_the_platform_team_decides_is_left(kept: Kept) -> None:
    def decide(one: Json) -> None:
        first(one).update(
            failurePolicy="Fail",
            timeoutSeconds=9,
            namespaceSelector={"matchLabels": {"training": "yes"}},
            objectSelector={"matchLabels": {"queue": "a"}},
        )
        first(one)["clientConfig"]["service"]["port"] = 8443
        one["webhooks"].append({"name": "another.example.com", "clientConfig": {"url": "https://a/b"}})
        one["metadata"]["labels"] = {"team": "platform"}

    edited = deepcopy(kept.edit(decide))
    await kept.look()
    assert kept.mutating == edited


async def test_an_entry_that_is_parted_by_operation_stays_so_and_both_parts_are_kept(kept: Kept) -> None:
    """As the overlay that fails closed has it."""

    def part(one: Json) -> None:
        update = deepcopy(first(one)) | {"name": "jobs.batch.pin-update.samestep.dev"}
        update["rules"][0]["operations"] = ["UPDATE"]
        first(one)["rules"][0]["operations"] = ["CREATE"]
        first(one)["failurePolicy"] = "Fail"
        one["webhooks"].append(update)

    edited = deepcopy(kept.edit(part))
    await kept.look()
    assert kept.mutating == edited

    await kept.look(b"another")
    assert {entry["clientConfig"]["caBundle"] for entry in kept.mutating["webhooks"]} == {"YW5vdGhlcg=="}
    assert [entry["rules"] for entry in kept.mutating["webhooks"]] == [one["rules"] for one in edited["webhooks"]]


async def test_an_address_that_the_team_has_given_keeps_its_host(kept: Kept) -> None:
    kept.edit(lambda one: first(one).update(clientConfig={"url": "https://10.0.0.5:8443/wrong"}))
    await kept.look()
    right = {"url": "https://10.0.0.5:8443/admit/pin", "caBundle": base64.b64encode(BUNDLE).decode()}
    assert first(kept.mutating)["clientConfig"] == right


async def test_a_kind_that_a_policy_teaches_gets_an_entry_like_the_others_and_loses_it_with_the_policy(
    kept: Kept,
) -> None:
    before = deepcopy(kept.mutating["webhooks"])
    kept.edit(lambda one: [entry.update(timeoutSeconds=1, failurePolicy="Fail") for entry in one["webhooks"]])
    kept.kinds = kinds_of(load_policy(TAUGHT))
    await kept.look()
    names = {entry["name"] for entry in before}
    [taught] = (entry for entry in kept.mutating["webhooks"] if entry["name"] not in names)
    assert taught["timeoutSeconds"] == 1
    assert taught["failurePolicy"] == "Ignore"
    assert taught["clientConfig"] == first(kept.mutating)["clientConfig"]

    kept.kinds = workloads()
    await kept.look()
    assert [entry["name"] for entry in kept.mutating["webhooks"]] == [entry["name"] for entry in before]
    assert not kept.events.objects


async def test_nothing_is_written_before_the_kinds_are_known(kept: Kept) -> None:
    kept.kinds = None
    edited = deepcopy(kept.edit(EDITS["rules"]))
    await kept.look()
    assert kept.mutating == edited


async def test_a_configuration_that_is_not_there_is_told_and_not_made(kept: Kept) -> None:
    kept.remove("ValidatingWebhookConfiguration")
    kept.edit(EDITS["rules"])
    await kept.look()
    told = "there is no ValidatingWebhookConfiguration samestep: no job is sent here until it is applied"
    assert (kept.keeper.problem, kept.keeper.missing) == (told, ("ValidatingWebhookConfiguration",))
    assert first(kept.mutating)["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    with pytest.raises(KeyError):
        _ = kept.validating
