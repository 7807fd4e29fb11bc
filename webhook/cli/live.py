"""Objects of a live cluster, for commands that read files as well."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from webhook.cluster.access import Client

_PAGE = "250"


@dataclass(frozen=True, slots=True)
class Collection:
    """Where the objects of one kind are listed. `optional`: a cluster may have no such kind, and we may not see it."""

    path: str
    optional: bool = False


ACCELERATORS = Collection("/apis/samestep.dev/v1alpha1/accelerators", optional=True)


def list_live(
    kubeconfig: Path | None, context: str | None, collections: Iterable[Collection]
) -> dict[Collection, list[dict[str, Any]] | None]:
    """The objects of each collection, None for an optional one that is not in view. Raises ClickException."""
    # The clients take half a second to import; commands that read files do without them.
    import aiohttp

    from webhook.cluster.access import Access, AccessError, StatusError, reason

    async def listed(client: "Client", one: Collection) -> list[dict[str, Any]] | None:
        try:
            return [item async for item in _items(client, one.path)]
        except StatusError as error:
            if one.optional and error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                return None
            what = one.path.rpartition("/")[2]
            raise click.ClickException(f"the API server refused to list {what}: {error}") from None

    async def look() -> dict[Collection, list[dict[str, Any]] | None]:
        async with Access(kubeconfig, context).client() as client:
            return {one: await listed(client, one) for one in collections}

    try:
        return asyncio.run(look())
    except AccessError as error:
        raise click.ClickException(f"no cluster to ask: {error}") from None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise click.ClickException(f"the API server cannot be reached: {reason(error)}") from None


async def _items(client: "Client", path: str) -> AsyncIterator[dict[str, Any]]:
    token = ""
    while True:
        page = json.loads(await client.get(path, {"limit": _PAGE, **({"continue": token} if token else {})}))
        # The API server leaves these out of the items of its own lists.
        kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
        for item in page["items"]:
            yield kind | item
        token = page["metadata"].get("continue", "")
        if not token:
            return
