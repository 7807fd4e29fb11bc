"""Whatever is sent to the port of the API server: an answer that is no server error but 503, or a closed connection, in
time; and a good review is answered as ever after it."""

import asyncio
import contextlib
import gzip
import json
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.server.conftest import admission_review, running
from webhook.server.admission import Limits

_LIMITS = Limits(read_s=0.2, deadline_s=0.6)
_HANGS_AFTER_S = 5.0
_BODY_BYTES = _LIMITS.body_bytes
_REVIEW = json.dumps(admission_review()).encode()
_BOMB = gzip.compress(bytes(64 << 20), 9)
"""64 KiB that become 64 MiB."""


@dataclass(frozen=True, slots=True)
class Address:
    port: int
    probe_port: int


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes of one connection. `stops`: no more comes, and the connection stays open."""

    raw: bytes
    stops: bool = False
    to_probes: bool = False


@pytest.fixture(scope="module")
def server() -> Iterator[Address]:
    """The real server on a loop of its own, behind TLS, with kopf's function in it."""
    started = threading.Event()
    found: list[tuple[Address, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with running(limits=_LIMITS) as serving:
            stop = asyncio.Event()
            address = Address(serving.server.port, serving.server.probe_port)
            found.append((address, asyncio.get_running_loop(), stop))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    address, loop, stop = found[0]
    yield address
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    assert not thread.is_alive()


def exchange(address: Address, sent: Sent) -> bytes:
    """All that comes back until the server closes, or has answered. Raises TimeoutError where nothing does in time.

    What is not the whole head of a request is no request yet: the server may wait for the rest, and we leave.
    """
    is_request = b"\r\n\r\n" in sent.raw.lstrip(b"\r\n")  # lines before it are passed over (RFC 9112, 2.2)
    port = address.probe_port if sent.to_probes else address.port
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=_HANGS_AFTER_S))
        connection: socket.socket = raw
        if not sent.to_probes:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = stack.enter_context(context.wrap_socket(raw))
        received = b""
        ends = time.monotonic() + _HANGS_AFTER_S
        # A server that has refused the head of a request closes while the body is still on its way.
        with contextlib.suppress(ConnectionError, ssl.SSLError, *(() if is_request else (TimeoutError,))):
            if not is_request:
                connection.settimeout(0.05)
            connection.sendall(sent.raw)
            while part := connection.recv(65536):
                received += part
                if sent.stops and b"\r\n\r\n" in received:
                    break
                if time.monotonic() > ends:
                    raise TimeoutError
        return received


def status(received: bytes) -> int:
    """The last status, behind those that only bid us go on; 0 for a connection that was closed without a word."""
    if not received:
        return 0
    codes = [int(one) for one in re.findall(rb"^HTTP/\d\.\d (\d{3})", received, re.MULTILINE)]
    assert codes, received[:200]
    return codes[-1]


def post(path: bytes = b"/admit/pin", body: bytes = _REVIEW, *headers: bytes) -> bytes:
    head = [b"POST " + path + b" HTTP/1.1", b"Host: a", b"Connection: close", *headers]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def answers_as_ever(address: Address) -> None:
    received = exchange(address, Sent(post()))
    assert status(received) == 200
    assert b'"patchType":"JSONPatch"' in received


TOKENS = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=20).map(str.encode)
METHODS = st.sampled_from([b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"CONNECT", b"TRACE", b"PRI"])
PATHS = st.sampled_from(
    [
        *(b"/admit/pin", b"/admit/check", b"/admit/none", b"/admit/pin?timeout=2s", b"/livez", b"/readyz?verbose"),
        *(b"/metrics", b"*", b"//", b"/../etc/passwd", b"/admit/%2e%2e", b"/%00", b"http://b/admit/pin"),
        b"/" + b"a" * 9000,
    ]
) | st.binary(max_size=40).map(lambda one: b"/" + one.replace(b"\r", b"").replace(b"\n", b""))
VALUES = st.binary(max_size=60).map(lambda one: one.replace(b"\r", b"").replace(b"\n", b""))
HEADERS = st.lists(
    st.sampled_from(
        [
            *(b"Content-Type: text/xml", b"Content-Type: application/json; charset=utf-16", b"Content-Type: \xff"),
            *(b"Expect: 100-continue", b"Expect: tea", b"Upgrade: websocket", b"Connection: upgrade"),
            *(b"Content-Encoding: gzip", b"Content-Encoding: deflate", b"Content-Encoding: br", b"Content-Encoding: x"),
            *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Content-Length: -1"),
            *(b"Content-Length: 99999999999999999999", b"Host: b", b"X: " + b"a" * 9000, b": none", b" folded"),
        ]
    )
    | st.builds(lambda name, value: name + b": " + value, TOKENS, VALUES),
    max_size=5,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=10), inside, max_size=4),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    [
        *("uid", "kind", "resource", "name", "namespace", "operation", "userInfo", "object", "oldObject", "dryRun"),
        *("options", "subResource", "requestKind"),
    ]
)
DEEP = st.sampled_from([b"[" * 200_000, b'{"a":' * 100_000, b"[" * 5000 + b"]" * 5000])


