"""What a connection holds."""

import asyncio
import ssl
import tracemalloc
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator

import pytest

from tests.unit.server.conftest import Serve, Serving
from webhook.server.certificates import self_signed
from webhook.server.tls import ServingCertificate, read_in_small_buffers

CONNECTIONS = 20


@pytest.fixture(autouse=True)
def _tls_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def test_a_connection_that_waits_for_its_next_request_holds_little(serve: Serve) -> None:
    read_in_small_buffers()
    trusted, cert, key = self_signed(["127.0.0.1"])
    serving = await serve(certificate=ServingCertificate.of(cert, key))
    context = ssl.create_default_context(cadata=trusted.decode())
    first = await asked(serving, context)
    before, _ = tracemalloc.get_traced_memory()

    open_ones = [await asked(serving, context) for _ in range(CONNECTIONS)]
    after, _ = tracemalloc.get_traced_memory()

    # Both ends are in this process.
    assert (after - before) / CONNECTIONS / 2 < 64 * 1024
    for writer in (first, *open_ones):
        writer.close()


async def asked(serving: Serving, context: ssl.SSLContext) -> asyncio.StreamWriter:
    """A connection that has been answered once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", serving.server.port, ssl=context)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200" in await reader.readline()
    return writer
