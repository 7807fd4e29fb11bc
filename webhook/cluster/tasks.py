"""What every part that works beside the requests does with its task, and in it."""

import asyncio
from contextlib import suppress


async def ended(task: "asyncio.Task[None] | None") -> None:
    """Cancels it, and returns when it is over; None: it was never begun."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def waited(event: asyncio.Event, within_s: float) -> None:
    """Returns when the event is set, or so many seconds are over. A cancellation is never missed, as by `wait_for` of
    Python 3.11 where it meets the event: who stops the task would wait for it for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
