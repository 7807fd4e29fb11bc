"""What of a cluster is ours to remove, and in which order it goes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.cluster.api_server import ApiServer, served
from webhook.cluster.access import Access, StatusError
from webhook.cluster.removal import Part, parts, remove

# Not in the order in which they may go; the cluster has no other kinds.
THERE = {
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": ("trainingpolicies.samestep.dev", ""),
    "/api/v1/namespaces": ("samestep-system", ""),
    "/api/v1/secrets": ("samestep-certificates", "samestep-system"),
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": ("samestep", ""),
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": ("samestep", ""),
    "/apis/apps/v1/deployments": ("samestep", "samestep-system"),
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": ("samestep", ""),
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": ("samestep", ""),
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Access]]:
    """All of ours, the webhook configurations without a label, and beside each something that is somebody else's."""
    async with served(tmp_path) as (api, kubeconfig):
        for path, (name, namespace) in THERE.items():
            collection = api.serve(path, path)
            labels = {} if "admission" in path else {"labels": {"app.kubernetes.io/part-of": "samestep"}}
            collection.put({"metadata": {"name": name, "namespace": namespace, **labels}})
            other = {"labels": {"app.kubernetes.io/part-of": "another"}}
            collection.put({"metadata": {"name": "another", "namespace": namespace, **other}})
        yield api, Access(kubeconfig)


def left(api: ApiServer) -> list[str]:
    return [name for one in api.collections.values() for name in one.objects if not name.endswith("/another")]


async def test_webhooks_go_first_then_who_answers_and_the_namespace_last(cluster: tuple[ApiServer, Access]) -> None:
    api, access = cluster
    gone: list[Part] = []
    async with access.client() as client:
        await remove(client, await parts(client, only_webhooks=False, definitions=False), gone.append, settle_s=0)

    assert [part.plural for part in gone] == [
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "deployments",
        "clusterrolebindings",
        "clusterroles",
        "secrets",
        "namespaces",
    ]
    assert left(api) == ["/trainingpolicies.samestep.dev"]
    assert all(any(name.endswith("/another") for name in one.objects) for one in api.collections.values())


async def test_definitions_go_when_asked_for_and_last(cluster: tuple[ApiServer, Access]) -> None:
    api, access = cluster
    async with access.client() as client:
        found = await parts(client, only_webhooks=False, definitions=True)
        await remove(client, found, settle_s=0)
    assert [str(part) for part in found[-2:]] == [
        "namespaces/samestep-system",
        "customresourcedefinitions/trainingpolicies.samestep.dev",
    ]
    assert left(api) == []


async def test_the_webhooks_alone_can_go(cluster: tuple[ApiServer, Access]) -> None:
    api, access = cluster
    async with access.client() as client:
        await remove(client, await parts(client, only_webhooks=True, definitions=False), settle_s=0)
    assert len(left(api)) == len(THERE) - 2


async def test_what_may_not_be_seen_is_told_before_anything_is_removed(cluster: tuple[ApiServer, Access]) -> None:
    api, access = cluster
    api.collections["/api/v1/secrets"].refuses = 403
    async with access.client() as client:
        with pytest.raises(StatusError, match="403"):
            await parts(client, only_webhooks=False, definitions=False)
    assert len(left(api)) == len(THERE)


async def test_what_somebody_else_has_just_removed_is_no_error(cluster: tuple[ApiServer, Access]) -> None:
    api, access = cluster
    async with access.client() as client:
        found = await parts(client, only_webhooks=False, definitions=False)
        api.collections["/apis/apps/v1/deployments"].remove("samestep", "samestep-system")
        await remove(client, found, settle_s=0)
    assert left(api) == ["/trainingpolicies.samestep.dev"]
