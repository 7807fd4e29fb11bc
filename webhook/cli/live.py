"""Objects of a live cluster, for commands that read files as well."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from webhook.cluster.access import Client

Answer = TypeVar("Answer")

_PAGE = "250"


class ClusterError(click.ClickException):
    """No cluster that answers; the message says why. Status 1 is for what commands find in one that does."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Collection:
    """Where the objects of one kind are listed. `optional`: a cluster may have no such kind, and we may not see it.
    `name` is that of the one object that is wanted; empty: all of them."""

    path: str
    optional: bool = False
    name: str = ""


ACCELERATORS = Collection("/apis/samestep.dev/v1alpha1/accelerators", optional=True)


def list_live(
    kubeconfig: Path | None, context: str | None, collections: Iterable[Collection]
) -> dict[Collection, list[dict[str, Any]] | None]:
    """The objects of each collection, None for an optional one that is not in view. Raises ClusterError."""

    async def look(client: "Client") -> dict[Collection, list[dict[str, Any]] | None]:
        return {one: await listed(client, one) for one in collections}

    return asked(kubeconfig, context, look)


def asked(kubeconfig: Path | None, context: str | None, ask: Callable[["Client"], Awaitable[Answer]]) -> Answer:
    """What the cluster answers. Raises ClusterError where there is none, or none that can be reached."""
    # The clients take half a second to import; commands that read files do without them.
    import aiohttp

    from webhook.cluster.access import Access, AccessError, StatusError, reason

    async def look() -> Answer:
        access = Access(kubeconfig, context)
        await access.check()  # it says where nobody answers
        async with access.client() as client:
            return await ask(client)

    try:
        return asyncio.run(look())
    except AccessError as error:
        raise ClusterError(f"no cluster to ask: {error}") from None
    except StatusError as error:
        raise ClusterError(f"the API server refused: {error}") from None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"the API server cannot be reached: {reason(error)}") from None


async def listed(client: "Client", one: Collection) -> list[dict[str, Any]] | None:
    """The objects of a collection, page by page; None for an optional one that is not in view. Raises ClusterError
    where another one is refused."""
    from webhook.cluster.access import StatusError

    try:
        return [item async for item in _items(client, one)]
    except StatusError as error:
        if one.optional and error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return None
        what = one.path.rpartition("/")[2]
        raise ClusterError(f"the API server refused to list {what}: {error}") from None


async def _items(client: "Client", one: Collection) -> AsyncIterator[dict[str, Any]]:
    named = {"fieldSelector": f"metadata.name={one.name}"} if one.name else {}
    async for page in client.pages(one.path, {"limit": _PAGE, **named}):
        # The API server leaves these out of the items of its own lists.
        kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
        for item in page["items"]:
            yield kind | item
