"""What is no longer used is not kept."""

import ctypes
import platform
from types import SimpleNamespace

import psutil
import pytest

from tests.unit.cluster.api_server import until
from webhook.server.memory import trim, trimmed

MIB = 2**20


def resident() -> float:
    return float(psutil.Process().memory_info().rss) / MIB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no other C library keeps so much, or can be told")
async def test_what_is_free_below_what_is_used_goes_back_to_the_system() -> None:
    blocks = [bytearray(4000) for _ in range(64 * MIB // 4096)]
    held = resident()
    last = blocks.pop()
    blocks.clear()
    kept = resident()

    async with trimmed(every_s=0.05):
        await until(lambda: resident() < held - 32)

    assert kept > held - 16
    assert len(last) == 4000


def test_a_c_library_that_cannot_is_left_alone() -> None:
    assert not trim(SimpleNamespace())
    assert not trim(None)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_glibc_can() -> None:
    assert trim(ctypes.CDLL(None))
