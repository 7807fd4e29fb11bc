"""The TLS context of the server, which follows its certificate files without closing a socket."""

import asyncio
import logging
import ssl
import tempfile
from pathlib import Path
from typing import Self

from cryptography import x509

_log = logging.getLogger(__name__)


class CertificateError(Exception):
    """A certificate and key that cannot be served; the message names the files."""


class ServingCertificate:
    """A certificate and its key, from files that may be replaced at any time.

    `context` is for the listener. Every handshake is handed on to a context that was loaded whole, so that a
    half-written or mismatched pair never touches the one that is served. `problem` says why the files in place are
    not the ones served, or is empty. `expires_at` is in seconds since the epoch.
    """

    def __init__(self, cert: Path, key: Path, *, replaceable: bool = True) -> None:
        """Raises CertificateError."""
        self._cert, self._key = cert, key
        self._replaceable = replaceable
        self._content = b""
        self.problem = ""
        self._load()
        self.context = _empty_context()
        self.context.sni_callback = self._hand_on

    @classmethod
    def of(cls, cert_pem: bytes, key_pem: bytes) -> Self:
        """A pair that is not in files and never replaced. Raises CertificateError."""
        # The ssl module loads a key from nothing but a file.
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            cert.write_bytes(cert_pem)
            key.write_bytes(key_pem)
            return cls(cert, key, replaceable=False)

    async def follow(self, *, every_s: float) -> None:
        """Loads the files again whenever they have changed, for ever."""
        while self._replaceable:
            await asyncio.sleep(every_s)
            self.reload()

    def reload(self) -> None:
        """Serves what the files hold now, if it is a pair; else goes on serving what it served."""
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
            content = self._cert.read_bytes() + self._key.read_bytes()
            if content == self._content:
                return False
            context = _empty_context()
            # An encrypted key is refused: without a password of our own, OpenSSL would ask the terminal for one.
            context.load_cert_chain(self._cert, self._key, password="")
            leaf = x509.load_pem_x509_certificate(self._cert.read_bytes())
        except OSError as error:  # ssl.SSLError is one
            reason = error.strerror or str(error)
            raise CertificateError(f"{self._cert}, {self._key}: {_plain(error, reason)}") from error
        except ValueError as error:
            raise CertificateError(f"{self._cert}: not a certificate in PEM form") from error
        self._content = content
        self._served = context
        self.expires_at = leaf.not_valid_after_utc.timestamp()
        return True

    def _hand_on(self, connection: ssl.SSLObject, *_: object) -> None:
        connection.context = self._served


def _empty_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _plain(error: OSError, reason: str) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if isinstance(error, ssl.SSLError):
        return "not a certificate and an unencrypted key in PEM form"
    return reason
