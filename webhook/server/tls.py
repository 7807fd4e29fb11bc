"""The TLS context of the server, which follows its certificate without closing a socket."""

import asyncio
import logging
import os
import ssl
import sys
import tempfile
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from cryptography import x509

_log = logging.getLogger(__name__)
_READ_BYTES = 32 * 1024


class CertificateError(Exception):
    """Certificates or a key that cannot be served with; the message names the files."""


class ServingCertificate:
    """A certificate and its key, from files that may be replaced at any time, or handed over.

    `context` is for the listener. Every handshake is handed on to a context that was loaded whole, so that a
    half-written or mismatched pair never touches the one that is served. With `clients`, a file of authorities in PEM
    form, only who shows a certificate signed by one of them is served.

    `problem` says why what there is now is not what is served, or is empty. `expires_at` is in seconds since the epoch,
    and so is `authority_expires_at`, which is None where the authority is not ours. `awaited`: what is served is only a
    stand-in, which nobody trusts, until there is something to serve.
    """

    def __init__(self, cert: Path | bytes, key: Path | bytes, *, clients: Path | None = None) -> None:
        """Files, or PEM as it stands. Raises CertificateError."""
        self._cert, self._key, self._clients = cert, key, clients
        self._content: tuple[bytes, ...] = ()
        self.problem = ""
        self.awaited = False
        self.authority_expires_at: float | None = None
        self._load()
        self.context = _empty_context()
        if clients is not None:
            # Of the context that a handshake is handed on to, OpenSSL takes the authorities but not this.
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.sni_callback = self._hand_on

    @classmethod
    def of(cls, cert_pem: bytes, key_pem: bytes, *, clients: Path | None = None, awaited: bool = False) -> Self:
        """A pair that is not in files. Raises CertificateError."""
        one = cls(cert_pem, key_pem, clients=clients)
        one.awaited = awaited
        return one

    async def follow(self, *, every_s: float) -> None:
        """Loads the files again whenever they have changed, for ever."""
        while True:
            await asyncio.sleep(every_s)
            self.reload()

    def replace(self, cert_pem: bytes, key_pem: bytes, authority_expires_at: float) -> None:
        """Serves this pair from now on."""
        self._cert, self._key = cert_pem, key_pem
        self.authority_expires_at = authority_expires_at
        self.awaited = False
        self.reload()

    def reload(self) -> None:
        """Serves what there is now, if it is a pair; else goes on serving what it served."""
        try:
            changed = self._load()
        except CertificateError as error:
            if str(error) != self.problem:
                _log.warning("certificate not reloaded: %s", error)
            self.problem = str(error)
        else:
            self.problem = ""
            if changed:
                _log.info("certificate reloaded")

    def _load(self) -> bool:
        """Whether there was something new to load."""
        try:
            content = cert, key, clients = _read(self._cert), _read(self._key), _read(self._clients or b"")
        except OSError as error:
            raise CertificateError(f"{error.filename}: {error.strerror}") from error
        if content == self._content:
            return False
        context = _empty_context()
        leaf = self._load_pair(context, cert, key)
        if self._clients is not None:
            self._load_clients(context, clients)
        self._content = content
        self._served = context
        self.expires_at = leaf.not_valid_after_utc.timestamp()
        return True

    def _load_pair(self, context: ssl.SSLContext, cert: bytes, key: bytes) -> x509.Certificate:
        try:
            with _in_a_file(cert + b"\n" + key) as path:
                # An encrypted key is refused: without a password of our own, OpenSSL would ask the terminal for one.
                context.load_cert_chain(path, password="")
            return x509.load_pem_x509_certificate(cert)
        except ssl.SSLError as error:
            raise CertificateError(f"{self._named()}: {_plain(error)}") from error
        except ValueError as error:
            raise CertificateError(f"{self._named()}: not a certificate in PEM form") from error

    def _load_clients(self, context: ssl.SSLContext, authorities: bytes) -> None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{self._clients}: no certificates in PEM form") from error

    def _named(self) -> str:
        return ", ".join(str(one) for one in (self._cert, self._key) if isinstance(one, Path)) or "the certificate"

    def _hand_on(self, connection: ssl.SSLObject, *_: object) -> None:
        connection.context = self._served


def read_in_small_buffers() -> None:
    """From now on a TLS connection of this process, either way, reads through 32 KiB in place of asyncio's 256 KiB.

    It keeps them as long as it lives, and the API server opens dozens in a burst: 300 KiB each, now about 50. Bodies of
    6 KiB, 100 KiB and 6 MiB cost no more CPU time; with 16 KiB, one TLS record, those of 100 KiB cost 50 µs more.
    asyncio has no other place to say so.
    """
    SSLProtocol.max_size = _READ_BYTES


def _read(place: Path | bytes) -> bytes:
    return place if isinstance(place, bytes) else place.read_bytes()


@contextmanager
def _in_a_file(content: bytes) -> Iterator[str]:
    """The ssl module loads a key from nothing but a file. Where there are files in memory, it never is on a disk."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("tls")
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile(buffering=0) as file:
            file.write(content)
            yield file.name


def _empty_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _plain(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    return "not a certificate and an unencrypted key in PEM form"
