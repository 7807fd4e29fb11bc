"""Who has a client certificate, for servers that ask for one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Clients:
    """An authority for client certificates, in `file`, and who has one."""

    def __init__(self, folder: Path, name: str = "clients") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.crt"
        constraint = x509.BasicConstraints(ca=True, path_length=0)
        certificate = _certificate(self._name, self._name, self._key).add_extension(constraint, critical=True)
        self.file.write_bytes(certificate.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def client(self, common_name: str, *dns: str) -> Path:
        """Certificate and key of someone of these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _certificate(name, self._name, key)
        if dns:
            names = x509.SubjectAlternativeName([x509.DNSName(one) for one in dns])
            builder = builder.add_extension(names, critical=False)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self._folder / f"{self.file.stem}-{common_name}.pem"
        path.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM) + private)
        return path


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
