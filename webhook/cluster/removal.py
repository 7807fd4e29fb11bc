"""What there is of us in a cluster, in the order in which it can go: nothing is ever blocked by a webhook that is dead.

The API server stops asking first, the validating webhook before the mutating one: what is pinned no more would be
refused. Who answered is removed once no API server can be about to ask any more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Any

import orjson

from webhook.cluster.access import Client, StatusError
from webhook.cluster.lease import LABELS

# How long another API server may take to see that a webhook configuration is gone.
_SETTLE_S = 5.0

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_WEBHOOKS = (f"{_ADMISSION}/validatingwebhookconfigurations", f"{_ADMISSION}/mutatingwebhookconfigurations")
# Replicas end a while after their Deployment. Secret and Lease go when they may not make them again.
_REST = (
    "/apis/apps/v1/deployments",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/api/v1/services",
    "/apis/monitoring.coreos.com/v1/servicemonitors",
    "/apis/monitoring.coreos.com/v1/prometheusrules",
    "/apis/cert-manager.io/v1/certificates",
    "/apis/cert-manager.io/v1/issuers",
    "/api/v1/configmaps",
    f"{_RBAC}/rolebindings",
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/roles",
    f"{_RBAC}/clusterroles",
    "/api/v1/serviceaccounts",
    "/api/v1/secrets",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/namespaces",
)
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OURS = "samestep"


@dataclass(frozen=True, slots=True)
class Part:
    """An object of ours. `path` is where the API has it."""

    plural: str
    namespace: str
    name: str
    path: str

    def __str__(self) -> str:
        return f"{self.plural}/{self.name}" + (f" in {self.namespace}" if self.namespace else "")


async def parts(client: Client, *, only_webhooks: bool, definitions: bool) -> list[Part]:
    """All that is to go, in order. The definitions of our kinds, and with them everybody's policies, only when asked
    for. Raises StatusError, with what could not be listed, before anything has been removed."""
    collections = _WEBHOOKS if only_webhooks else (*_WEBHOOKS, *_REST, *((_DEFINITIONS,) if definitions else ()))
    return [part for path in collections async for part in _parts(client, path)]


async def remove(
    client: Client, found: list[Part], gone: Callable[[Part], None] = lambda _: None, *, settle_s: float = _SETTLE_S
) -> None:
    """Removes them, one after the other; `gone` is told of each. Raises StatusError."""
    for index, (_, together) in enumerate(groupby(found, _step)):
        if index:
            await asyncio.sleep(settle_s)
        for part in together:
            await _remove(client, part)
            gone(part)


async def _remove(client: Client, part: Part) -> None:
    try:
        await client.send("DELETE", part.path, {"propagationPolicy": "Background"})
    except StatusError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


async def _parts(client: Client, path: str) -> AsyncIterator[Part]:
    prefix, _, plural = path.rpartition("/")
    for metadata in await _listed(client, path):
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        within = f"{prefix}/namespaces/{namespace}/{plural}" if namespace else path
        yield Part(plural, namespace, name, f"{within}/{name}")


async def _listed(client: Client, path: str) -> list[dict[str, Any]]:
    """The metadata of ours; none where the cluster has no such kind."""
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    # What could block others is found by its name, whatever has become of its labels.
    query = {"fieldSelector": f"metadata.name={_OURS}"} if path in _WEBHOOKS else {"labelSelector": selector}
    try:
        items = orjson.loads(await client.get(path, query))["items"] or []
    except StatusError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return []
        raise
    return [item["metadata"] for item in items]


def _step(part: Part) -> str:
    """What goes at once is of one step."""
    return part.plural if part.path.startswith(_ADMISSION) else ""