def nested(depth: int) -> bytes:
    """A review whose object nests so deeply."""
    return _REVIEW.replace(b'"spec":', b'"deep": ' + b'{"a":' * depth + b"1" + b"}" * depth + b', "spec":', 1)


BODIES = st.one_of(
    st.just(_REVIEW),
    st.binary(max_size=200),
    JSON.map(lambda one: json.dumps(one).encode()),
    st.dictionaries(FIELDS, JSON, max_size=3).map(
        lambda changes: json.dumps(admission_review(None, **changes)).encode()
    ),
    JSON.map(lambda spec: json.dumps(admission_review({"metadata": {"name": "a"}, "spec": spec})).encode()),
    st.integers(0, len(_REVIEW)).map(lambda end: _REVIEW[:end]),
    st.builds(lambda at, what: _REVIEW[:at] + what + _REVIEW[at:], st.integers(0, len(_REVIEW)), st.binary(max_size=4)),
    st.sampled_from([10, 120, 1500, 100_000]).map(nested),
    DEEP,
    st.just(b" " * (_BODY_BYTES + 1)),
)


def chunked(body: bytes, sizes: list[int], end: bytes) -> bytes:
    """The body in pieces, whose lengths may lie, with an end that may be missing."""
    pieces = [b"%x\r\n%s\r\n" % (max(len(body) // 3 + size, 0), body[: len(body) // 3]) for size in sizes]
    return b"".join([*pieces, end])


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    body = draw(BODIES)
    match draw(st.sampled_from(["whole", "cut", "chunked", "encoded", "line", "noise"])):
        case "whole":
            raw = post(draw(PATHS), body, *draw(HEADERS))
        case "cut":
            whole = post(b"/admit/pin", body)
            return Sent(whole[: draw(st.integers(1, len(whole)))], stops=True)
        case "chunked":
            sizes = draw(st.lists(st.sampled_from([0, 0, 0, 1, -1, 1 << 40]), max_size=4))
            end = draw(st.sampled_from([b"0\r\n\r\n", b"", b"zz\r\n", b"0\r\nTrailer: a\r\n\r\n", b"-1\r\n\r\n"]))
            head = b"POST /admit/check HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            return Sent(head + chunked(body, sizes, end), stops=True)
        case "encoded":
            named, made = draw(
                st.sampled_from(
                    [
                        *((b"gzip", _BOMB), (b"gzip", gzip.compress(_REVIEW)), (b"deflate", zlib.compress(_REVIEW))),
                        *((b"gzip", _BOMB[:5000]), (b"br", _REVIEW), (b"zstd", _BOMB), (b"gzip", _REVIEW)),
                        (b"gzip", gzip.compress(_REVIEW) * 3),
                    ]
                )
            )
            raw = post(b"/admit/pin", made, b"Content-Encoding: " + named)
        case "line":
            version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""]))
            first = b" ".join([draw(METHODS | TOKENS), draw(PATHS), version])
            lines = [first, b"Host: a", b"Connection: close", *draw(HEADERS), b"", b""]
            return Sent(b"\r\n".join(lines) + body[:1000], stops=True, to_probes=draw(st.booleans()))
        case _:
            return Sent(draw(st.binary(min_size=1, max_size=100)) + b"\r\n\r\n", stops=True)
    return Sent(raw, stops=True)


@settings(suppress_health_check=list(HealthCheck))
@given(sent=requests())
def test_nothing_that_is_sent_is_a_server_error_or_hangs(server: Address, sent: Sent) -> None:
    code = status(exchange(server, sent))
    assert code < 500 or code == 503, code
    answers_as_ever(server)


@pytest.mark.parametrize("depth", [60, 1500, 200_000])
def test_a_review_that_nests_deeply_is_answered_or_refused(server: Address, depth: int) -> None:
    assert status(exchange(server, Sent(post(body=nested(depth)), stops=True))) in (200, 400)
    answers_as_ever(server)


def test_a_small_body_that_becomes_a_large_one_is_too_large(server: Address) -> None:
    raw = post(b"/admit/pin", _BOMB, b"Content-Encoding: gzip")
    began = time.monotonic()
    assert status(exchange(server, Sent(raw, stops=True))) == 413
    assert time.monotonic() - began < 2
    answers_as_ever(server)


def test_connections_that_say_nothing_keep_nobody_waiting(server: Address) -> None:
    """More than there are turns: a turn is taken by what has a head alone."""
    with contextlib.ExitStack() as stack:
        for number in range(_LIMITS.concurrent + 16):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=_HANGS_AFTER_S))
            if number % 2:
                one.sendall(b"\x16\x03\x01")
        answers_as_ever(server)
