"""What a process that follows the cluster has in view by and by."""

import asyncio
from collections.abc import Callable

from webhook.cluster.world import Worlds
from webhook.fleet.room import free_devices
from webhook.model.world import World


async def until(worlds: Worlds, condition: Callable[[World], object]) -> None:
    """Waits half a minute at most."""
    async with asyncio.timeout(30):
        while worlds.current is None or not condition(worlds.current):  # noqa: ASYNC110 (as simple as can be)
            await asyncio.sleep(0.05)


def free(world: World, resource: str) -> int | None:
    """Devices of the whole fleet that nothing has in use; None while that is not known."""
    return free_devices(world.fleet, resource, world.fleet.every)
