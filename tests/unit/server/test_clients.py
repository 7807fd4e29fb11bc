"""Who may call at all, where only the API server is to: by the certificate that a client shows."""

import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.server.clients import Clients
from tests.unit.server.conftest import Serving, admission_review, running
from webhook.model.request import Stage
from webhook.server.certificates import self_signed
from webhook.server.tls import CertificateError, ServingCertificate

PIN = "/admit/pin"
DECIDED = f'samestep_review_duration_seconds_count{{stage="{Stage.MUTATE.value}"}}'


@pytest.fixture
def clients(tmp_path: Path) -> Clients:
    return Clients(tmp_path)


def serving_only(clients: Clients, client: Path | None, **options: Any) -> AbstractAsyncContextManager[Serving]:  # noqa: ANN401
    """A server for these clients, called by this one."""
    ca, cert, key = self_signed(["127.0.0.1"])
    certificate = ServingCertificate.of(cert, key, clients=clients.file)
    return running(certificate=certificate, trusted=ca, shows=client, **options)


async def test_who_shows_a_certificate_of_the_authority_is_served(clients: Clients) -> None:
    async with serving_only(clients, clients.client("kube-apiserver")) as serving:
        assert (await serving.post(PIN, admission_review()))[0] == 200


@pytest.mark.parametrize("of_another", [False, True])
async def test_who_shows_none_or_one_of_another_authority_gets_no_connection(
    clients: Clients, tmp_path: Path, *, of_another: bool
) -> None:
    client = Clients(tmp_path, "others").client("kube-apiserver") if of_another else None
    async with serving_only(clients, client) as serving:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await serving.post(PIN, admission_review())
        # Nor does this keep others, or the kubelet, from being served.
        assert (await serving.get("/readyz", probe=True))[0] == 200


@pytest.mark.parametrize("client", [("kube-apiserver",), ("any", "other.example.com", "kube-apiserver")])
async def test_who_is_of_the_right_name_is_served(clients: Clients, client: tuple[str, ...]) -> None:
    names = frozenset({"kube-apiserver", "unused"})
    async with serving_only(clients, clients.client(*client), client_names=names) as serving:
        assert (await serving.post(PIN, admission_review()))[0] == 200
        assert await serving.metric(DECIDED) == 1


async def test_who_is_of_another_name_is_refused_and_nothing_is_decided(clients: Clients) -> None:
    client = clients.client("neighbour", "neighbour.example.com")
    async with serving_only(clients, client, client_names=frozenset({"kube-apiserver"})) as serving:
        assert (await serving.post(PIN, admission_review()))[0] == 403
        assert await serving.metric(DECIDED) == 0


async def test_a_new_authority_for_clients_is_followed_past_a_broken_file(clients: Clients, tmp_path: Path) -> None:
    new = Clients(tmp_path, "new")
    async with serving_only(clients, new.client("kube-apiserver"), certificate_check_s=3600) as serving:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await serving.post(PIN, admission_review())
        certificate = serving.server._certificate
        clients.file.write_text("not a certificate")
        certificate.reload()
        assert certificate.problem == f"{clients.file}: no certificates in PEM form"
        clients.file.write_bytes(new.file.read_bytes())
        certificate.reload()
        assert certificate.problem == ""
        assert (await serving.post(PIN, admission_review()))[0] == 200


def test_an_authority_for_clients_that_is_missing_at_the_start_is_an_error(tmp_path: Path) -> None:
    _, cert, key = self_signed(["127.0.0.1"])
    with pytest.raises(CertificateError, match=r"none\.crt: No such file or directory"):
        ServingCertificate.of(cert, key, clients=tmp_path / "none.crt")
