"""Probes, draining, ports and certificates of the running server."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.samples import demo_nodes, fleet
from tests.unit.server.conftest import Serve, Serving, admission_review
from webhook.cluster.world import Worlds
from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.server.certificates import self_signed
from webhook.server.listener import ListenError
from webhook.server.tls import CertificateError, ServingCertificate

PIN = "/admit/pin"


async def test_a_ready_server_says_so_on_both_its_ports(serve: Serve) -> None:
    serving = await serve()

    for probe in (False, True):
        assert await serving.get("/livez", probe=probe) == (200, "alive\n")
        assert await serving.get("/readyz", probe=probe) == (200, "ready\n")


async def test_a_probe_may_ask_for_the_head_alone(serve: Serve) -> None:
    serving = await serve()
    for path, status in (("/livez", 200), ("/readyz", 200), (PIN, 405), ("/", 404)):
        async with serving.client.head(serving.url(path)) as answer:
            assert (answer.status, await answer.read()) == (status, b"")


async def test_metrics_are_on_a_port_of_their_own(serve: Serve) -> None:
    serving = await serve()

    for probe in (False, True):
        assert (await serving.get("/metrics", probe=probe))[0] == 404
    text = await serving.scrape()
    assert 'samestep_fleet_nodes{model="RTX-5090"} 2.0' in text
    assert 'samestep_build_info{version="test"} 1.0' in text
    assert "samestep_tls_certificate_expiry_timestamp_seconds" in text


async def test_the_verbose_text_lists_every_check(serve: Serve) -> None:
    serving = await serve()

    status, text = await serving.get("/readyz?verbose")

    assert status == 200
    lines = text.splitlines()
    assert lines[0] == "[+]fleet ok: 4 nodes with accelerators"
    assert lines[1] == "[+]policies ok: the built-in default is in force"
    assert lines[2] == "[+]pods ok: what is free now is not looked at"
    assert lines[3] == "[+]surroundings ok: what jobs refer to is followed"
    assert lines[4] == "[+]objects ok: every object of ours that is in view counts"
    assert lines[5] == "[+]handlers ok: served"
    assert lines[6].startswith("[+]certificate ok: valid until 20")
    assert lines[7:] == ["[+]draining ok: not stopping", "ready"]


async def test_a_replica_is_unready_until_policies_and_namespaces_have_been_seen(serve: Serve) -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    worlds.wait_for_rules()
    serving = await serve(worlds=worlds)
    told = "[-]policies failed: the first list of namespaces and policies is under way\nnot ready\n"
    assert await serving.get("/readyz") == (503, told)
    worlds.name({})
    worlds.rule(Rules())
    assert (await serving.get("/readyz"))[0] == 200
    assert await serving.metric("samestep_ready") == 1


async def test_a_broken_object_of_ours_is_told_and_the_server_stays_ready(serve: Serve) -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    worlds.broken("Accelerator", ("new: spec.vendor: no such (left out)",))
    serving = await serve(worlds=worlds)

    assert await serving.get("/readyz") == (200, "ready\n")
    _, text = await serving.get("/readyz?verbose")
    assert "[!]objects warning: Accelerator new: spec.vendor: no such (left out)" in text
    assert await serving.metric('samestep_broken_objects{kind="Accelerator"}') == 1


async def test_before_the_first_list_a_server_is_unready_and_says_why(serve: Serve) -> None:
    worlds = Worlds(Policy())
    serving = await serve(worlds=worlds, plugged=False)

    status, text = await serving.get("/readyz")
    assert status == 503
    assert text.splitlines() == [
        "[-]fleet failed: the first list of nodes is under way",
        "[-]handlers failed: kopf has not found out the cluster's kinds yet",
        "not ready",
    ]
    assert await serving.metric("samestep_ready") == 0
    worlds.trouble("nodes", "nodes not followed since 2026-01-01T00:00:00+00:00: 403 nodes is forbidden")
    assert "[-]fleet failed: nodes not followed since" in (await serving.get("/readyz"))[1]
    assert (await serving.get("/livez"))[0] == 200


async def test_a_stale_fleet_is_told_and_never_makes_a_server_unready(serve: Serve) -> None:
    worlds = Worlds(Policy(), fleet(demo_nodes(), taken_at=time.time() - 600))
    worlds.trouble("nodes", "nodes not followed since 2026-01-01T00:00:00+00:00: 403 nodes is forbidden")
    serving = await serve(worlds=worlds)

    status, text = await serving.get("/readyz?verbose", probe=True)

    assert status == 200
    line = text.splitlines()[0]
    assert line.startswith("[!]fleet warning: 4 nodes with accelerators, confirmed 600 s ago, stale: ")
    assert line.endswith("403 nodes is forbidden")
    assert 600 <= await serving.metric("samestep_fleet_age_seconds") < 660
    worlds.confirm(nodes_at=time.time())
    worlds.trouble("nodes", "")
    assert (await serving.get("/readyz?verbose"))[1].startswith("[+]fleet ok: 4 nodes")


async def test_a_draining_server_is_unready_and_serves(serve: Serve) -> None:
    serving = await serve(lame_duck_s=0.5)
    draining = asyncio.create_task(serving.server.drain())
    await asyncio.sleep(0)

    status, text = await serving.get("/readyz")
    assert (status, text) == (503, "[-]draining failed: stopping\nnot ready\n")
    assert (await serving.post(PIN, admission_review()))[0] == 200
    assert not draining.done()
    await draining


async def test_what_is_in_flight_when_the_ports_close_is_answered(serve: Serve) -> None:
    serving = await serve()
    body = json.dumps(admission_review()).encode()
    sent_half = asyncio.Event()

    async def halves() -> AsyncIterator[bytes]:
        yield body[:100]
        sent_half.set()
        await asyncio.sleep(0.3)
        yield body[100:]

    async def send() -> int:
        async with serving.client.post(serving.url(PIN), data=halves()) as answer:
            return answer.status

    in_flight = asyncio.create_task(send())
    await sent_half.wait()
    await asyncio.sleep(0.05)
    await serving.server.close()

    assert await in_flight == 200
    with pytest.raises(aiohttp.ClientConnectorError):
        await serving.post(PIN, admission_review())


async def test_a_port_in_use_is_named(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"cannot listen on 127.0.0.1:{port}: .*in use"):
            await serve(port=port)


class Files:
    """A certificate and a key in files, replaced as a Secret's volume is."""

    def __init__(self, folder: Path) -> None:
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.trusted = b""

    def put(self, *, cert: bytes | None = None, key: bytes | None = None) -> None:
        for path, content in ((self.cert, cert), (self.key, key)):
            if content is not None:
                new = path.with_suffix(".new")
                new.write_bytes(content)
                new.replace(path)


