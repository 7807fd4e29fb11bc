"""Memory that is no longer used goes back to the system.

glibc keeps what was freed below something that is still in use, for ever: what a burst of connections or a list of all
nodes took stays resident, a few MiB more with each. There is no one place after which much is free, so it is asked to
give it back every so often, which takes it 0.4 to 3 ms.
"""

import asyncio
import ctypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from webhook.cluster.tasks import ended

_EVERY_S = 30.0


@asynccontextmanager
async def trimmed(every_s: float = _EVERY_S) -> AsyncIterator[None]:
    """Within its block, what is free is given back this often. Does nothing where the C library is not glibc."""
    task = asyncio.create_task(_trim(_c_library(), every_s), name="memory")
    try:
        yield
    finally:
        await ended(task)


def trim(library: object) -> bool:
    """Has this C library give back what is free; False where it cannot (musl, macOS)."""
    if (give_back := getattr(library, "malloc_trim", None)) is None:
        return False
    give_back(ctypes.c_size_t(0))
    return True


def _c_library() -> object:
    with suppress(OSError, TypeError):  # Windows has none to be named so
        return ctypes.CDLL(None)
    return None


async def _trim(library: object, every_s: float) -> None:
    # In a thread, since it is called without the interpreter's lock: requests are answered meanwhile.
    while await asyncio.to_thread(trim, library):  # noqa: ASYNC110 (nobody tells when there is something)
        await asyncio.sleep(every_s)
