import asyncio

import pytest

from webhook.cluster.tasks import ended, waited


async def test_it_is_waited_for_an_event_or_so_long() -> None:
    event = asyncio.Event()
    async with asyncio.timeout(10):
        await waited(event, 0.01)
        event.set()
        await waited(event, 60)


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_that_meets_the_event_is_not_missed(turns: int) -> None:
    event = asyncio.Event()

    async def follow() -> None:
        while True:
            await waited(event, 60)
            event.clear()

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.01)
    event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping = asyncio.create_task(ended(task))
    await asyncio.wait({stopping}, timeout=10)
    in_time = task.cancelled()
    await ended(task)
    assert in_time