async def served_by(serving: Serving, trusted: bytes) -> bool:
    """Whether a new connection is served under this authority, and answered."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=trusted.decode()), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as client:
        try:
            async with client.post(serving.url(PIN), json=admission_review()) as answer:
                return answer.status == 200
        except aiohttp.ClientConnectorCertificateError:
            return False


async def test_a_certificate_is_replaced_under_load_past_a_mismatched_pair(serve: Serve, tmp_path: Path) -> None:
    files = Files(tmp_path)
    (old_ca, old_cert, old_key), (new_ca, new_cert, new_key) = self_signed(["127.0.0.1"]), self_signed(["127.0.0.1"])
    files.put(cert=old_cert, key=old_key)
    certificate = ServingCertificate(files.cert, files.key)
    serving = await serve(certificate=certificate, trusted=old_ca, certificate_check_s=0.02)
    both = old_ca + new_ca
    stop = asyncio.Event()
    answered = 0

    async def load() -> None:
        nonlocal answered
        while not stop.is_set():
            assert await served_by(serving, both)
            answered += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(load())
        await asyncio.sleep(0.2)
        files.put(cert=new_cert)
        await asyncio.sleep(0.3)
        assert certificate.problem.endswith("the key does not belong to the certificate")
        assert "[!]certificate warning" in (await serving.get("/readyz?verbose", probe=True))[1]
        assert await serving.metric("samestep_tls_reload_failed") == 1
        assert await served_by(serving, old_ca)
        files.put(key=new_key)
        await asyncio.sleep(0.3)
        stop.set()

    assert answered > 10
    assert certificate.problem == ""
    assert await served_by(serving, new_ca)
    assert not await served_by(serving, old_ca)


async def test_a_replica_whose_certificate_is_yet_to_come_is_unready_and_says_why(serve: Serve) -> None:
    _, stand_in, key = self_signed(["127.0.0.1"])
    certificate = ServingCertificate.of(stand_in, key, awaited=True)
    worlds = Worlds(Policy(), fleet(demo_nodes()))
    serving = await serve(certificate=certificate, worlds=worlds)
    told = "[-]certificate failed: none yet that the API server could trust\nnot ready\n"
    assert await serving.get("/readyz", probe=True) == (503, told)
    worlds.trouble("certificates", "Secret samestep-certificates: 403 forbidden")
    assert (
        "[-]certificate failed: Secret samestep-certificates: 403 forbidden"
        in ((await serving.get("/readyz", probe=True))[1])
    )

    ca, cert, key = self_signed(["127.0.0.1"])
    certificate.replace(cert, key, 2_000_000_000)
    worlds.trouble("certificates", "")
    assert await serving.get("/readyz", probe=True) == (200, "ready\n")
    assert await served_by(serving, ca)
    assert await serving.metric("samestep_tls_authority_expiry_timestamp_seconds") == 2_000_000_000

    worlds.trouble("certificates", "Secret samestep-certificates: no answer in time")
    status, text = await serving.get("/readyz?verbose", probe=True)
    assert status == 200
    assert "[!]certificate warning: valid until 20" in text
    assert "; Secret samestep-certificates: no answer in time" in text


async def test_a_connection_that_was_there_before_a_new_certificate_goes_on(serve: Serve, tmp_path: Path) -> None:
    files = Files(tmp_path)
    old_ca, old_cert, old_key = self_signed(["127.0.0.1"])
    files.put(cert=old_cert, key=old_key)
    certificate = ServingCertificate(files.cert, files.key)
    serving = await serve(certificate=certificate, trusted=old_ca)
    assert (await serving.post(PIN, admission_review()))[0] == 200
    _, new_cert, new_key = self_signed(["127.0.0.1"])
    files.put(cert=new_cert, key=new_key)
    certificate.reload()

    assert (await serving.post(PIN, admission_review()))[0] == 200


async def test_a_certificate_that_is_gone_or_broken_leaves_the_last_good_one(tmp_path: Path) -> None:
    files = Files(tmp_path)
    _, cert, key = self_signed(["127.0.0.1"])
    files.put(cert=cert, key=key)
    certificate = ServingCertificate(files.cert, files.key)
    expires_at = certificate.expires_at

    files.put(cert=b"not a certificate")
    certificate.reload()
    assert certificate.problem.endswith("not a certificate and an unencrypted key in PEM form")
    files.key.unlink()
    certificate.reload()
    assert certificate.problem.endswith("No such file or directory")
    files.put(cert=cert, key=key)
    certificate.reload()
    assert (certificate.problem, certificate.expires_at) == ("", expires_at)


@pytest.mark.parametrize("missing", ["cert", "key"])
def test_a_certificate_that_is_missing_at_the_start_is_an_error(tmp_path: Path, missing: str) -> None:
    files = Files(tmp_path)
    _, cert, key = self_signed(["127.0.0.1"])
    files.put(**{name: content for name, content in (("cert", cert), ("key", key)) if name != missing})

    with pytest.raises(CertificateError, match="No such file or directory"):
        ServingCertificate(files.cert, files.key)
