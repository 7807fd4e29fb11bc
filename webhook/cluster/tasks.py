"""What every part that works beside the requests does with its task."""

import asyncio
from contextlib import suppress


async def ended(task: "asyncio.Task[None] | None") -> None:
    """Cancels it, and returns when it is over; None: it was never begun."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
