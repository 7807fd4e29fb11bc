"""Configuration and credentials."""

import base64
import errno
import json
import socket
import ssl
from pathlib import Path

import pytest

from tests.samples import Json
from webhook.cluster.access import Access, AccessError, reason
from webhook.server.certificates import self_signed


def kubeconfig(folder: Path, cluster: Json, user: Json) -> Access:
    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": user}],
    }
    path = folder / "config"
    path.write_text(json.dumps(content))
    return Access(path)


def content(path: object) -> bytes:
    return Path(str(path)).read_bytes()


async def test_a_token_and_an_authority_reach_kopf(tmp_path: Path) -> None:
    ca, _, _ = self_signed(["localhost"])
    cluster = {"server": "https://a:6443", "certificate-authority-data": base64.b64encode(ca).decode()}

    found = await kubeconfig(tmp_path, cluster, {"token": "secret"}).for_kopf()

    assert found.server == "https://a:6443"
    assert found.as_http_headers() == {"Authorization": "Bearer secret"}
    assert content(found.ca_path) == ca
    assert not found.insecure


async def test_a_client_certificate_and_an_unverified_server_reach_kopf(tmp_path: Path) -> None:
    _, cert, key = self_signed(["localhost"])
    user = {
        "client-certificate-data": base64.b64encode(cert).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }

    found = await kubeconfig(tmp_path, {"server": "https://a", "insecure-skip-tls-verify": True}, user).for_kopf()

    assert found.as_http_headers() == {}
    assert found.insecure
    assert (content(found.certificate_path), content(found.private_key_path)) == (cert, key)


async def test_credentials_are_read_afresh(tmp_path: Path) -> None:
    access = kubeconfig(tmp_path, {"server": "https://a"}, {"token": "old"})
    await access.for_kopf()
    kubeconfig(tmp_path, {"server": "https://a"}, {"token": "new"})

    assert (await access.for_kopf()).as_http_headers() == {"Authorization": "Bearer new"}


async def test_in_a_pod_its_own_account_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    with pytest.raises(AccessError, match="the pod's service account: "):
        await Access().for_kopf()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "certificate verify failed"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "no answer in time"),
        (ValueError("over\ntwo lines"), "over two lines"),
    ],
)
def test_what_went_wrong_is_told_in_a_line(error: Exception, told: str) -> None:
    assert reason(error) == told
